public import MQTTCodec

/// What a client command is asked to do, read from its arguments. A value: nothing is opened, looked up or read but the
/// arguments.
public struct ClientArguments: Equatable, Sendable {
    public var command: ClientCommand
    public var version: ProtocolVersion
    public var connection = ConnectionArguments()
    public var login = LoginArguments()
    public var session = SessionArguments()
    public var will: Will?
    public var properties = PacketProperties()
    /// Of messages that are sent, or of subscriptions.
    public var qos = QoS.atMostOnce
    public var publishing = PublishArguments()
    public var subscribing = SubscribeArguments()
    public var printing = PrintArguments()

    init(_ command: ClientCommand) {
        self.command = command
        version = command == .pub || command == .sub ? .v311 : .v5
    }
}

/// Where the broker is, and what the connection goes through.
public struct ConnectionArguments: Equatable, Sendable {
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

    /// Whether the connection is TLS's.
    public var usesTLS: Bool {
        if tls.isForbidden || socketPath != nil && !tls.isNamed { return false }
        return tls.isNamed || port == Self.portOfTLS
    }

    /// The port that is meant.
    public var usualPort: UInt16 { port ?? (usesTLS ? Self.portOfTLS : 1883) }

    static let portOfTLS: UInt16 = 8883
}

/// Who the client is.
public struct LoginArguments: Equatable, Sendable {
    public var identifier: EncodedString?
    /// The process's number is to follow.
    public var identifierPrefix: EncodedString?
    public var userName: EncodedString?
    public var password: [UInt8]?
}

/// What client and broker agree on.
public struct SessionArguments: Equatable, Sendable {
    public var keepAliveSeconds: UInt16 = 60
    /// Whether what the broker knew of this client is forgotten. (Clean Start, Clean Session.)
    public var cleanStart = true
    /// In seconds, 0xFFFFFFFF for ever; nil if nothing was said.
    public var expiryInterval: UInt32?
    public var inFlightMessagesMax = 20
}

/// What is sent.
public struct PublishArguments: Equatable, Sendable {
    public var topic: TopicName?
    public var source: MessageSource?
    public var retain = false
    public var repeatCount = 1
    public var repeatDelaySeconds = 0.0
    public var responseTopic: TopicName?
    /// What answers requests, with its arguments.
    public var program: [String] = []
    public var jobs = 1

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
}

/// What is received.
public struct SubscribeArguments: Equatable, Sendable {
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
}

/// How messages are printed, and what else is said.
public struct PrintArguments: Equatable, Sendable {
    public var output = Output.payload
    public var isPretty = false
    public var addsNewline = true
    public var isDebugging = false
    public var isQuiet = false

    /// How a message is printed.
    public enum Output: Equatable, Sendable {
        case payload
        /// With the topic before it.
        case verbose
        case format(MessageFormat)
        case json
    }
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
    public var acceptsAnyCertificate = false
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

/// An error in a command's arguments, as its user is told.
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

extension PacketProperties {
    /// Takes the values of -D off the front: packet, property and value; of user-property name and value.
    mutating func add(_ words: inout ArraySlice<String>) throws(ArgumentError) {
        let tooFew = ArgumentError("Error: --property argument given but not enough arguments specified.")
        guard words.count >= 2, let packetName = words.popFirst(), let propertyName = words.popFirst() else { throw tooFew }
        guard let packet = Packet(rawValue: packetName.lowercased()) else {
            guard !Packet.namesOfOthers.contains(packetName.lowercased()) else {
                throw ArgumentError("Error: \(propertyName) property not supported for \(packetName) in --property argument.")
            }
            throw ArgumentError("Error: Invalid command given in --property argument.")
        }
        guard let name = Name(rawValue: propertyName.lowercased()) else {
            throw ArgumentError("Error: Invalid property name given in --property argument.")
        }
        guard let value = words.popFirst() else { throw tooFew }
        var second: String?
        if name == .userProperty {
            guard let next = words.popFirst() else { throw tooFew }
            second = next
        }
        guard name.packets.contains(packet) else {
            throw ArgumentError("Error: \(propertyName) property not allowed for \(packetName) in --property argument.")
        }
        guard !name.isServers(in: packet) else {
            throw ArgumentError("Error: \(propertyName) property not supported for \(packetName) in --property argument.")
        }
        let properties = packet.properties
        let isNew = try set(name, value, second, in: &self[keyPath: properties])
        guard isNew else {
            throw ArgumentError("Error in \(packet.title) properties: Duplicate property in property list")
        }
    }

