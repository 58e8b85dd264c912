import Configuration
import Testing

@Suite struct SectionTests {
    @Test func `without a file the broker listens on loopback and lets anonymous clients in`() {
        let configuration = BrokerConfiguration.default()
        #expect(configuration.listeners.map(\.endpoint) == [.loopback(port: 1883)])
        #expect(configuration.listeners[0].security.allowsAnonymous)
        #expect(
            BrokerConfiguration.default(ports: [1, 2]).listeners.map(\.endpoint) == [.loopback(port: 1), .loopback(port: 2)])
    }

    @Test func `an empty file is as good as none`() {
        let result = read("")
        #expect(result.texts == [])
        #expect(result.configuration == .default())
        #expect(read("", ports: [5]).configuration == .default(ports: [5]))
    }

    @Test func `the defaults are those of mosquitto 2.1`() {
        let limits = BrokerConfiguration().limits
        #expect(limits.packet.bytesMax == 2_000_000)
        #expect(limits.queue.inflightMessagesMax == 20)
        #expect(limits.queue.messagesMax == 1000)
        #expect(limits.keepAliveSecondsMax == nil)
        #expect(BrokerConfiguration().messaging.allowsDuplicateMessages)
        let listener = ListenerConfiguration(endpoint: .loopback(port: 1))
        #expect(listener.topicAliasMax == 10 && listener.topicAliasMaxBroker == 10 && listener.qosMax == 2)
    }

    @Test func `a listener alone turns anonymous clients away, with a warning`() {
        let result = read("listener 1883\n")
        #expect(!result.configuration.listeners[0].security.allowsAnonymous)
        #expect(!result.configuration.security.allowsAnonymous)
        #expect(
            result.texts == [
                "Warning: m.conf:1: listener: nobody can connect. Write password_file PATH (martlet passwd -c PATH USER makes one) or, to let everybody in here, listener_allow_anonymous true below it."
            ])
    }

    @Test func `who logs in by SCRAM alone can connect`() {
        #expect(read("listener 1883\nallow_anonymous false\nmartlet_scram_file /s\n").texts == [])
    }

    @Test func `a file without listener keeps the listener options and is local`() {
        let result = read("password_file p\nmax_connections 3\n", ports: [7, 8])
        #expect(
            result.texts == [
                "Warning: m.conf:2: without a line \"listener PORT\" only this machine can connect; mosquitto may open port 1883 to the network for such an option."
            ])
        #expect(result.configuration.listeners.map(\.endpoint) == [.loopback(port: 7), .loopback(port: 8)])
        #expect(result.configuration.listeners.map(\.connectionsMax) == [3, 3])
        #expect(result.configuration.listeners.allSatisfy { $0.security.allowsAnonymous && $0.security.passwordFile == "p" })
    }

    @Test func `a socket to administer from leaves a broker local, and is one that it starts without`() {
        let result = read("listener 0 /run/m/http.sock\nprotocol http_api\n", ports: [7])
        #expect(result.texts == [])
        #expect(result.configuration.listeners.map(\.endpoint) == [.loopback(port: 7), .unixSocket(path: "/run/m/http.sock")])
        #expect(result.configuration.listeners.map(\.isDispensable) == [false, true])
        #expect(result.configuration.security.allowsAnonymous)
        // Whatever else is opened is all that is opened.
        let open = read("listener 0 /run/m/http.sock\nprotocol http_api\nlistener 1884\n").configuration
        #expect(open.listeners.map(\.endpoint) == [.unixSocket(path: "/run/m/http.sock"), .tcp(port: 1884, host: nil)])
        #expect(!open.security.allowsAnonymous)
        #expect(read("listener 0 /run/m/mqtt.sock\n").configuration.listeners.count == 1)
    }

    @Test func `port and bind_address open the default listener, not only on loopback`() {
        let listeners = read("port 1885\nbind_address ::\nallow_anonymous true\n").configuration.listeners
        #expect(listeners.map(\.endpoint) == [.tcp(port: 1885, host: "::")])
        #expect(read("port 1885\n").configuration.listeners[0].security.allowsAnonymous == false)
    }

    @Test func `ports of the command line give way to listeners of the file`() {
        let result = read("listener 1884\nallow_anonymous true\n", ports: [9])
        #expect(result.configuration.listeners.map(\.endpoint) == [.tcp(port: 1884, host: nil)])
        #expect(
            result.texts == [
                "Warning: m.conf: the ports of the command line are not opened, because the file has listeners."
            ])
    }

    @Test func `listener options before the first listener open the default one too`() {
        let result = read("allow_anonymous true\nmax_qos 1\nlistener 1884\n")
        #expect(result.configuration.listeners.map(\.endpoint) == [.tcp(port: 1883, host: nil), .tcp(port: 1884, host: nil)])
        #expect(result.configuration.listeners.map(\.qosMax) == [1, 2])
        #expect(
            result.texts == [
                "Warning: m.conf:2: a listener option before the first line \"listener PORT\" opens another listener, on port 1883; to set it for the listener only, move it below that line."
            ])
    }

    @Test func `a listener has an address, a Unix socket or neither`() {
        let result = read("allow_anonymous true\nlistener 1 ::1\nlistener 0 /run/my socket\nlistener 2 # x\n")
        #expect(
            result.configuration.listeners.map(\.endpoint) == [
                .tcp(port: 1, host: "::1"), .unixSocket(path: "/run/my socket"), .tcp(port: 2, host: nil),
            ])
        #expect(result.texts == [])
    }

    @Test func `a listener option in a bridge's section goes to the listener above, with a warning`() {
        let result = read("allow_anonymous true\nlistener 1\nconnection b\naddress h\ntopic #\nmax_qos 1\n")
        #expect(result.configuration.listeners[0].qosMax == 1)
        #expect(
            result.texts.last
                == "Warning: m.conf:6: max_qos: it belongs in a listener's section, after a line \"listener PORT\"; in a bridge's section it is taken for the listener above it."
        )
    }

    @Test func `security is the broker's, and a listener may differ`() {
        let listeners = read("listener 1\nlistener_allow_anonymous true\nlistener 2\npassword_file p\n").configuration.listeners
        #expect(listeners.map(\.security.allowsAnonymous) == [true, false])
        #expect(listeners.map(\.security.passwordFile) == ["p", "p"])
    }

    @Test func `durability is the broker's, and a listener may differ`() {
        let bridge = "connection b\naddress h\ntopic #\n"
        let result = read(
            "allow_anonymous true\nlistener 1\nlistener 2\nmartlet_durability none\n\(bridge)martlet_durability interval 9\n")
        #expect(result.configuration.listeners.map(\.durability) == [.interval(seconds: 9), .none])
        #expect(result.configuration.persistence.durability == .interval(seconds: 9))
        #expect(read("martlet_durability none\n").configuration.listeners.map(\.durability) == [.none])
        #expect(read("listener 1\nmartlet_durability none\nmartlet_durability none\n").hasErrors)
    }

    @Test(arguments: [
        ("none", "none", Durability.none), ("none", "interval 7", .interval(seconds: 7)),
        ("interval 7", "interval 3", .interval(seconds: 3)), ("interval 7", "commit", .commit), ("commit", "none", .commit),
    ])
    func `the strictest durability is the one that the store keeps`(one: String, other: String, strictest: Durability) {
        let lines = [one, other].enumerated().map { "listener \($0 + 1)\nmartlet_durability \($1)\n" }.joined()
        #expect(read("allow_anonymous true\n\(lines)").configuration.strictestDurability == strictest)
    }

    @Test func `with per_listener_settings each listener has its own`() {
        let result = read("per_listener_settings true\nlistener 1\nallow_anonymous true\nlistener 2\npassword_file p\n")
        #expect(!result.hasErrors)
        #expect(result.configuration.listeners.map(\.security.allowsAnonymous) == [true, false])
        #expect(result.configuration.listeners.map(\.security.passwordFile) == [nil, "p"])
    }

    @Test func `with per_listener_settings a security option needs a listener`() {
        #expect(
            read("per_listener_settings true\nallow_anonymous true\nlistener 1\nallow_anonymous true").texts.dropFirst() == [
                "Error: m.conf:2: allow_anonymous: with per_listener_settings true it belongs in a listener's section, after a line \"listener PORT\"."
            ])
    }

    @Test func `per_listener_settings comes before the security options`() {
        let result = read("allow_anonymous true\nper_listener_settings true\nlistener 1\nallow_anonymous true")
        #expect(
            result.diagnostics.filter { $0.severity == .error }.map(\.description) == [
                "Error: m.conf:2: per_listener_settings: it has to stand before the first security option, which is on line 1."
            ])
    }

    @Test(arguments: [
        ("certfile c", "Error: m.conf:3: certfile: it needs keyfile too, the private key of the certificate."),
        ("keyfile c", "Error: m.conf:3: keyfile: it needs certfile too, the certificate of this key."),
        (
            "certfile c\nkeyfile k\npsk_hint h\npsk_file p",
            "Error: m.conf:5: psk_hint: certfile and psk_hint exclude each other; give each a listener of its own."
        ),
        (
            "enable_proxy_protocol 2\nmartlet_proxy_trusted 10.0.0.1\nuse_subject_as_username true",
            "Error: m.conf:5: use_subject_as_username: a proxy sends only the common name of a certificate, not its subject; "
                + "write use_identity_as_username true."
        ),
        (
            "certfile c\nkeyfile k\nuse_identity_as_username 1\nuse_subject_as_username 1",
            "Error: m.conf:6: use_subject_as_username: use_identity_as_username and use_subject_as_username exclude each other; keep one."
        ),
        (
            "certfile c\nkeyfile k\nrequire_certificate true",
            "Warning: m.conf:5: require_certificate: without cafile or capath no client's certificate will be accepted."
        ),
        (
            "martlet_jwt_keys k",
            "Error: m.conf:3: martlet_jwt_keys: it needs martlet_jwt_algorithms too, the algorithms that tokens are signed with, "
                + "such as RS256 or ES256."
        ),
        (
            "martlet_jwt_secret_file s",
            "Error: m.conf:3: martlet_jwt_secret_file: it needs martlet_jwt_algorithms too, the algorithms that tokens are signed "
                + "with, such as HS256."
        ),
        (
            "martlet_jwt_algorithms RS256\nmartlet_jwt_secret_file s",
            "Error: m.conf:4: martlet_jwt_secret_file: it needs HS256, HS384 or HS512 in martlet_jwt_algorithms."
        ),
        (
            "martlet_jwt_algorithms HS256 RS256\nmartlet_jwt_keys https://a.example/k",
            "Error: m.conf:3: martlet_jwt_algorithms: HS256 needs a secret, martlet_jwt_secret_file; no secret is taken from a URL "
                + "that anybody can read."
        ),
        (
            "martlet_jwt_algorithms RS256\nmartlet_jwt_keys https://a.example/.well-known/openid-configuration",
            "Error: m.conf:4: martlet_jwt_keys: discovery needs martlet_jwt_issuer too: what is found has to say that it is the "
                + "issuer's."
        ),
        (
            "martlet_jwt_algorithms RS256\nmartlet_jwt_keys http://a.example/k",
            "Warning: m.conf:4: martlet_jwt_keys: whoever is on the way can put keys of its own in their place: write https://."
        ),
        (
            "martlet_jwt_algorithms RS256",
            "Warning: m.conf:3: martlet_jwt_algorithms: it has no effect without martlet_jwt_keys or martlet_jwt_secret_file."
        ),
        ("martlet_jwt_cafile c", "Warning: m.conf:3: martlet_jwt_cafile: it has no effect without a URL in martlet_jwt_keys."),
        (
            "martlet_introspection_url https://a.example/i\nmartlet_introspection_client_id c",
            "Error: m.conf:4: martlet_introspection_client_id: it needs martlet_introspection_secret_file too."
        ),
        (
            "martlet_jwt_from auth\nmartlet_introspection_url https://a.example/i",
            "Error: m.conf:4: martlet_introspection_url: an issuer is asked about tokens in the password or in the user name; "
                + "martlet_jwt_from auth leaves none there."
        ),
        (
            "martlet_introspection_cafile c",
            "Warning: m.conf:3: martlet_introspection_cafile: it has no effect without martlet_introspection_url."
        ),
        (
            "martlet_ldap_url ldaps://d",
            "Error: m.conf:3: martlet_ldap_url: it needs martlet_ldap_user_dn too, the entry below which users are, such as "
                + "ou=people,dc=example,dc=org."
        ),
        (
            "martlet_ldap_url ldap://d\nmartlet_ldap_user_dn dc=x",
            "Warning: m.conf:3: martlet_ldap_url: whoever is on the way can read the passwords: write ldaps://, or "
                + "martlet_ldap_starttls true."
        ),
        (
            "martlet_ldap_url ldaps://d\nmartlet_ldap_user_dn dc=x\nmartlet_ldap_bind_dn cn=b",
            "Error: m.conf:5: martlet_ldap_bind_dn: it needs martlet_ldap_bind_password too."
        ),
        (
            "martlet_ldap_url ldaps://d\nmartlet_ldap_user_dn dc=x\nmartlet_ldap_bind_password p",
            "Error: m.conf:5: martlet_ldap_bind_password: it needs martlet_ldap_bind_dn too."
        ),
        (
            "martlet_ldap_url ldaps://d\nmartlet_ldap_user_dn dc=x\nmartlet_ldap_starttls true",
            "Error: m.conf:5: martlet_ldap_starttls: it is for ldap:// alone: the connection is encrypted from its beginning, or on "
                + "this machine."
        ),
        (
            "martlet_ldap_url ldaps://d\nmartlet_ldap_user_dn dc=x\nmartlet_ldap_group_dn ou=g\nmartlet_ldap_role_attribute cn",
            "Error: m.conf:6: martlet_ldap_role_attribute: it needs dynamic security, which has the roles: write plugin "
                + "mosquitto_dynamic_security.so."
        ),
        (
            "martlet_ldap_url ldaps://d\nmartlet_ldap_user_dn dc=x\nmartlet_ldap_topic_attribute cn",
            "Error: m.conf:5: martlet_ldap_topic_attribute: it needs martlet_ldap_group_dn too."
        ),
        (
            "martlet_ldap_url ldaps://d\nmartlet_ldap_user_dn dc=x\nmartlet_ldap_group_dn ou=g",
            "Warning: m.conf:5: martlet_ldap_group_dn: it has no effect without martlet_ldap_role_attribute or "
                + "martlet_ldap_topic_attribute."
        ),
        (
            "martlet_ldap_url ldaps://d\nmartlet_ldap_user_dn dc=x\nmartlet_ldap_access_attribute a",
            "Warning: m.conf:5: martlet_ldap_access_attribute: it has no effect without martlet_ldap_topic_attribute."
        ),
        ("martlet_ldap_user_dn dc=x", "Warning: m.conf:3: martlet_ldap_user_dn: it has no effect without martlet_ldap_url."),
        ("psk_hint h", "Warning: m.conf:3: psk_hint: without psk_file no client can connect."),
        ("http_dir d", "Warning: m.conf:3: http_dir: it has no effect without protocol http_api."),
        (
            "martlet_http_serve api,health", "Warning: m.conf:3: martlet_http_serve: it has no effect without protocol http_api."
        ),
        ("websockets_origin d", "Warning: m.conf:3: websockets_origin: it has no effect without protocol websockets."),
        (
            "proxy_protocol_v2_require_tls true",
            "Warning: m.conf:3: proxy_protocol_v2_require_tls: it has no effect without enable_proxy_protocol 2."
        ),
        (
            "martlet_proxy_trusted 10.0.0.1",
            "Warning: m.conf:3: martlet_proxy_trusted: it has no effect without enable_proxy_protocol, protocol websockets or "
                + "protocol http_api."
        ),
        (
            "protocol websockets\nmartlet_proxy_trusted 10.0.0.1 ::/0",
            "Warning: m.conf:4: martlet_proxy_trusted: a network of 0 bits means everybody, so that any client can claim any "
                + "address: name only your proxies."
        ),
        (
            "enable_proxy_protocol 2",
            "Warning: m.conf:3: enable_proxy_protocol: whoever reaches this listener can pretend to come from any address, and with any "
                + "certificate: name the proxies in martlet_proxy_trusted."
        ),
    ])
    func `a listener is checked as a whole`(_ lines: String, _ message: String) {
        #expect(read("allow_anonymous true\nlistener 1\n" + lines).texts == [message])
    }

    @Test(arguments: [
        "1 127.0.0.1", "1 127.9.9.9", "1 ::1", "1 localhost", "0 /run/s", "1\nmartlet_proxy_trusted 10.0.0.1",
        "1\nbind_interface lo",
    ])
    func `nothing is wrong with a PROXY listener that only its proxies reach`(listener: String) {
        #expect(read("allow_anonymous true\nlistener \(listener)\nenable_proxy_protocol 1").texts.isEmpty)
    }

    @Test(arguments: [
        ("topic #", "Error", "the bridge has no address."),
        ("address h", "Warning", "the bridge has no topic."),
        ("address h\ntopic #\nremote_password p", "Error", "remote_password needs remote_username too."),
        (
            "address h\ntopic a out 1 $share/g/\nmartlet_bridge_connections 2", "Error",
            "martlet_bridge_connections divides topics; so does the share group of topic a."
        ),
        (
            "address h\ntopic a/+ out 0 l/ r/\ntopic r/# in\nmartlet_bridge_connections 2", "Error",
            "martlet_bridge_connections needs bridge_protocol_version mqttv50 and martlet_bridge_path true, since topic a/+ goes "
                + "out and comes in: messages would come back."
        ),
        ("address h\ntopic #\nbridge_psk 00", "Error", "bridge_identity and bridge_psk need each other."),
        ("address h\ntopic #\nbridge_keyfile k", "Error", "bridge_certfile and bridge_keyfile need each other."),
        (
            "address h\ntopic #\nbridge_psk 00\nbridge_identity i\nbridge_cafile c", "Error",
            "bridge_psk and certificates exclude each other."
        ),
        (
            "address h\ntopic #\nbridge_certfile c\nbridge_keyfile k", "Warning",
            "bridge_certfile has no effect without bridge_cafile, bridge_capath or bridge_tls_use_os_certs."
        ),
    ])
    func `a bridge is checked as a whole`(_ lines: String, _ severity: String, _ message: String) {
        #expect(read("connection b\n" + lines).texts.last == "\(severity): m.conf:1: connection: \(message)")
    }

    @Test(arguments: [
        "topic # both\nbridge_protocol_version mqttv50", "topic a/# out\ntopic b/+ in", "topic a out\ntopic a/+ in", "topic # in",
    ])
    func `nothing is wrong with several connections whose messages do not come back`(_ lines: String) {
        #expect(read("connection b\naddress h\nmartlet_bridge_connections 4\n" + lines).texts.isEmpty)
    }

    @Test func `two bridges do not share a name`() {
        #expect(
            read("connection b\naddress h\ntopic #\nconnection b\naddress h\ntopic #\n").texts.contains(
                "Error: m.conf:4: connection: the bridge of line 1 has the same name."))
    }
}
