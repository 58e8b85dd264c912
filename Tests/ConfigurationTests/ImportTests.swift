import Configuration
import Testing

/// mosquitto's configurations as people have them, and what an import makes of each.
@Suite struct ImportTests {
    /// A machine on which Martlet's package is installed, with the given files of mosquitto's.
    private func plan(
        _ files: [String: String], of main: String = "/etc/mosquitto/mosquitto.conf", isPackaged: Bool = true,
        unreadable: Set<String> = [], directories: [(name: String, path: String)] = []
    ) -> ConfigurationImport {
        var files = files
        if isPackaged {
            files["/etc/martlet/martlet.conf"] = Self.packaged
            files["/etc/martlet/conf.d/README"] = ""
        }
        let all = files
        var source = ImportSource(
            files: MemoryFiles(all),
            kind: { path in
                if all[path] != nil { return .file }
                return all.keys.contains { $0.hasPrefix(path + "/") } ? .directory : .missing
            },
            isReadable: { !unreadable.contains($0) })
        source.directories = directories
        var target = ImportTarget(
            directory: isPackaged ? "/etc/martlet" : "/srv/martlet",
            storeDirectory: isPackaged ? "/var/lib/martlet" : "/srv/martlet/data")
        target.userName = "martlet"
        if isPackaged { (target.logDirectory, target.runtimeDirectory) = ("/var/log/martlet", "/run/martlet") }
        var importer = ConfigurationImporter(of: main, source: source, target: target)
        return importer.run()
    }

    private static let packaged = """
        persistence true
        persistence_location /var/lib/martlet
        log_dest stderr
        log_timestamp_format %Y-%m-%dT%H:%M:%S
        user martlet
        include_dir /etc/martlet/conf.d
        listener 0 /run/martlet/http.sock
        protocol http_api
        """

    /// Debian's file, before its include_dir what a test adds.
    private func debian(_ lines: String = "") -> String {
        "pid_file /run/mosquitto/mosquitto.pid\n\npersistence true\npersistence_location /var/lib/mosquitto/\n\n"
            + "log_dest file /var/log/mosquitto/mosquitto.log\n\n\(lines)include_dir /etc/mosquitto/conf.d\n"
    }

