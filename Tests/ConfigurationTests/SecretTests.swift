import Testing

@testable import Configuration

/// Secrets that stand in files of their own, and the user that the environment names.
@Suite struct SecretTests {
    private static let bridge = "connection b\naddress h\ntopic #\nremote_username u\n"

    // MARK: Secrets

    @Test(
        arguments: [
            ("remote_password", \BridgeConfiguration.remote.password), ("password", \BridgeConfiguration.remote.password),
            ("local_password", \BridgeConfiguration.local.password),
        ] as [(String, any KeyPath<BridgeConfiguration, String?> & Sendable)])
    func `a bridge's password stands in a file`(option: String, path: any KeyPath<BridgeConfiguration, String?> & Sendable) {
        let result = read(Self.bridge + "\(option) file:/run/secrets/site", others: ["/run/secrets/site": " s e c\n"])
        #expect(result.configuration.bridges.first?[keyPath: path] == " s e c")
        #expect(result.texts == [])
        #expect(
            result.locations.lines.last?.value == "file:/run/secrets/site", "the secret is not where the configuration is shown")
        #expect(result.configuration.general.secretFiles == [SecretFile(option: option, path: "/run/secrets/site")])
    }

    @Test func `a pre-shared key and the cluster's logins stand in files`() {
        let files = ["/k": "00ff\r\n", "/p": "pass", "/t": "token\n"]
        let key = read("connection b\naddress h\ntopic #\nbridge_identity i\nbridge_psk file:/k", others: files)
        #expect(key.configuration.bridges.first?.tls.preSharedKey == "00ff" && key.texts == [])
        let cluster = read(
            "martlet_cluster_user u\nmartlet_cluster_password file:/p\nmartlet_cluster_token file: /t", others: files)
        #expect(cluster.configuration.cluster.password == "pass" && cluster.configuration.cluster.token == "token")
    }

    @Test(
        arguments: [
            ("file:", nil, "no path follows \"file:\"; expected file:PATH, such as file:/run/secrets/password."),
            ("file:/gone", nil, "the file /gone with the secret cannot be read: No such file or directory."),
            ("file:/f", "\n", "the file /f with the secret is empty."),
            ("file:/f", "a\nsecret\n", "the file /f with the secret has more than one line; the secret stands there alone."),
            ("file:/f", "a\u{1}", "the file /f with the secret holds a control character."),
            ("file:/f", "too long", "the file /f with the secret cannot be read: It is larger than 65535 bytes."),
        ] as [(String, String?, String)])
    func `a file without a secret is an error that says what and where, and no secret`(
        value: String, text: String?, message: String
    ) {
        let text = text == "too long" ? String(repeating: "a", count: 65_536) : text
        let result = read(Self.bridge + "remote_password \(value)", others: text.map { ["/f": $0] } ?? [:])
        #expect(result.texts.first == "Error: m.conf:5: remote_password: \(message)")
        #expect(result.hasErrors)
    }

    @Test func `every option that holds a secret may name a file`() {
        let secrets = ConfigurationOption.all.filter { ConfigurationOption.isSecret($0.name) && $0.status == .supported }
        #expect(
            secrets.map(\.name).filter { !$0.hasSuffix("_") }.sorted() == [
                "bridge_psk", "local_password", "martlet_cluster_password", "martlet_cluster_token", "martlet_ldap_bind_password",
                "password", "remote_password",
            ])
        for option in secrets where option.canonicalName == nil { #expect(option.summary.contains("file:PATH"), "\(option.name)") }
    }

    @Test(arguments: [
        ("martlet_http_auth_url", "https://u.example:8443/login?key=hush", "https://u.example:8443/login?***"),
        ("martlet_http_authorize_url", "http://me:hush@u.example/rules", "http://***@u.example/rules"),
        ("martlet_jwt_keys", "https://u.example?key=hush#hush", "https://u.example?***"),
        ("martlet_jwt_keys", "/etc/martlet/keys?.json", "/etc/martlet/keys?.json"),
        ("martlet_introspection_url", "https://u.example/introspect", "https://u.example/introspect"),
        ("martlet_ldap_url", "ldaps://me:hu/sh@d.example", "ldaps://***@d.example"),
        ("martlet_cluster_servers", "nats://me:hush@a:4222,tls://hush@b, c", "nats://***@a:4222,tls://***@b, c"),
        ("martlet_cluster_servers", "hush@a:4222", "***@a:4222"), ("martlet_cluster_token", "hush", "***"),
        ("address", "wss://b.example/mqtt?key=hush c.example", "wss://b.example/mqtt?*** c.example"),
        ("auth_opt_http_aclcheck_uri", "/acl?key=hush", "/acl?***"), ("auth_opt_pg_password", "hush", "***"),
        ("auth_opt_redis_password", "hush", "***"), ("plugin_opt_jwt_secret", "hush", "***"),
        ("auth_opt_ldap_url", "ldap://me:hush@d.example", "ldap://***@d.example"), ("remote_username", "a@b", "a@b"),
    ])
    func `of a value nothing is shown that lets somebody in`(option: String, value: String, shown: String) {
        #expect(ConfigurationOption.shown(value, of: option) == shown)
    }

    @Test(arguments: [
        "martlet_http_auth_url htp://u.example/login?key=hush", "martlet_http_auth_url = https://u.example/login?key=hush",
        "martlet_introspection_url=https://u.example/?key=hush", "connection b\nremote_password=hush",
        "martlet_cluster_token: hush",
        "martlet_jwt_keys ftp://me:hush@u.example/",
        "martlet_ldap_url x://me:hush@d.example", "martlet_cluster_servers nats://me:hush@a,,nats://b",
        "connection b\naddress ftp://me:hush@b.example", "connection b\nbridge_psk hush", "connection b\nbridge_psk 'hush'",
        "connection b\nbridge_psk 00ff hush", "plugin go-auth.so\nplugin_opt_backends http\nplugin_opt_http_getuser_uri x?key=hush",
    ])
    func `what is wrong with a value is said without what lets somebody in`(text: String) {
        let texts = read(text).texts
        #expect(!texts.isEmpty && texts.allSatisfy { !$0.contains("hush") }, "\(texts)")
    }

    @Test func `an address of a bridge is told without its query, which it keeps`() {
        let address = read("connection b\naddress wss://b.example/mqtt?key=hush\ntopic #").configuration.bridges.first?.addresses
            .first
        #expect(address?.transport == .webSocket(path: "/mqtt?key=hush"))
        #expect(address?.description == "wss://b.example:443/mqtt?***")
    }

    @Test func `a login before the host of a bridge's address is refused, and not shown`() {
        for (given, shown) in [("mqtts://me:hush@b.example", "mqtts://***@b.example"), ("me:hush@b.example", "***@b.example")] {
            let texts = read("connection b\naddress \(given)\ntopic #").texts
            let message =
                "address: found \"\(shown)\", expected HOST or HOST:PORT. A login is said by remote_username and remote_password."
            #expect(texts.contains("Error: m.conf:2: \(message)"), "\(texts)")
        }
    }

    @Test func `what stands for a secret is not taken for one`() throws {
        var section = try BridgeSection(name: "b")
        for (option, value) in [("remote_password", "***"), ("address", "wss://b.example/mqtt?***")] {
            #expect(throws: BridgeSectionRefusal("\(option): *** stands for what is not shown; give the whole value.")) {
                try section.set(option, to: [value])
            }
        }
    }

    @Test func `whoever makes a bridge while the broker runs reads no files of it`() throws {
        var section = try BridgeSection(name: "b")
        #expect(throws: BridgeSectionRefusal("password: file:PATH is for configuration files; give the text itself.")) {
            try section.set("password", to: ["file:/etc/shadow"])
        }
    }

    // MARK: The first user

    private static let withPassword = ["MARTLET_USER": "anna", "MARTLET_PASSWORD": "se:c"]

    @Test func `the environment's user logs in at every listener, and nobody else comes in`() {
        let result = read("listener 1883\nallow_anonymous true\nlistener 1884\nprotocol websockets", environment: Self.withPassword)
        #expect(result.texts == [])
        let configuration = result.configuration
        #expect(
            configuration.listeners.map(\.security.firstUser)
                == Array(repeating: FirstUser(name: "anna", password: "se:c"), count: 2))
        #expect(configuration.listeners.map(\.security.allowsAnonymous) == [false, false])
        #expect(configuration.administration.users == ["anna": .admin])
    }

    @Test func `a listener's own line still lets everybody in, and a role of the file counts`() {
        let text = "listener 1883\nlistener_allow_anonymous true\nlistener 1884\nmartlet_http_user anna viewer"
        let configuration = read(text, environment: Self.withPassword).configuration
        #expect(configuration.listeners.map(\.security.allowsAnonymous) == [true, false])
        #expect(configuration.administration.users == ["anna": .viewer])
        let perListener = read(
            "per_listener_settings true\nlistener 1883\nallow_anonymous true\nlistener 1884", environment: Self.withPassword)
        #expect(perListener.configuration.listeners.map(\.security.allowsAnonymous) == [true, false])
    }

    @Test func `a broker without listeners in its file asks for the login too`() {
        let configuration = read("log_type all", environment: Self.withPassword).configuration
        #expect(configuration.listeners.map(\.security.allowsAnonymous) == [false])
        var bare = BrokerConfiguration.default()
        bare.addLocalAdministration()
        bare.add(FirstUser(name: "anna", password: "p"))
        #expect(bare.listeners.allSatisfy { !$0.security.allowsAnonymous && $0.security.firstUser != nil })
    }

    @Test func `the password stands in a file`() {
        let environment = ["MARTLET_USER": "anna", "MARTLET_PASSWORD_FILE": "/run/secrets/p", "MARTLET_PASSWORD": ""]
        let result = read("listener 1883", others: ["/run/secrets/p": "secret\n"], environment: environment)
        #expect(result.texts == [], "somebody can connect")
        #expect(result.configuration.security.firstUser?.password == "secret")
        #expect(result.configuration.general.secretFiles == [SecretFile(option: "MARTLET_PASSWORD_FILE", path: "/run/secrets/p")])
    }

    @Test func `without MARTLET_USER all is as before`() {
        #expect(read("listener 1883", environment: ["MARTLET_USER": ""]).configuration == read("listener 1883").configuration)
    }

    @Test(arguments: [
        (["MARTLET_PASSWORD": "secret"], "MARTLET_PASSWORD: it is the password of MARTLET_USER, which is not set."),
        (
            ["MARTLET_USER": "anna"],
            "MARTLET_USER: \"anna\" needs a password: set MARTLET_PASSWORD_FILE to a file that holds it, or MARTLET_PASSWORD."
        ),
        (
            ["MARTLET_USER": "anna", "MARTLET_PASSWORD": "secret", "MARTLET_PASSWORD_FILE": "/f"],
            "MARTLET_PASSWORD: MARTLET_PASSWORD_FILE is set too; one of the two gives the password."
        ),
        (
            ["MARTLET_USER": "a:b", "MARTLET_PASSWORD": "secret"],
            "MARTLET_USER: a user's name holds no colon and no control character, begins with no #, and has no blanks at its ends."
        ),
        (
            ["MARTLET_USER": "anna", "MARTLET_PASSWORD_FILE": "/gone"],
            "MARTLET_PASSWORD_FILE: the file /gone with the secret cannot be read: No such file or directory."
        ),
    ])
    func `what is wrong with the environment's user keeps the broker from starting`(environment: [String: String], message: String)
    {
        let result = read("listener 1883\nlistener_allow_anonymous true", environment: environment)
        #expect(result.texts == ["Error: \(message)"] && result.hasErrors)
    }
}
