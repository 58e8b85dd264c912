extension ConfigurationOption {
    /// The options that say who may see and steer the broker over HTTP.
    static let administrationOptions: [ConfigurationOption] = [
        .init(
            "martlet_http_user", shape: "NAME viewer|admin",
            "The role of a user on the dashboard and in the HTTP API; one line for each user. An access rule that lets a user read or write the topic $CONTROL/martlet/v1 gives the role viewer or admin too.",
            reload: true, extent: .words, set: addUser),
        .init(
            "martlet_http_token_file", optional: \BrokerConfiguration.administration.tokenFile, .text("PATH"),
            "The file of API tokens. The broker writes it.", reload: true),
        .init(
            "martlet_http_host", shape: "NAME",
            "A host name that HTTP requests may use for this machine, besides localhost; one line for each. Others are refused.",
            reload: true
        ) { (text: String, root: inout BrokerConfiguration, _: Bool) in
            root.administration.hosts.append(text)
            return nil
        },
        .init(
            "martlet_http_origin", shape: "ORIGIN", "An origin whose pages may use the HTTP API (CORS); one line for each.",
            reload: true
        ) { (text: String, root: inout BrokerConfiguration, _: Bool) in
            root.administration.origins.append(text)
            return nil
        },
        .init(
            "martlet_http_payloads", \BrokerConfiguration.administration.payloads, .choice,
            "Who may see message payloads over HTTP.",
            reload: true),
        .init(
            "martlet_metrics_anonymous", \BrokerConfiguration.administration.areMetricsAnonymous, .boolean,
            "Metrics can be read without a login.", reload: true),
        .init(
            "martlet_audit_log", optional: \BrokerConfiguration.administration.auditFile, .text("PATH"),
            "The audit log: who has changed what, one JSON object a line; without it, this goes to the log.", reload: true),
    ]

    @Sendable private static func addUser(_ text: String, _ root: inout BrokerConfiguration, _ isFirst: Bool) -> Expectation? {
        let words = text.words
        guard words.count == 2, let role = HTTPRole(rawValue: words[1]) else {
            return .expected("a user's name, then viewer or admin")
        }
        root.administration.users[words[0]] = role
        return nil
    }
}
