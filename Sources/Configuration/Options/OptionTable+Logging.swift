extension ConfigurationOption {
    /// The options of logging.
    static let loggingOptions: [ConfigurationOption] = [
        .init(
            "log_dest", shape: "stdout|stderr|syslog|topic|file PATH|none", default: "stderr",
            "Where the log goes; one line for each destination.", reload: true, set: setLogDestination),
        .init(
            "log_type", shape: logTypeNames.map(\.key).joined(separator: "|"),
            "The types of messages that are logged; one line for each type. Without any: error, warning, notice, information.",
            reload: true, extent: .word, set: setLogType),
        .init(
            "log_facility", optional: \BrokerConfiguration.logging.syslogLocalFacility, .integer(0...7),
            "The N of syslog's facility LOCALN; without it, DAEMON.", reload: true),
        .init(
            "log_timestamp", \BrokerConfiguration.logging.hasTimestamp, .boolean, "Begins every log line with a timestamp.",
            reload: true),
        .init(
            "log_timestamp_format", optional: \BrokerConfiguration.logging.timestampFormat, .text("FORMAT"),
            "The format of the timestamp, as for strftime; without it, seconds since 1970.", reload: true),
        .init(
            "connection_messages", \BrokerConfiguration.logging.logsConnections, .boolean,
            "Connects and disconnects are logged.", reload: true),
        .init(
            "martlet_log_format", \BrokerConfiguration.logging.format, .choice, "The format of log lines.", reload: true),
    ]

    /// The first `log_dest` line replaces the default, the others add to it.
    @Sendable private static func setLogDestination(
        _ text: String, _ configuration: inout BrokerConfiguration, _ isFirst: Bool
    ) -> Expectation? {
        if isFirst { configuration.logging.destinations = [] }
        let destination: LogDestination
        switch text.words.first {
        case "stdout": destination = .standardOutput
        case "stderr": destination = .standardError
        case "syslog": destination = .syslog
        case "topic": destination = .topic
        case "none": return nil
        case "file":
            let rest = text.dropFirst("file".count).trimmed
            let path = ValueNotation.withoutQuotes(rest) ?? rest
            guard !path.isEmpty else {
                return .sentence("Empty log_dest file value in configuration; expected log_dest file PATH.")
            }
            destination = .file(path: path)
        case "dlt", "android":
            return .sentence("this destination is not built in; use stdout, stderr, syslog, topic or file PATH.")
        default:
            return .expected("stdout, stderr, syslog, topic, file PATH or none")
        }
        if !configuration.logging.destinations.contains(destination) { configuration.logging.destinations.append(destination) }
        if case .file(let path) = destination, !text.hasSuffix(path) {
            return .remark("the quotes are taken off; mosquitto would take them for a part of the path.")
        }
        return nil
    }

    /// The first `log_type` line replaces the default, the others add to it.
    @Sendable private static func setLogType(
        _ text: String, _ configuration: inout BrokerConfiguration, _ isFirst: Bool
    ) -> Expectation? {
        if isFirst { configuration.logging.types = [] }
        guard let types = logTypeNames.first(where: { $0.key == text })?.value else {
            return .expected(logTypeNames.map(\.key).joined(separator: ", "))
        }
        configuration.logging.types.formUnion(types)
        return nil
    }

    private static let logTypeNames: KeyValuePairs<String, LogTypes> = [
        "error": .error, "warning": .warning, "notice": .notice, "information": .information, "debug": .debug,
        "subscribe": .subscribe, "unsubscribe": .unsubscribe, "websockets": .webSockets, "internal": .internal, "none": [],
        "all": .all,
    ]
}
