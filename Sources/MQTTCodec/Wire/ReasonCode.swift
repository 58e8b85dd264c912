/// The result of an operation in MQTT 5.0 (section 2.4 of the standard); below 0x80 is success, from there on failure.
///
/// Any byte can be held; `isAllowed(in:from:)` tells whether the standard lets it stand in a packet.
public struct ReasonCode: RawRepresentable, Hashable, Sendable {
    /// The byte on the wire.
    public let rawValue: UInt8

    @inline(__always)
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Whether the code tells of a failure.
    @inline(__always)
    public var isError: Bool { rawValue >= 0x80 }
}

/// Computed, so that other modules see a number where a constant's would be called for its address.
extension ReasonCode {
    public static var success: Self { Self(rawValue: 0x00) }
    public static var normalDisconnection: Self { Self(rawValue: 0x00) }
    public static var grantedQoS0: Self { Self(rawValue: 0x00) }
    public static var grantedQoS1: Self { Self(rawValue: 0x01) }
    public static var grantedQoS2: Self { Self(rawValue: 0x02) }
    public static var disconnectWithWillMessage: Self { Self(rawValue: 0x04) }
    public static var noMatchingSubscribers: Self { Self(rawValue: 0x10) }
    public static var noSubscriptionExisted: Self { Self(rawValue: 0x11) }
    public static var continueAuthentication: Self { Self(rawValue: 0x18) }
    public static var reauthenticate: Self { Self(rawValue: 0x19) }
    public static var unspecifiedError: Self { Self(rawValue: 0x80) }
    public static var malformedPacket: Self { Self(rawValue: 0x81) }
    public static var protocolError: Self { Self(rawValue: 0x82) }
    public static var implementationSpecificError: Self { Self(rawValue: 0x83) }
    public static var unsupportedProtocolVersion: Self { Self(rawValue: 0x84) }
    public static var clientIdentifierNotValid: Self { Self(rawValue: 0x85) }
    public static var badUserNameOrPassword: Self { Self(rawValue: 0x86) }
    public static var notAuthorized: Self { Self(rawValue: 0x87) }
    public static var serverUnavailable: Self { Self(rawValue: 0x88) }
    public static var serverBusy: Self { Self(rawValue: 0x89) }
    public static var banned: Self { Self(rawValue: 0x8A) }
    public static var serverShuttingDown: Self { Self(rawValue: 0x8B) }
    public static var badAuthenticationMethod: Self { Self(rawValue: 0x8C) }
    public static var keepAliveTimeout: Self { Self(rawValue: 0x8D) }
    public static var sessionTakenOver: Self { Self(rawValue: 0x8E) }
    public static var topicFilterInvalid: Self { Self(rawValue: 0x8F) }
    public static var topicNameInvalid: Self { Self(rawValue: 0x90) }
    public static var packetIdentifierInUse: Self { Self(rawValue: 0x91) }
    public static var packetIdentifierNotFound: Self { Self(rawValue: 0x92) }
    public static var receiveMaximumExceeded: Self { Self(rawValue: 0x93) }
    public static var topicAliasInvalid: Self { Self(rawValue: 0x94) }
    public static var packetTooLarge: Self { Self(rawValue: 0x95) }
    public static var messageRateTooHigh: Self { Self(rawValue: 0x96) }
    public static var quotaExceeded: Self { Self(rawValue: 0x97) }
    public static var administrativeAction: Self { Self(rawValue: 0x98) }
    public static var payloadFormatInvalid: Self { Self(rawValue: 0x99) }
    public static var retainNotSupported: Self { Self(rawValue: 0x9A) }
    public static var qosNotSupported: Self { Self(rawValue: 0x9B) }
    public static var useAnotherServer: Self { Self(rawValue: 0x9C) }
    public static var serverMoved: Self { Self(rawValue: 0x9D) }
    public static var sharedSubscriptionsNotSupported: Self { Self(rawValue: 0x9E) }
    public static var connectionRateExceeded: Self { Self(rawValue: 0x9F) }
    public static var maximumConnectTime: Self { Self(rawValue: 0xA0) }
    public static var subscriptionIdentifiersNotSupported: Self { Self(rawValue: 0xA1) }
    public static var wildcardSubscriptionsNotSupported: Self { Self(rawValue: 0xA2) }
}

extension ReasonCode: CustomStringConvertible {
    /// The code in the standard's words, for logs.
    public var description: String {
        switch rawValue {
        case 0x00: "success"
        case 0x01: "granted QoS 1"
        case 0x02: "granted QoS 2"
        case 0x04: "disconnect with will message"
        case 0x10: "no matching subscribers"
        case 0x11: "no subscription existed"
        case 0x18: "continue authentication"
        case 0x19: "re-authenticate"
        default: isError ? failure : "unknown reason code \(rawValue)"
        }
    }

    private var failure: String {
        let index = Int(rawValue) - 0x80
        return index < Self.failures.count ? Self.failures[index] : "unknown reason code \(rawValue)"
    }

    /// From 0x80 on, without a gap.
    private static let failures = [
        "unspecified error", "malformed packet", "protocol error", "implementation specific error",
        "unsupported protocol version", "client identifier not valid", "bad user name or password", "not authorized",
        "server unavailable", "server busy", "banned", "server shutting down", "bad authentication method", "keep alive timeout",
        "session taken over", "topic filter invalid", "topic name invalid", "packet identifier in use",
        "packet identifier not found", "receive maximum exceeded", "topic alias invalid", "packet too large",
        "message rate too high", "quota exceeded", "administrative action", "payload format invalid", "retain not supported",
        "QoS not supported", "use another server", "server moved", "shared subscriptions not supported",
        "connection rate exceeded", "maximum connect time", "subscription identifiers not supported",
        "wildcard subscriptions not supported",
    ]
}

