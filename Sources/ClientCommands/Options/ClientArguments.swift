public import MQTTCodec

/// What a client command is asked to do, read from its arguments. A value: nothing is opened, looked up or read but the arguments.
public struct ClientArguments: Equatable, Sendable {
    public var command: ClientCommand

    // MARK: Where
    public var host = "localhost"
    /// nil for the usual one, 1883 or 8883.
    public var port: UInt16?
    /// Instead of host and port.
    public var socketPath: String?
    public var usesWebSocket = false
    /// With the query; nil for the usual one.
    public var webSocketPath: String?
    public var webSocketHeaders: [String: String] = [:]
    /// The address of what connections go through.
    public var proxy: String?
    public var bindAddress: String?
    public var tls = TLSArguments()

    // MARK: Who
    public var identifier: EncodedString?
    /// The process's number is to follow.
    public var identifierPrefix: EncodedString?
    public var userName: EncodedString?
    public var password: [UInt8]?
    public var version: ProtocolVersion
    public var keepAliveSeconds: UInt16 = 60
    /// Whether what the broker knew of this client is forgotten. (Clean Start, Clean Session.)
    public var cleanStart = true
    /// In seconds, 0xFFFFFFFF for ever; nil if nothing was said.
    public var sessionExpiryInterval: UInt32?
    public var will: Will?
    public var properties = PacketProperties()
    public var inFlightMessagesMax = 20

    // MARK: What is sent
    public var topic: TopicName?
    public var source: MessageSource?
    public var qos = QoS.atMostOnce
    public var retain = false
    public var repeatCount = 1
    public var repeatDelaySeconds = 0.0
    public var responseTopic: TopicName?
    /// What answers requests, with its arguments.
    public var program: [String] = []
    public var jobs = 1

    // MARK: What is received
    public var filters: [TopicFilter] = []
    public var filtersOut: [TopicFilter] = []
    public var unsubscribed: [TopicFilter] = []
    /// nil for no end.
    public var messageCountMax: Int?
    public var timeoutSeconds: Int?
    public var exitsWhenSubscribed = false
    /// Each topic has a line of its own on the terminal.
    public var watches = false
    public var noRetained = false
    public var retainedOnly = false
    public var retainAsPublished = false
    public var removesRetained = false
    /// In thousandths.
    public var randomShare: Int?

    // MARK: How it is printed
    public var output = Output.payload
    public var isPretty = false
    public var addsNewline = true
    public var isDebugging = false
    public var isQuiet = false

    /// Where a message comes from.
    public enum MessageSource: Equatable, Sendable {
        case text([UInt8])
        case file(String)
        /// Each line of standard input is a message.
        case lines
        /// All of standard input.
        case input
        case null
    }

    /// How a message is printed.
    public enum Output: Equatable, Sendable {
        case payload
        /// With the topic before it.
        case verbose
        case format(MessageFormat)
        case json
    }

    init(_ command: ClientCommand) {
        self.command = command
        version = command == .pub || command == .sub ? .v311 : .v5
    }

    /// Whether the connection is TLS's.
    public var usesTLS: Bool {
        if tls.isForbidden || socketPath != nil && !tls.isNamed { return false }
        return tls.isNamed || port == Self.portOfTLS
    }

    /// The port that is meant.
    public var usualPort: UInt16 { port ?? (usesTLS ? Self.portOfTLS : 1883) }

    static let portOfTLS: UInt16 = 8883
}

/// What the arguments say of TLS.
public struct TLSArguments: Equatable, Sendable {
    public var authoritiesFile: String?
    public var authoritiesDirectory: String?
    public var usesSystemAuthorities = false
    public var certificateFile: String?
    public var keyFile: String?
    public var keyForm: String?
    public var versionMin: Version?
    public var ciphers: String?
    public var takesAnyCertificate = false
    public var applicationProtocol: String?
    public var preSharedKey: [UInt8]?
    public var preSharedKeyIdentity: String?
    /// Whether there is to be none.
    public var isForbidden = false

    public enum Version: String, Sendable {
        case tls12 = "tlsv1.2"
        case tls13 = "tlsv1.3"
    }

    /// Whether an option asks for it.
    var isNamed: Bool { authoritiesFile != nil || authoritiesDirectory != nil || usesSystemAuthorities || preSharedKey != nil }

    public init() {}
}

/// Properties of MQTT 5.0 for each packet that has some.
public struct PacketProperties: Equatable, Sendable {
    public var connect = Properties()
    public var publish = Properties()
    public var subscribe = Properties()
    public var unsubscribe = Properties()
    public var disconnect = Properties()
    public var will = Properties()

    public init() {}
}

/// What is wrong with arguments, as their user is told.
public struct ArgumentError: Error, Equatable, Sendable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }

    /// The arguments are no UTF-8.
    public static let notText = ArgumentError("Error: Arguments have to be UTF-8; send other bytes with -f or -s.")

    /// The file of -o cannot be read.
    public static func unreadable(_ path: String) -> ArgumentError {
        ArgumentError("Error: The options file \(path) cannot be read.")
    }
}
