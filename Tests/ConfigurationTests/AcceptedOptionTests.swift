import Configuration
import Testing

@Suite struct AcceptedOptionTests {
    @Test(arguments: globalLines + securityLines + listenerLines + bridgeLines)
    func `a line changes what it names and nothing else`(_ option: AcceptedOption) {
        var expected = read(option.place.rawValue).configuration
        option.change(&expected)
        let result = read(option.place.rawValue + option.line + "\n")
        #expect(!result.hasErrors, "\(result.texts)")
        #expect(result.configuration == expected)
    }

    @Test func `every option of the table has such a line`() {
        let structural: Set<String> = [
            "listener", "port", "bind_address", "connection", "include_dir", "per_listener_settings", "plugin", "auth_plugin",
            "global_plugin", "plugin_load", "plugin_use", "plugin_opt_", "auth_opt_",
            // Beside dynamic security: below.
            "martlet_certificate_group", "martlet_certificate_role",
        ]
        let covered = Set((Self.globalLines + Self.securityLines + Self.listenerLines + Self.bridgeLines).flatMap(\.names)).union(
            structural)
        #expect(ConfigurationOption.all.map(\.name).filter { !covered.contains($0) } == [])
    }

    @Test func `groups and roles by certificate are read where there is dynamic security`() {
        let file =
            "allow_anonymous true\nplugin mosquitto_dynamic_security.so\nplugin_opt_config_file d\nlistener 1\n\(Self.mutual)"
        var expected = read(file).configuration
        expected.listeners[0].tls.certificateGroups = [CertificateMembership(.organizationalUnit)]
        expected.listeners[0].tls.certificateRoles = [
            CertificateMembership(.organizationalUnit, value: "the press", name: "operator")
        ]
        let result = read(file + "martlet_certificate_group ou\nmartlet_certificate_role ou=the press operator\n")
        #expect(!result.hasErrors, "\(result.texts)")
        #expect(result.configuration == expected)
    }

    @Test(arguments: [
        "retry_interval 20", "websockets_log_level 255", "listener 1\ntls_engine e", "listener 1\ntls_engine_kpass_sha1 x",
        "listener 1\ntls_keyform pem", "autosave_interval 60", "autosave_on_changes true", "allow_duplicate_messages true",
        "allow_duplicate_messages false", "auth_plugin_deny_special_chars true", "set_tcp_nodelay false",
    ])
    func `an option that has no effect is warned of`(_ lines: String) {
        let result = read("allow_anonymous true\n" + lines)
        #expect(!result.hasErrors)
        #expect(result.diagnostics.count == 1)
        #expect(result.texts[0].contains(" no effect here: "))
    }

    @Test func `more event loops than there can be are cut, with a warning`() {
        #expect(
            read("martlet_threads 65").texts == [
                "Warning: m.conf:1: martlet_threads: 65 event loops are configured, and there are at most 64; 64 are run."
            ])
        #expect(read("martlet_threads 64\nset_tcp_nodelay true").texts == [])
    }

    @Test func `a node of a cluster has two event loops less, and says so`() {
        let cluster = "martlet_cluster_name c\nmartlet_cluster_servers nats://a\nset_tcp_nodelay true\n"
        #expect(
            read("\(cluster)martlet_threads 63").texts == [
                "Warning: m.conf:4: martlet_threads: 63 event loops are configured, and a node of a cluster has at most 62; 62 are run."
            ])
        #expect(read("\(cluster)martlet_threads 62").texts == [])
    }

    @Test(arguments: ["nats://a,,nats://b", "nats://a,", ",nats://a", "nats://a b"])
    func `a list of servers that is refused is all that is told`(_ servers: String) {
        let result = read(
            "martlet_cluster_name c\nmartlet_cluster_replicas 3\nmartlet_cluster_servers \(servers)\nset_tcp_nodelay true")
        #expect(result.texts.count == 1 && result.texts[0].hasPrefix("Error: m.conf:3: martlet_cluster_servers: found \""))
    }

    @Test(arguments: ConfigurationOption.all.filter { if case .deprecated = $0.status { true } else { false } }.map(\.name))
    func `an outdated option is warned of once, with what to write instead`(_ name: String) {
        let value = ["plugin": "mosquitto_sparkplug_aware.so", "opt": "x"]
        let written = name.hasSuffix("_") ? "plugin mosquitto_sparkplug_aware.so\n\(name)x" : name
        let values: [String: String] = [
            "auth_plugin": value["plugin"] ?? "", "auth_opt_": "x", "port": "1883", "bind_address": "::1", "auto_id_prefix": "x",
            "clientid_prefixes": "x", "websockets_headers_size": "10",
        ]
        let result = read("\(written) \(values[name] ?? "true")\n")
        let found = result.texts.filter { $0.contains("it is deprecated; ") }
        #expect(found.count == 1, "\(result.texts)")
        #expect(!result.hasErrors)
    }
}