extension ReasonCode {
    /// Whether that side may send this code in that packet (section 2.4 and the tables of each packet).
    public func isAllowed(in type: PacketType, from peer: Peer) -> Bool {
        switch type {
        case .connack:  // [MQTT-3.2.2-8 v5]
            return peer == .server && isAllowedInConnack
        case .puback, .pubrec:  // [MQTT-3.4.2-1 v5] [MQTT-3.5.2-1 v5]
            return isAllowedInPublishResponse
        case .pubrel, .pubcomp:  // [MQTT-3.6.2-1 v5] [MQTT-3.7.2-1 v5]
            return self == .success || self == .packetIdentifierNotFound
        case .suback:  // [MQTT-3.9.3-2 v5]
            return peer == .server && isAllowedInSuback
        case .unsuback:  // [MQTT-3.11.3-2 v5]
            return peer == .server && isAllowedInUnsuback
        case .disconnect:  // [MQTT-3.14.2-1 v5]
            return isAllowedInDisconnect(from: peer)
        case .auth:  // [MQTT-3.15.2-1 v5]
            return isAllowedInAuth(from: peer)
        case .connect, .publish, .subscribe, .unsubscribe, .pingreq, .pingresp:
            return false
        }
    }

    private var isAllowedInConnack: Bool {
        switch rawValue {
        case 0x00, 0x80...0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99...0x9D, 0x9F: true
        default: false
        }
    }

    /// 0x10 is the server's to say, yet a client may stand for a server: mosquitto's bridges hand on what nobody
    /// subscribes to at their end.
    private var isAllowedInPublishResponse: Bool {
        switch rawValue {
        case 0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99: true
        default: false
        }
    }

    private var isAllowedInSuback: Bool {
        switch rawValue {
        case 0x00...0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2: true
        default: false
        }
    }

    private var isAllowedInUnsuback: Bool {
        switch rawValue {
        case 0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91: true
        default: false
        }
    }

    private func isAllowedInDisconnect(from peer: Peer) -> Bool {
        switch rawValue {
        // ![MQTT-3.14.2-1 v5] The table gives 0x00 to the client alone, yet a DISCONNECT without a code means 0x00 and
        // servers send it.
        case 0x00, 0x80...0x83, 0x90, 0x93...0x99: true
        case 0x04: peer == .client
        case 0x87, 0x89, 0x8B, 0x8D...0x8F, 0x9A...0xA2: peer == .server
        default: false
        }
    }

    private func isAllowedInAuth(from peer: Peer) -> Bool {
        switch rawValue {
        case 0x00: peer == .server
        case 0x18: true
        case 0x19: peer == .client
        default: false
        }
    }
}

/// What a CONNACK of MQTT 3.1 and 3.1.1 says.
public enum ConnectReturnCode: UInt8, Sendable {
    case accepted = 0
    case unacceptableProtocolVersion = 1
    case identifierRejected = 2
    case serverUnavailable = 3
    case badUserNameOrPassword = 4
    case notAuthorized = 5
}

/// The type of a control packet: the upper four bits of its first byte.
public enum PacketType: UInt8, Sendable, CaseIterable {
    case connect = 1
    case connack
    case publish
    case puback
    case pubrec
    case pubrel
    case pubcomp
    case subscribe
    case suback
    case unsubscribe
    case unsuback
    case pingreq
    case pingresp
    case disconnect
    case auth

    /// The standard's name, such as `PUBLISH`.
    public var name: String { "\(self)".uppercased() }

    /// Whether that side may send this packet at all in that version (section 2.1.2 of the standard).
    public func isSent(by peer: Peer, version: ProtocolVersion) -> Bool {
        switch self {
        case .publish, .puback, .pubrec, .pubrel, .pubcomp: true
        case .connect, .subscribe, .unsubscribe, .pingreq: peer == .client
        case .connack, .suback, .unsuback, .pingresp: peer == .server
        case .disconnect: peer == .client || version == .v5
        case .auth: version == .v5
        }
    }

    /// The lower four bits of the first byte, which are fixed for every type but PUBLISH. [MQTT-2.1.3-1 v5]
    var fixedFlags: UInt8 {
        switch self {
        case .pubrel, .subscribe, .unsubscribe: 0b0010
        default: 0
        }
    }
}

extension PacketType {
    /// Whether the lower four bits of a first byte are what this type, which is not PUBLISH, asks for.
    /// [MQTT-2.1.3-1 v5]
    ///
    /// MQTT 3.1 does not use these bits but to mark repeated packets, so there any value will do.
    @inline(__always)
    func acceptsFlags(of firstByte: UInt8, version: ProtocolVersion) -> Bool {
        firstByte & 0x0F == fixedFlags || version == .v31
    }
}

/// The versions of MQTT that are spoken here, with the level that stands in CONNECT.
public enum ProtocolVersion: UInt8, Sendable {
    /// MQTT 3.1, which names itself "MQIsdp".
    case v31 = 3
    /// MQTT 3.1.1.
    case v311 = 4
    /// MQTT 5.0.
    case v5 = 5
}

/// The side that sent a packet. Some packets, properties and reason codes are for one side only.
public enum Peer: Sendable {
    case client
    case server
}
