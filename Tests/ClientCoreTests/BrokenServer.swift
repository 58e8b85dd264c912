import ClientCore
import MQTTCodec
import Testing

/// What a server must not send: bytes that a client gets, and what it makes of them. One line for each.
struct BrokenServer: CustomTestStringConvertible, Sendable {
    let what: String
    let version: ProtocolVersion
    let bytes: [UInt8]
    let failure: ClientFailure

    var testDescription: String { "\(version), \(what)" }

    private static func five(_ what: String, _ bytes: [UInt8], _ error: WireError) -> BrokenServer {
        BrokenServer(what: what, version: .v5, bytes: bytes, failure: .malformed(error))
    }

    private static func five(_ what: String, _ bytes: [UInt8], _ reason: ReasonCode) -> BrokenServer {
        BrokenServer(what: what, version: .v5, bytes: bytes, failure: .protocolError(reason))
    }

    private static func three(_ what: String, _ bytes: [UInt8], _ error: WireError) -> BrokenServer {
        BrokenServer(what: what, version: .v311, bytes: bytes, failure: .malformed(error))
    }

    private static func three(_ what: String, _ bytes: [UInt8]) -> BrokenServer {
        BrokenServer(what: what, version: .v311, bytes: bytes, failure: .protocolError(.protocolError))
    }

    /// Behind CONNECT.
    static let beforeConnack: [BrokenServer] = [
        five("PINGRESP before CONNACK", [0xD0, 0], .protocolError),
        five("PUBLISH before CONNACK", [0x30, 4, 0, 1, 0x61, 0], .protocolError),
        five("PUBACK before CONNACK", [0x40, 2, 0, 1], .protocolError),
        five("SUBACK before CONNACK", [0x90, 4, 0, 1, 0, 0], .protocolError),
        five("CONNACK with reserved flags", [0x20, 3, 2, 0, 0], .reservedConnackFlags),
        five("CONNACK with reserved bits in its first byte", [0x21, 3, 0, 0, 0], .reservedFlags),
        five("CONNACK with a reason that is none of CONNACK's", [0x20, 3, 0, 1, 0], .invalidReasonCode),
        five("CONNACK that is too short", [0x20, 1, 0], .truncated),
        five("CONNACK with bytes behind it", [0x20, 4, 0, 0, 0, 0], .trailingBytes),
        five("CONNACK with a session that was to be new", [0x20, 3, 1, 0, 0], .protocolError),
        five("CONNACK with Receive Maximum 0", [0x20, 6, 0, 0, 3, 0x21, 0, 0], .receiveMaximumZero),
        five("CONNACK with Maximum Packet Size 0", [0x20, 8, 0, 0, 5, 0x27, 0, 0, 0, 0], .maximumPacketSizeZero),
        five("CONNACK with a property of PUBLISH", [0x20, 6, 0, 0, 3, 0x23, 0, 1], .propertyNotAllowed),
        five("CONNACK with an authentication that was not asked for", [0x20, 7, 0, 0, 4, 0x15, 0, 1, 0x78], .protocolError),
        five("AUTH that was not asked for", [0xF0, 6, 0x18, 4, 0x15, 0, 1, 0x78], .protocolError),
        five("a client's packet", [0x82, 6, 0, 1, 0, 1, 0x61, 0], .unexpectedPacket),
        three("PINGRESP before CONNACK", [0xD0, 0]),
        three("CONNACK with reserved flags", [0x20, 2, 2, 0], .reservedConnackFlags),
        three("CONNACK with a return code that is none", [0x20, 2, 0, 6], .invalidReasonCode),
        three("CONNACK with a session that was to be new", [0x20, 2, 1, 0]),
    ]

    /// On a connection that stands.
    static let online: [BrokenServer] = frames + publishes + properties + acknowledgements + others + version3

