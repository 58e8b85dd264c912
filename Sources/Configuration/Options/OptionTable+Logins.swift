import Platform

/// Who is asked about logins, where that is somebody else than a file.
extension ConfigurationOption {
    static let loginOptions: [ConfigurationOption] = [
        authChain,
        .init(
            "martlet_auth_cache", \SecurityConfiguration.logins.cacheSeconds, .integer(0...86_400),
            "Seconds for which the answer of a service is given again to the same login; 0 asks each time.", reload: true),
        .init(
            "martlet_auth_cache_jitter", \SecurityConfiguration.logins.cacheJitterSeconds, .integer(0...3600),
            "As many seconds more or less, by chance, so that those who came together are not asked for together again.",
            reload: true),
        .init(
            "martlet_auth_unavailable", \SecurityConfiguration.logins.unavailable, .choice,
            """
            What becomes of a login while a service cannot be asked: refuse tells the client that the server is unavailable (0x88);
            allow-cached lets in whom the service has let in within the last 24 hours, as far as that is remembered.
            """, reload: true),
        .init(
            "martlet_http_auth_url", optional: \SecurityConfiguration.logins.http.url, .webAddress,
            "The service that is asked about every login: POST with JSON, answered as EMQX's HTTP authentication.", reload: true),
        .init(
            "martlet_http_authorize_url", optional: \SecurityConfiguration.logins.http.rulesURL, .webAddress,
            "The service that is asked for the rules of every client that is let in without any: POST with JSON, once a login.",
            reload: true),
        .init(
            "martlet_http_auth_timeout", \SecurityConfiguration.logins.http.timeoutSeconds, .integer(1...60),
            "Seconds until a service has answered, connecting and waiting included.", reload: true),
        .init(
            "martlet_http_auth_cafile", optional: \SecurityConfiguration.logins.http.authoritiesFile, .text("PATH"),
            "CA certificates for the services' certificates (PEM); without it the system's.", reload: true),
        .init(
            "martlet_http_auth_certfile", optional: \SecurityConfiguration.logins.http.certificateFile, .text("PATH"),
            "The broker's own certificate towards the services (PEM).", reload: true),
        .init(
            "martlet_http_auth_keyfile", optional: \SecurityConfiguration.logins.http.keyFile, .text("PATH"),
            "The private key of that certificate (PEM).", reload: true),
        .init(
            "martlet_http_auth_token_file", optional: \SecurityConfiguration.logins.http.tokenFile, .text("PATH"),
            "A file with what the services are shown as bearer token: Authorization: Bearer TOKEN.", reload: true),
    ]

    private static let authChain: ConfigurationOption = {
        let names = LoginSourceName.allCases.map(\.rawValue)
        var row = ConfigurationOption(
            "martlet_auth_chain", shape: "SOURCE ...",
            """
            The order in which the sources of logins are asked, of \(names.joined(separator: ", ")). One that does not know a user leaves it
            to the next. Without this option all that are configured are asked, in this order.
            """,
            reload: true, isRepeatable: false, extent: .words, set: setChain)
        row.differs = SecurityConfiguration.difference {
            $0.logins.chain?.map(\.rawValue).joined(separator: " ")
        }
        return row
    }()

    @Sendable private static func setChain(
        _ text: String, _ security: inout SecurityConfiguration, _ isFirst: Bool
    ) -> Expectation? {
        var chain: [LoginSourceName] = []
        for word in text.words {
            guard let name = LoginSourceName(rawValue: word), !chain.contains(name) else {
                let names = LoginSourceName.allCases.map(\.rawValue)
                return .expected("sources of logins, each once: \(names.joined(separator: ", "))")
            }
            chain.append(name)
        }
        security.logins.chain = chain
        return nil
    }
}

extension ValueSyntax where Value == String {
    /// The address of a service.
    static var webAddress: ValueSyntax {
        text("URL").with(expected: "a URL that begins with http:// or https://") { text in
            let rest = ["http://", "https://"].first { text.lowercased().hasPrefix($0) }.map { text.dropFirst($0.utf8.count) }
            return rest.map { !$0.isEmpty && !$0.hasPrefix("/") && !$0.contains(" ") } ?? false
        }
    }
}
