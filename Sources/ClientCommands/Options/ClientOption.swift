/// The options of the client commands: names, meaning, and which command takes which. Reading, help, manual and completions come from here.
///
/// Names and meanings are those of mosquitto_pub, mosquitto_sub and mosquitto_rr, versions 2.0 and 2.1.
public enum ClientOption: String, CaseIterable, Sendable {
    // Where.
    case host, port, unix, url, webSocket, webSocketPath, webSocketHeader, bind, noDelay, proxy
    // Who.
    case identifier, identifierPrefix, userName, password, version, keepAlive, keepsSession, sessionExpiry
    // What.
    case topic, qos, retain, message, file, lines, input, null, count, delay, inFlight, responseTopic
    // What is received and how it is printed.
    case messageCount, timeout, exitsWhenSubscribed, filterOut, unsubscribe, noRetained, retainedOnly, retainAsPublished
    case removeRetained, randomFilter, watch, verbose, format, json, pretty, noNewline, jobs
    // The will, and properties.
    case willTopic, willPayload, willQoS, willRetain, property
    // TLS.
    case cafile, capath, cert, key, keyform, tlsVersion, ciphers, insecure, alpn, systemAuthorities, noTLS, psk, pskIdentity
    case engine, enginePassword
    // The command itself.
    case optionsFile, debug, quiet, serviceRecord, programVersion

    /// What completes the option's value in a shell.
    public enum Completion: Sendable, Equatable {
        case nothing, file, directory
        case words([String])
    }

    /// Everything that is known of an option.
    public struct Description: Sendable {
        /// With their dashes; the letter first.
        public let names: [String]
        /// How the value is called in the help; nil for a flag.
        public let value: String?
        /// How mosquitto calls it when it is missing.
        let missing: String
        /// Plain sentences.
        public let help: String
        public let commands: Set<ClientCommand>
        public let completion: Completion
    }

    /// The options of a command, in the order of its help.
    public static func all(of command: ClientCommand) -> [ClientOption] {
        allCases.filter { $0.description.commands.contains(command) }
    }

    /// The option of a command that has that name, dashes included.
    static func named(_ name: String, of command: ClientCommand) -> ClientOption? {
        byName[name].flatMap { $0.description.commands.contains(command) ? $0 : nil }
    }

    private static let byName: [String: ClientOption] = Dictionary(
        uniqueKeysWithValues: allCases.flatMap { option in option.description.names.map { ($0, option) } })
}