    @Test func `Debian's default with a file in conf_d`() throws {
        let plan = plan([
            "/etc/mosquitto/mosquitto.conf": debian(),
            "/etc/mosquitto/conf.d/local.conf": "listener 1883\nallow_anonymous false\npassword_file /etc/mosquitto/passwd\n",
            "/etc/mosquitto/conf.d/README": "no configuration", "/etc/mosquitto/passwd": "anna:$7$x\n",
            "/var/lib/mosquitto/mosquitto.db": "",
        ])
        #expect(plan.problems == [])
        #expect(
            plan.text(of: "/etc/martlet/conf.d/00-mosquitto.conf") == [
                "#- pid_file /run/mosquitto/mosquitto.pid", "", "#- persistence true",
                "#- persistence_location /var/lib/mosquitto/", "",
                "log_dest file /var/log/martlet/martlet.log", "", "#- include_dir /etc/mosquitto/conf.d",
            ])
        #expect(
            plan.text(of: "/etc/martlet/conf.d/local.conf") == [
                "listener 1883", "allow_anonymous false", "password_file /etc/martlet/passwd",
            ])
        #expect(
            plan.destinations
                == [
                    "/etc/martlet/conf.d/00-mosquitto.conf", "/etc/martlet/passwd", "/etc/martlet/conf.d/local.conf",
                ].sorted())
        #expect(plan.database?.destination == "/var/lib/martlet/mosquitto.db")
        #expect(plan.copies.first { $0.destination == "/etc/martlet/passwd" }?.purpose == .security)
        #expect(
            plan.result.configuration.listeners.first { $0.endpoint == .tcp(port: 1883, host: nil) }?.security.allowsAnonymous
                == false)
    }

    @Test func `TLS with keys of mosquitto's, and a certificate that others renew`() {
        let files = [
            "/etc/mosquitto/mosquitto.conf": debian(),
            "/etc/mosquitto/conf.d/tls.conf": """
            listener 8883
            allow_anonymous true
            cafile /etc/mosquitto/ca_certificates/ca.crt
            certfile /etc/mosquitto/certs/server.crt
            keyfile /etc/mosquitto/certs/server.key
            crlfile /etc/ssl/crl.pem
            listener 8884
            certfile /etc/letsencrypt/live/home/fullchain.pem
            keyfile /etc/letsencrypt/live/home/privkey.pem
            """,
            "/etc/mosquitto/ca_certificates/ca.crt": "", "/etc/mosquitto/certs/server.crt": "",
            "/etc/mosquitto/certs/server.key": "",
            "/etc/ssl/crl.pem": "", "/etc/letsencrypt/live/home/fullchain.pem": "", "/etc/letsencrypt/live/home/privkey.pem": "",
        ]
        let plan = plan(files, unreadable: ["/etc/letsencrypt/live/home/privkey.pem"])
        #expect(plan.problems == [])
        #expect(
            plan.text(of: "/etc/martlet/conf.d/tls.conf") == [
                "listener 8883", "allow_anonymous true", "cafile /etc/martlet/ca_certificates/ca.crt",
                "certfile /etc/martlet/certs/server.crt", "keyfile /etc/martlet/certs/server.key", "crlfile /etc/ssl/crl.pem",
                "listener 8884", "certfile /etc/letsencrypt/live/home/fullchain.pem", "keyfile /etc/martlet/certs/privkey.pem",
            ])
        #expect(plan.remarks.contains { $0.contains("privkey.pem") && $0.contains("Whoever renews it") })
    }

    @Test func `keys of clients, and a directory of authorities`() {
        let plan = plan([
            "/etc/mosquitto/mosquitto.conf": debian("psk_file /etc/mosquitto/psk\n"),
            "/etc/mosquitto/conf.d/psk.conf":
                "listener 8883\npsk_hint home\nuse_identity_as_username true\nlistener 8884\ncapath /etc/mosquitto/ca\ncertfile /etc/ssl/s.crt\nkeyfile /etc/ssl/s.key\n",
            "/etc/mosquitto/psk": "lamp:00ff\n", "/etc/mosquitto/ca/1.pem": "", "/etc/mosquitto/ca/2.pem": "", "/etc/ssl/s.crt": "",
            "/etc/ssl/s.key": "",
        ])
        #expect(plan.problems == [])
        #expect(plan.text(of: "/etc/martlet/conf.d/00-mosquitto.conf").contains("psk_file /etc/martlet/psk"))
        #expect(plan.text(of: "/etc/martlet/conf.d/psk.conf").contains("capath /etc/martlet/ca"))
        #expect(Set(plan.destinations).isSuperset(of: ["/etc/martlet/psk", "/etc/martlet/ca/1.pem", "/etc/martlet/ca/2.pem"]))
    }

    @Test func `a bridge with certificates and a password`() {
        let plan = plan([
            "/etc/mosquitto/mosquitto.conf": debian(),
            "/etc/mosquitto/conf.d/bridge.conf": """
            connection cloud
            address mqtt.example.com:8883
            topic sensors/# out 1 "" house/
            bridge_cafile /etc/ssl/certs/ca-certificates.crt
            bridge_certfile /etc/mosquitto/certs/bridge.crt
            bridge_keyfile /etc/mosquitto/certs/bridge.key
            remote_username house
            remote_password secret word
            """,
            "/etc/ssl/certs/ca-certificates.crt": "", "/etc/mosquitto/certs/bridge.crt": "", "/etc/mosquitto/certs/bridge.key": "",
        ])
        #expect(plan.problems == [])
        let text = plan.text(of: "/etc/martlet/conf.d/bridge.conf")
        #expect(text.contains("bridge_keyfile /etc/martlet/certs/bridge.key"))
        #expect(text.contains("bridge_cafile /etc/ssl/certs/ca-certificates.crt"))
        #expect(text.contains("remote_password secret word"))
    }

    @Test func `WebSocket, a socket of the machine, and a site`() {
        let plan = plan([
            "/etc/mosquitto/mosquitto.conf": debian(
                "listener 9001\nprotocol websockets\nallow_anonymous true\nlistener 0 /run/mosquitto/mosquitto.sock\n"),
            "/etc/mosquitto/conf.d/README": "",
        ])
        #expect(plan.problems == [])
        let text = plan.text(of: "/etc/martlet/conf.d/00-mosquitto.conf")
        #expect(text.contains("listener 9001") && text.contains("protocol websockets"))
        #expect(text.contains("listener 0 /run/martlet/mosquitto.sock"))
        #expect(
            plan.changes.contains {
                $0.after?.hasSuffix("mosquitto.sock") == true && $0.reason?.contains("clients have to be told") == true
            })
    }

    @Test func `per_listener_settings comes before the files that it is for`() {
        let plan = plan([
            "/etc/mosquitto/mosquitto.conf": debian("per_listener_settings true\n"),
            "/etc/mosquitto/conf.d/a.conf": "listener 1883 127.0.0.1\nallow_anonymous true\n",
            "/etc/mosquitto/conf.d/b.conf": "listener 8883\npassword_file /etc/mosquitto/b.users\nacl_file /etc/mosquitto/b.acl\n",
            "/etc/mosquitto/b.users": "", "/etc/mosquitto/b.acl": "",
        ])
        #expect(plan.problems == [])
        let listeners = plan.result.configuration.listeners
        #expect(listeners.first { $0.endpoint == .tcp(port: 8883, host: nil) }?.security.passwordFile == "/etc/martlet/b.users")
        #expect(listeners.first { $0.endpoint == .tcp(port: 1883, host: "127.0.0.1") }?.security.passwordFile == nil)
    }

    @Test func `dynamic security goes where the broker may write`() {
        let plan = plan([
            "/etc/mosquitto/mosquitto.conf": debian(
                """
                listener 1883
                plugin /usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so
                plugin_opt_config_file /var/lib/mosquitto/dynamic-security.json
                plugin_opt_password_init_file /etc/mosquitto/none

                """), "/etc/mosquitto/conf.d/README": "", "/var/lib/mosquitto/dynamic-security.json": "{}",
        ])
        #expect(plan.problems == [])
        let copy = plan.copies.first { $0.destination == "/var/lib/martlet/dynamic-security.json" }
        #expect(copy?.purpose == .state && copy?.source == "/var/lib/mosquitto/dynamic-security.json")
        #expect(
            plan.text(of: "/etc/martlet/conf.d/00-mosquitto.conf").contains("#- plugin_opt_password_init_file /etc/mosquitto/none"))
    }

    @Test func `IOTstack's container, whose directories are volumes of this machine`() {
        let files = [
            "/home/pi/IOTstack/volumes/mosquitto/config/mosquitto.conf": """
            persistence true
            persistence_location /mosquitto/data/
            log_dest file /mosquitto/log/mosquitto.log
            log_dest stdout
            listener 1883
            password_file /mosquitto/pwfile/pwfile.passwd
            acl_file /mosquitto/config/filter.acl
            """,
            "/home/pi/IOTstack/volumes/mosquitto/pwfile/pwfile.passwd": "",
            "/home/pi/IOTstack/volumes/mosquitto/config/filter.acl": "",
            "/home/pi/IOTstack/volumes/mosquitto/data/mosquitto.db": "",
        ]
        let main = "/home/pi/IOTstack/volumes/mosquitto/config/mosquitto.conf"
        let unmapped = plan(files, of: main)
        #expect(
            unmapped.obstacles.count == 2 && unmapped.obstacles.allSatisfy { $0.contains("--map /mosquitto=") },
            "\(unmapped.obstacles)")
        let plan = plan(files, of: main, directories: [("/mosquitto", "/home/pi/IOTstack/volumes/mosquitto")])
        #expect(plan.problems == [])
        let text = plan.text(of: "/etc/martlet/conf.d/00-mosquitto.conf")
        #expect(text.contains("password_file /etc/martlet/pwfile.passwd") && text.contains("acl_file /etc/martlet/filter.acl"))
        #expect(text.contains("log_dest file /var/log/martlet/martlet.log") && text.contains("log_dest stdout"))
        #expect(plan.database?.source == "/home/pi/IOTstack/volumes/mosquitto/data/mosquitto.db")
    }

    @Test func `Home Assistant's add-on, whose plug-in's lines stay and whose files come along`() {
        let plan = plan(
            [
                "/etc/mosquitto/mosquitto.conf": """
                protocol mqtt
                user root
                log_dest stdout
                log_type error
                persistence true
                persistence_location /data/
                max_queued_messages 8192
                auth_plugin /usr/share/mosquitto/go-auth.so
                auth_opt_backends files, http
                auth_opt_files_password_path /etc/mosquitto/pw
                auth_opt_files_acl_path /etc/mosquitto/acl
                auth_opt_http_host 127.0.0.1
                auth_opt_http_getuser_uri /authentication
                include_dir /share/mosquitto
                listener 1883
                """, "/share/mosquitto/README": "", "/etc/mosquitto/pw": "", "/etc/mosquitto/acl": "",
            ])
        #expect(plan.obstacles == [] && plan.withoutCounterpart == [])
        #expect(!plan.result.hasErrors, "\(plan.result.texts)")
        let text = plan.text(of: "/etc/martlet/conf.d/00-mosquitto.conf")
        #expect(text.contains("auth_plugin /usr/share/mosquitto/go-auth.so"))
        #expect(text.contains("auth_opt_files_password_path /etc/martlet/pw") && text.contains("auth_opt_http_host 127.0.0.1"))
    }

    @Test func `no other configuration is there yet`() {
        let plan = plan(
            [
                "/etc/mosquitto/mosquitto.conf": debian("user mosquitto\nlistener 1883\nallow_anonymous true\n"),
                "/etc/mosquitto/conf.d/more.conf": "max_queued_messages 5\n",
            ], isPackaged: false)
        #expect(plan.problems == [])
        #expect(
            plan.text(of: "/srv/martlet/martlet.conf") == [
                "user martlet", "persistence_location /srv/martlet/data", "#- pid_file /run/mosquitto/mosquitto.pid", "",
                "persistence true",
                "#- persistence_location /var/lib/mosquitto/", "", "#- log_dest file /var/log/mosquitto/mosquitto.log", "",
                "#- user mosquitto", "listener 1883", "allow_anonymous true", "include_dir /srv/martlet/conf.d",
            ])
        #expect(plan.result.configuration.persistence.location == "/srv/martlet/data")
    }

    @Test func `of lines that contradict each other the one counts that mosquitto takes`() {
        let plan = plan([
            "/etc/mosquitto/mosquitto.conf": debian("listener 1883\nallow_anonymous false\n"),
            "/etc/mosquitto/conf.d/open.conf": "allow_anonymous true\n",
        ])
        #expect(plan.problems == [])
        #expect(plan.text(of: "/etc/martlet/conf.d/00-mosquitto.conf").contains("#- allow_anonymous false"))
        #expect(
            plan.result.configuration.listeners.first { $0.endpoint == .tcp(port: 1883, host: nil) }?.security.allowsAnonymous
                == true)
    }

    @Test func `what is missing is named, all of it, and nothing is planned to be written`() {
        let plan = plan([
            "/etc/mosquitto/mosquitto.conf": debian(
                "listener 8883\ncertfile /etc/mosquitto/a\nkeyfile b\ncapath /c\nacl_file /etc/mosquitto/d\n"),
            "/etc/mosquitto/conf.d/README": "",
        ])
        #expect(
            plan.obstacles == [
                "/etc/mosquitto/mosquitto.conf:9: certfile: /etc/mosquitto/a is not there.",
                "/etc/mosquitto/mosquitto.conf:10: keyfile: /etc/mosquitto/b is not there.",
                "/etc/mosquitto/mosquitto.conf:11: capath: /c is not there.",
                "/etc/mosquitto/mosquitto.conf:12: acl_file: /etc/mosquitto/d is not there.",
            ])
    }

    @Test func `files of one name have places of their own, and a file that two lines name has one`() {
        let plan = plan([
            "/etc/mosquitto/mosquitto.conf": debian("listener 1\nacl_file /a/acl\nlistener 2\npassword_file /b/acl\n"),
            "/etc/mosquitto/conf.d/x.conf": "listener 3\ncertfile /etc/mosquitto/k\nkeyfile /etc/mosquitto/k\n", "/a/acl": "",
            "/b/acl": "",
            "/etc/mosquitto/k": "",
        ])
        #expect(plan.problems == [])
        #expect(Set(plan.destinations).isSuperset(of: ["/etc/martlet/acl", "/etc/martlet/b-acl", "/etc/martlet/k"]))
        #expect(Set(plan.destinations).count == plan.destinations.count)
    }

    @Test func `a target that reads no other file is told what it lacks`() {
        let plan = plan(
            [
                "/srv/martlet/martlet.conf": "listener 1884\n", "/etc/mosquitto/mosquitto.conf": "listener 1883\n",
            ], isPackaged: false)
        #expect(plan.obstacles.count == 1 && plan.obstacles[0].contains("include_dir /srv/martlet/conf.d"), "\(plan.obstacles)")
    }

    @Test func `what the target says and mosquitto's files do not is told`() {
        let plan = plan(["/etc/mosquitto/mosquitto.conf": "listener 1883\nallow_anonymous true\n"])
        #expect(plan.problems == [])
        #expect(plan.remarks.contains { $0.hasPrefix("/etc/martlet/martlet.conf:1 says \"persistence true\"") }, "\(plan.remarks)")
    }
}

extension ConfigurationImport {
    /// What is in the way, and what is wrong with the result.
    fileprivate var problems: [String] { obstacles + result.diagnostics.filter { $0.severity == .error }.map(\.description) }
    fileprivate var destinations: [String] { copies.map(\.destination).sorted() }

    /// The lines of a copy below its head.
    fileprivate func text(of destination: String) -> [String] {
        guard let text = copies.first(where: { $0.destination == destination })?.text else { return [] }
        return String(decoding: text, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false).dropFirst().dropLast()
            .map(String.init)
    }
}