    /// Returns whether the property was not there before.
    private func set(
        _ name: Name, _ value: String, _ second: String?, in properties: inout Properties
    ) throws(ArgumentError) -> Bool {
        switch name {
        case .payloadFormatIndicator: return put(try number(value, name, to: 1), \.payloadFormatIndicator, &properties)
        case .messageExpiryInterval: return put(try number(value, name), \.messageExpiryInterval, &properties)
        case .willDelayInterval: return put(try number(value, name), \.willDelayInterval, &properties)
        case .sessionExpiryInterval: return put(try number(value, name), \.sessionExpiryInterval, &properties)
        case .maximumPacketSize: return put(try number(value, name, from: 1), \.maximumPacketSize, &properties)
        case .receiveMaximum: return put(try number(value, name, from: 1), \.receiveMaximum, &properties)
        case .topicAliasMaximum: return put(try number(value, name), \.topicAliasMaximum, &properties)
        case .topicAlias: return put(try number(value, name, from: 1), \.topicAlias, &properties)
        case .requestProblemInformation:
            return put(try number(value, name, to: 1) as UInt8 == 1, \.requestProblemInformation, &properties)
        case .requestResponseInformation:
            return put(try number(value, name, to: 1) as UInt8 == 1, \.requestResponseInformation, &properties)
        case .contentType: return put(try text(value, name), \.contentType, &properties)
        case .responseTopic: return put(try topic(value, name), \.responseTopic, &properties)
        case .authenticationMethod: return put(try text(value, name), \.authenticationMethod, &properties)
        case .reasonString: return put(try text(value, name), \.reasonString, &properties)
        case .correlationData: return put(try data(value, name), \.correlationData, &properties)
        case .authenticationData: return put(try data(value, name), \.authenticationData, &properties)
        case .subscriptionIdentifier:
            guard properties.subscriptionIdentifiers.isEmpty else { return false }
            properties.subscriptionIdentifiers = [try number(value, name, from: 1, to: 268_435_455)]
            return true
        case .userProperty:
            properties.userProperties.append(UserProperty(name: try text(value, name), value: try text(second ?? "", name)))
            return true
        case .assignedClientIdentifier, .serverKeepAlive, .responseInformation, .serverReference, .maximumQoS, .retainAvailable,
            .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable, .sharedSubscriptionAvailable:
            // No packet of a client has them.
            return true
        }
    }

    private func put<Value>(
        _ value: Value?, _ property: WritableKeyPath<Properties, Value?>, _ properties: inout Properties
    ) -> Bool {
        guard properties[keyPath: property] == nil else { return false }
        properties[keyPath: property] = value
        return true
    }

    private func number<Number: FixedWidthInteger>(
        _ text: String, _ name: Name, from least: Number = 0, to most: Number = .max
    ) throws(ArgumentError) -> Number {
        guard let number = Number(text), number >= least, number <= most else {
            throw ArgumentError("Error: Property value (\(text)) out of range for property \(name.rawValue).")
        }
        return number
    }

    private func text(_ text: String, _ name: Name) throws(ArgumentError) -> EncodedString {
        guard let encoded = EncodedString(text) else {
            throw ArgumentError("Error: The property \(name.rawValue) takes at most 65535 bytes and no null character.")
        }
        return encoded
    }

    private func topic(_ text: String, _ name: Name) throws(ArgumentError) -> EncodedString {
        guard let topic = TopicName(text) else {
            throw ArgumentError("Error: Invalid \(name.rawValue) '\(text)', does it contain '+' or '#'?")
        }
        return topic.text
    }

    private func data(_ text: String, _ name: Name) throws(ArgumentError) -> [UInt8] {
        guard text.utf8.count <= 65_535 else {
            throw ArgumentError("Error: The property \(name.rawValue) takes at most 65535 bytes.")
        }
        return Array(text.utf8)
    }

    /// The packets whose properties can be given.
    private enum Packet: String {
        case connect, publish, subscribe, unsubscribe, disconnect, will

        var properties: WritableKeyPath<PacketProperties, Properties> {
            switch self {
            case .connect: \.connect
            case .publish: \.publish
            case .subscribe: \.subscribe
            case .unsubscribe: \.unsubscribe
            case .disconnect: \.disconnect
            case .will: \.will
            }
        }

        var title: String { self == .will ? "Will" : rawValue.uppercased() }

        /// Of packets that clients do not send, or of which the library decides.
        static let namesOfOthers: Set<String> = [
            "connack", "puback", "pubrec", "pubrel", "pubcomp", "suback", "unsuback", "auth", "pingreq", "pingresp",
        ]
    }

