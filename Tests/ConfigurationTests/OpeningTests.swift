import Configuration
import Testing

/// Files that are put beside each other: none opens what another one keeps closed.
@Suite struct OpeningTests {
    /// What the README puts into `conf.d/network.conf`.
    private static let network = "listener 1883\nallow_anonymous false\npassword_file users\n"

    private func errors(_ files: [String: String], main: String = "include_dir d\n") -> [String] {
        let others = Dictionary(uniqueKeysWithValues: files.map { ("d/\($0).conf", $1) })
        return read(main, others: others).diagnostics.filter { $0.severity == .error }.map(\.description)
    }

    @Test func `a later file does not let anonymous clients in where an earlier one asks for a password`() {
        #expect(
            errors(["network": Self.network, "socket": "listener 0 /run/s\nallow_anonymous true\n"]) == [
                "Error: d/socket.conf:2: allow_anonymous: everybody could come in without a login on port 1883 (d/network.conf:1), where "
                    + "d/network.conf:2 asks for one. To let everybody in on one listener, write listener_allow_anonymous true below its "
                    + "line; to let them in on all, change d/network.conf:2."
            ])
    }

    @Test func `who may come in is said of each listener that would be open, and of no other`() {
        let closed = "listener 1\nallow_anonymous false\nlistener 2 ::1\nlistener 3\nlistener_allow_anonymous false\n"
        let certificates = "listener 4\ncertfile c\nkeyfile k\ncafile a\nrequire_certificate true\nuse_identity_as_username true\n"
        let said = errors(["a": closed, "b": certificates, "c": "listener 5\nallow_anonymous true\n", "d": "listener 0 /run/s\n"])
        #expect(said.count == 1)
        #expect(
            said[0].contains("without a login on port 1 (d/a.conf:1), port 2 of ::1 (d/a.conf:3), /run/s (d/d.conf:1), where"))
    }

    @Test func `a listener of one's own may be opened, and a later file may close`() {
        #expect(errors(["network": Self.network, "socket": "listener 0 /run/s\nlistener_allow_anonymous true\n"]) == [])
        #expect(errors(["a": "listener 1\nallow_anonymous true\n", "network": Self.network]) == [])
        #expect(errors(["a": "listener 0 /run/s\nallow_anonymous true\n", "b": "allow_anonymous true\n"]) == [])
    }

    @Test func `users behind a file that lets everybody in are told that nobody is asked for them`() {
        let others = ["d/a.conf": "allow_anonymous true\n", "d/b.conf": "listener 1883\npassword_file users\n"]
        #expect(
            read("include_dir d\n", others: others).diagnostics.map(\.description) == [
                "Warning: d/b.conf:2: password_file: everybody may come in without a login on port 1883 (d/b.conf:1), for d/a.conf:1 lets "
                    + "them in. To ask for one there, write listener_allow_anonymous false below the listener."
            ])
        let closed = [
            "d/a.conf": "allow_anonymous true\n", "d/b.conf": "listener 1\nlistener_allow_anonymous false\npassword_file u\n",
        ]
        #expect(read("include_dir d\n", others: closed).diagnostics.isEmpty)
    }

    @Test func `within one file the last line counts, with a warning`() {
        let result = read("listener 1\nallow_anonymous false\npassword_file p\nallow_anonymous true\n")
        #expect(result.texts == ["Warning: m.conf:4: allow_anonymous: given before on line 2; the last one counts."])
        #expect(result.configuration.listeners[0].security.allowsAnonymous)
        // A file that has opened itself keeps nobody out, and one that is closed last is closed.
        #expect(errors(["a": "listener 1\nallow_anonymous false\nallow_anonymous true\n", "b": "allow_anonymous true\n"]) == [])
        let main = "allow_anonymous false\ninclude_dir d\nallow_anonymous false\n"
        #expect(errors(["b": "listener 1\nallow_anonymous true\n"], main: main) == [])
    }

    @Test func `the main file closes before and behind what it includes`() {
        let opening = ["b": "listener 1\nallow_anonymous true\n"]
        #expect(errors(opening, main: "allow_anonymous false\ninclude_dir d\n").count == 1)
        let closing = ["b": "listener 1\nallow_anonymous false\n"]
        #expect(errors(closing, main: "include_dir d\nallow_anonymous true\n").count == 1)
    }

    @Test(arguments: [
        "password_file p", "martlet_scram_file p", "martlet_introspection_url https://a.example/i",
        "martlet_ldap_url ldaps://d\nmartlet_ldap_user_dn dc=x",
        "plugin mosquitto_dynamic_security.so\nplugin_opt_config_file p",
    ])
    func `users beside a listener ask for a login though nothing says so`(users: String) {
        #expect(errors(["a": "listener 1\n\(users)\n", "b": "allow_anonymous true\n"]).count == 1)
        #expect(errors(["a": "listener 1\n", "b": "\(users)\n", "c": "listener 2\nallow_anonymous true\n"]).count == 1)
        // Nobody is kept out by a listener alone, or by users where everybody is let in already.
        #expect(errors(["a": "listener 1\n", "b": "allow_anonymous true\n\(users)\n"]) == [])
        #expect(errors(["a": "listener 1\nallow_anonymous true\n\(users)\n", "b": "allow_anonymous true\n"]) == [])
        #expect(errors(["a": "\(users)\n", "b": "listener 1\nallow_anonymous true\n"]) == [])
    }

    @Test func `a line above every listener of its file does not open the default listener of another one`() {
        #expect(
            errors(["a": "port 1883\nallow_anonymous false\npassword_file p\n", "b": "listener_allow_anonymous true\nlistener 2\n"])
                == [
                    "Error: d/b.conf:1: listener_allow_anonymous: no line \"listener PORT\" stands above it in this file, so that everybody "
                        + "could come in without a login on the default listener, where d/a.conf:2 asks for one. Write it below the listener "
                        + "that is meant."
                ])
    }

    @Test func `what is measured and the payloads stay as closed as an earlier file says`() {
        let closed = "allow_anonymous true\nmartlet_metrics_anonymous false\nmartlet_http_payloads none\n"
        #expect(
            errors(["a": closed, "b": "martlet_metrics_anonymous true\nmartlet_http_payloads viewer\n"]) == [
                "Error: d/b.conf:1: martlet_metrics_anonymous: everybody who reaches a listener with protocol http_api could read what is "
                    + "measured without a login, which d/a.conf:2 forbids. If it is meant, change that line.",
                "Error: d/b.conf:2: martlet_http_payloads: more people could see the payloads of messages over HTTP, which d/a.conf:3 "
                    + "forbids. If it is meant, change that line.",
            ])
        #expect(errors(["a": "allow_anonymous true\nmartlet_http_payloads viewer\n", "b": "martlet_http_payloads none\n"]) == [])
    }

    @Test func `nobody rises to administrator by a later file`() {
        let (viewer, admin) = ("martlet_http_user anna viewer\n", "martlet_http_user anna admin\n")
        #expect(
            errors(["a": viewer, "b": admin]) == [
                "Error: d/b.conf:1: martlet_http_user: \"anna\" would be an admin, whom d/a.conf:1 makes a viewer. If it is meant, change "
                    + "that line."
            ])
        #expect(errors(["a": admin, "b": viewer]) == [] && errors(["a": viewer + admin]) == [])
        #expect(errors(["a": viewer, "b": "martlet_http_user bob admin\n"]) == [])
    }

    @Test func `per_listener_settings is not switched off behind the settings of a listener`() {
        let own = "per_listener_settings true\nlistener 1\nacl_file rules\npassword_file p\n"
        #expect(
            errors(["a": own, "b": "per_listener_settings false\n"]) == [
                "Error: d/b.conf:1: per_listener_settings: Duplicate per_listener_settings value in configuration, given before on d/a.conf:1."
            ])
    }

    @Test func `rules and users of a plug-in are not passed over for those of another line`() {
        let plugin = "plugin mosquitto_acl_file.so\nplugin_opt_acl_file strict\n"
        #expect(
            errors(["a": "listener 1\nallow_anonymous true\n\(plugin)", "b": "listener 2\nacl_file lax\n"]) == [
                "Error: d/a.conf:4: plugin_opt_acl_file: one file is read, and \"lax\" is another one; keep one of them, with what both say."
            ])
        #expect(errors(["a": "listener 1\nallow_anonymous true\n\(plugin)", "b": "acl_file strict\n"]) == [])
        let users = "plugin mosquitto_password_file.so\nplugin_opt_password_file p\n"
        #expect(errors(["a": "listener 1\npassword_file q\n", "b": users]).count == 1)
    }
}
