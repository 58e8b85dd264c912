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