    private static let frames: [BrokenServer] = [
        five("a packet type that is none", [0x00, 0], .reservedPacketType),
        five("a length of five bytes", [0x30, 0xFF, 0xFF, 0xFF, 0xFF, 1], .remainingLengthTooLong),
        five("a length in more bytes than it needs", [0xD0, 0x80, 0], .nonMinimalVariableByteInteger),
        five("a packet larger than we take", [0x30, 0xE9, 7], .packetTooLarge),
        five("a second CONNACK", [0x20, 3, 0, 0, 0], .protocolError),
        five("CONNECT", [0x10, 0], .unexpectedPacket),
        five("SUBSCRIBE", [0x82, 6, 0, 1, 0, 1, 0x61, 0], .unexpectedPacket),
        five("UNSUBSCRIBE", [0xA2, 6, 0, 1, 0, 0, 1, 0x61], .unexpectedPacket),
        five("PINGREQ", [0xC0, 0], .unexpectedPacket),
    ]

    private static let publishes: [BrokenServer] = [
        five("PUBLISH with both QoS bits", [0x36, 6, 0, 1, 0x61, 0, 1, 0], .invalidQoS),
        five("PUBLISH of QoS 0 with DUP", [0x38, 4, 0, 1, 0x61, 0], .duplicateAtMostOnce),
        five("PUBLISH with packet identifier 0", [0x32, 6, 0, 1, 0x61, 0, 0, 0], .packetIdentifierZero),
        five("PUBLISH that ends in its topic", [0x30, 3, 0, 5, 0x61], .truncated),
        five("PUBLISH without a topic or an alias", [0x30, 3, 0, 0, 0], .emptyTopic),
        five("PUBLISH with a topic that is no UTF-8", [0x30, 4, 0, 1, 0xFF, 0], .invalidUTF8),
        five("PUBLISH with a surrogate in its topic", [0x30, 6, 0, 3, 0xED, 0xA0, 0x80, 0], .invalidUTF8),
        five("PUBLISH with U+0000 in its topic", [0x30, 4, 0, 1, 0, 0], .nullCharacter),
        five("PUBLISH to +", [0x30, 4, 0, 1, 0x2B, 0], .topicNameWithWildcard),
        five("PUBLISH to #", [0x30, 4, 0, 1, 0x23, 0], .topicNameWithWildcard),
    ]

    private static let properties: [BrokenServer] = [
        five("Topic Alias 0", [0x30, 7, 0, 1, 0x61, 3, 0x23, 0, 0], .topicAliasZero),
        five("a Topic Alias above our maximum", [0x30, 7, 0, 1, 0x61, 3, 0x23, 0, 17], .topicAliasInvalid),
        five("a Topic Alias that stands for nothing", [0x30, 6, 0, 0, 3, 0x23, 0, 5], .topicAliasInvalid),
        five("a property that is none", [0x30, 6, 0, 1, 0x61, 2, 0x7F, 0], .unknownProperty),
        five("a property of CONNECT", [0x30, 9, 0, 1, 0x61, 5, 0x11, 0, 0, 0, 1], .propertyNotAllowed),
        five("a property twice", [0x30, 8, 0, 1, 0x61, 4, 1, 0, 1, 0], .duplicateProperty),
        five("properties that go beyond the packet", [0x30, 4, 0, 1, 0x61, 5], .truncated),
        five("a Response Topic with a wildcard", [0x30, 8, 0, 1, 0x61, 4, 8, 0, 1, 0x23], .invalidResponseTopic),
        five("a Response Topic that is no UTF-8", [0x30, 8, 0, 1, 0x61, 4, 8, 0, 1, 0xFF], .invalidUTF8),
        five("a Content Type that is no UTF-8", [0x30, 8, 0, 1, 0x61, 4, 3, 0, 1, 0xFF], .invalidUTF8),
        five("a User Property that is no UTF-8", [0x30, 10, 0, 1, 0x61, 6, 0x26, 0, 1, 0xFF, 0, 0], .invalidUTF8),
        five("Subscription Identifier 0", [0x30, 6, 0, 1, 0x61, 2, 0x0B, 0], .subscriptionIdentifierZero),
    ]