    /// The properties, named as the standard names them with dashes.
    private enum Name: String {
        case payloadFormatIndicator = "payload-format-indicator"
        case messageExpiryInterval = "message-expiry-interval"
        case contentType = "content-type"
        case responseTopic = "response-topic"
        case correlationData = "correlation-data"
        case subscriptionIdentifier = "subscription-identifier"
        case sessionExpiryInterval = "session-expiry-interval"
        case assignedClientIdentifier = "assigned-client-identifier"
        case serverKeepAlive = "server-keep-alive"
        case authenticationMethod = "authentication-method"
        case authenticationData = "authentication-data"
        case requestProblemInformation = "request-problem-information"
        case willDelayInterval = "will-delay-interval"
        case requestResponseInformation = "request-response-information"
        case responseInformation = "response-information"
        case serverReference = "server-reference"
        case reasonString = "reason-string"
        case receiveMaximum = "receive-maximum"
        case topicAliasMaximum = "topic-alias-maximum"
        case topicAlias = "topic-alias"
        case maximumQoS = "maximum-qos"
        case retainAvailable = "retain-available"
        case userProperty = "user-property"
        case maximumPacketSize = "maximum-packet-size"
        case wildcardSubscriptionAvailable = "wildcard-subscription-available"
        case subscriptionIdentifierAvailable = "subscription-identifier-available"
        case sharedSubscriptionAvailable = "shared-subscription-available"

        /// Where it may stand (section 2.2.2.2 of the standard).
        var packets: Set<Packet> {
            switch self {
            case .payloadFormatIndicator, .messageExpiryInterval, .contentType, .responseTopic, .correlationData: [.publish, .will]
            case .subscriptionIdentifier: [.publish, .subscribe]
            case .topicAlias: [.publish]
            case .willDelayInterval: [.will]
            case .sessionExpiryInterval: [.connect, .disconnect]
            case .authenticationMethod, .authenticationData, .requestProblemInformation, .requestResponseInformation,
                .receiveMaximum, .topicAliasMaximum, .maximumPacketSize:
                [.connect]
            case .reasonString: [.disconnect]
            case .userProperty: [.connect, .publish, .subscribe, .unsubscribe, .disconnect, .will]
            case .assignedClientIdentifier, .serverKeepAlive, .responseInformation, .serverReference, .maximumQoS, .retainAvailable,
                .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable, .sharedSubscriptionAvailable:
                []
            }
        }

        /// Whether only servers put it into that packet.
        func isServers(in packet: Packet) -> Bool { self == .subscriptionIdentifier && packet == .publish }
    }
}

/// The value of -L, taken apart: `mqtts://user:password@host:port/topic`.
struct URLArgument: Equatable {
    var usesTLS: Bool
    var usesWebSocket: Bool
    var user: String?
    var password: String?
    var host: String
    var port: UInt16?
    var topic: String

    init(_ text: String) throws(ArgumentError) {
        guard let scheme = Self.schemes.first(where: { text.lowercased().hasPrefix($0.name) }) else {
            throw ArgumentError("Error: Unsupported URL scheme.")
        }
        (usesTLS, usesWebSocket, port) = (scheme.usesTLS, scheme.usesWebSocket, scheme.usesTLS ? 8883 : 1883)
        let rest = text.dropFirst(scheme.name.count)
        guard let slash = rest.firstIndex(of: "/") else {
            throw ArgumentError("Error: Invalid URL for -L argument specified - topic missing.")
        }
        topic = String(rest[rest.index(after: slash)...])
        var authority = rest[..<slash]
        if let at = authority.lastIndex(of: "@") {
            let login = authority[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            user = login.first
            password = login.count > 1 ? login[1] : nil
            authority = authority[authority.index(after: at)...]
        }
        // The colons of an IPv6 address stand between brackets.
        let bracket = authority.hasPrefix("[") ? authority.lastIndex(of: "]") : nil
        if let colon = authority[(bracket ?? authority.startIndex)...].lastIndex(of: ":") {
            let digits = authority[authority.index(after: colon)...]
            guard let number = UInt16(digits), number > 0 else { throw ArgumentError("Error: Invalid port given: \(digits)") }
            port = number
            authority = authority[..<colon]
        }
        host = bracket == nil ? String(authority) : String(authority.dropFirst().dropLast())
        guard !host.isEmpty else { throw ArgumentError("Error: Invalid URL for -L argument specified - host missing.") }
    }

    private static let schemes: [(name: String, usesTLS: Bool, usesWebSocket: Bool)] = [
        ("mqtt://", false, false), ("mqtts://", true, false), ("ws://", false, true), ("wss://", true, true),
    ]
}