    private static let acknowledgements: [BrokenServer] = [
        five("PUBACK with reserved bits", [0x41, 2, 0, 1], .reservedFlags),
        five("PUBREL without its bits", [0x60, 2, 0, 1], .reservedFlags),
        five("PUBACK with packet identifier 0", [0x40, 2, 0, 0], .packetIdentifierZero),
        five("PUBACK that is too short", [0x40, 1, 0], .truncated),
        five("PUBACK with a reason that is none of PUBACK's", [0x40, 3, 0, 1, 1], .invalidReasonCode),
        five("PUBREC with a reason that is none of PUBREC's", [0x50, 3, 0, 1, 0x92], .invalidReasonCode),
        five("PUBREL with a reason that is none of PUBREL's", [0x62, 3, 0, 1, 0x10], .invalidReasonCode),
        five("PUBCOMP with a reason that is none of PUBCOMP's", [0x70, 3, 0, 1, 0x10], .invalidReasonCode),
        five("PUBACK with a property of PUBLISH", [0x40, 7, 0, 1, 0, 3, 0x23, 0, 1], .propertyNotAllowed),
        five("SUBACK that was not asked for", [0x90, 4, 0, 9, 0, 0], .protocolError),
        five("UNSUBACK that was not asked for", [0xB0, 4, 0, 9, 0, 0], .protocolError),
        five("SUBACK with a reason that is none of SUBACK's", [0x90, 4, 0, 9, 0, 3], .invalidReasonCode),
        five("UNSUBACK with a reason that is none of UNSUBACK's", [0xB0, 4, 0, 9, 0, 1], .invalidReasonCode),
        five("SUBACK with packet identifier 0", [0x90, 4, 0, 0, 0, 0], .packetIdentifierZero),
    ]

    private static let others: [BrokenServer] = [
        five("PINGRESP with reserved bits", [0xD1, 0], .reservedFlags),
        five("PINGRESP with a body", [0xD0, 1, 0], .trailingBytes),
        five("DISCONNECT with reserved bits", [0xE1, 0], .reservedFlags),
        five("DISCONNECT with a reason that is a client's alone", [0xE0, 1, 4], .invalidReasonCode),
        five("DISCONNECT with a Session Expiry Interval", [0xE0, 7, 0, 5, 0x11, 0, 0, 0, 1], .sessionExpiryIntervalFromServer),
        five("AUTH with reserved bits", [0xF1, 0], .reservedFlags),
        five("AUTH with a reason that is none of AUTH's", [0xF0, 1, 1], .invalidReasonCode),
        five("AUTH that was not asked for", [0xF0, 6, 0x18, 4, 0x15, 0, 1, 0x78], .protocolError),
    ]

    private static let version3: [BrokenServer] = [
        three("PUBLISH with both QoS bits", [0x36, 5, 0, 1, 0x61, 0, 1], .invalidQoS),
        three("PUBLISH of QoS 0 with DUP", [0x38, 3, 0, 1, 0x61], .duplicateAtMostOnce),
        three("PUBLISH with packet identifier 0", [0x32, 5, 0, 1, 0x61, 0, 0], .packetIdentifierZero),
        three("PUBLISH without a topic", [0x30, 2, 0, 0], .emptyTopic),
        three("PUBLISH with a topic that is no UTF-8", [0x30, 3, 0, 1, 0xFF], .invalidUTF8),
        three("PUBLISH with U+0000 in its topic", [0x30, 3, 0, 1, 0], .nullCharacter),
        three("PUBLISH to #", [0x30, 3, 0, 1, 0x23], .topicNameWithWildcard),
        three("PUBACK with reserved bits", [0x41, 2, 0, 1], .reservedFlags),
        three("PUBREL without its bits", [0x60, 2, 0, 1], .reservedFlags),
        three("PUBACK with a reason", [0x40, 3, 0, 1, 0], .trailingBytes),
        three("SUBACK with a code that is none", [0x90, 3, 0, 9, 3], .invalidReasonCode),
        three("SUBACK that was not asked for", [0x90, 3, 0, 9, 0]),
        three("UNSUBACK that was not asked for", [0xB0, 2, 0, 9]),
        three("a second CONNACK", [0x20, 2, 0, 0]),
        three("DISCONNECT, which servers do not send", [0xE0, 0], .unexpectedPacket),
        three("AUTH, which is not there yet", [0xF0, 0], .reservedPacketType),
    ]
}
