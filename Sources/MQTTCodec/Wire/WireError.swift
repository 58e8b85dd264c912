/// The ways in which a packet can be wrong: what a peer did, never what failed on our side.
///
/// Trivial on purpose: throwing one costs no allocation. `reasonCode`, `statement` and `explanation` say the rest.
public enum WireError: UInt8, Error, Hashable, CaseIterable {
    case remainingLengthTooLong
    case truncated
    case trailingBytes
    case reservedPacketType
    case reservedFlags
    case invalidUTF8
    case nullCharacter
    case nonMinimalVariableByteInteger
    case invalidQoS
    case duplicateAtMostOnce
    case topicNameWithWildcard
    case emptyTopic
    case invalidTopicFilter
    case packetIdentifierZero
    case unknownProperty
    case propertyNotAllowed
    case duplicateProperty
    case invalidPropertyValue
    case invalidResponseTopic
    case unsupportedProtocolVersion
    case protocolName
    case reservedConnectFlag
    case willFlags
    case passwordWithoutUserName
    case emptySubscribe
    case emptyUnsubscribe
    case emptyAcknowledgement
    case reservedSubscriptionOptions
    case invalidMaximumQoS
    case invalidRetainHandling
    case noLocalOnSharedSubscription
    case invalidReasonCode
    case reservedConnackFlags
    case topicAliasZero
    case subscriptionIdentifierZero
    case subscriptionIdentifierFromClient
    case sessionExpiryIntervalFromServer
    case receiveMaximumZero
    case maximumPacketSizeZero
    case authenticationDataWithoutMethod
    case authenticationMethodMissing
    case unexpectedPacket
    case tooManyUserProperties
    case tooManyFilters
}

extension WireError {
    /// The reason code that tells the peer of this error in MQTT 5.0.
    public var reasonCode: ReasonCode {
        switch self {
        case .remainingLengthTooLong, .truncated, .trailingBytes, .reservedPacketType, .reservedFlags, .invalidUTF8, .nullCharacter,
            .nonMinimalVariableByteInteger, .invalidQoS, .duplicateAtMostOnce, .unknownProperty, .propertyNotAllowed,
            .reservedConnectFlag, .willFlags, .passwordWithoutUserName, .reservedSubscriptionOptions, .reservedConnackFlags,
            .packetIdentifierZero:
            .malformedPacket
        case .emptyTopic, .duplicateProperty, .invalidPropertyValue, .invalidResponseTopic, .emptySubscribe, .emptyUnsubscribe,
            .emptyAcknowledgement, .invalidMaximumQoS, .invalidRetainHandling, .noLocalOnSharedSubscription, .invalidReasonCode,
            .subscriptionIdentifierZero, .subscriptionIdentifierFromClient, .sessionExpiryIntervalFromServer, .receiveMaximumZero,
            .maximumPacketSizeZero, .authenticationDataWithoutMethod, .authenticationMethodMissing, .unexpectedPacket:
            .protocolError
        case .unsupportedProtocolVersion, .protocolName: .unsupportedProtocolVersion
        case .topicNameWithWildcard: .topicNameInvalid
        case .invalidTopicFilter: .topicFilterInvalid
        case .topicAliasZero: .topicAliasInvalid
        case .tooManyFilters, .tooManyUserProperties: .quotaExceeded
        }
    }

    /// The id of the statement in MQTT 5.0 that forbids it; empty where the standard says it without an id.
    public var statement: StaticString {
        switch self {
        case .remainingLengthTooLong, .truncated, .trailingBytes, .reservedPacketType, .unknownProperty, .propertyNotAllowed,
            .duplicateProperty, .invalidPropertyValue, .unsupportedProtocolVersion, .passwordWithoutUserName, .invalidMaximumQoS,
            .invalidRetainHandling, .invalidReasonCode, .emptyAcknowledgement, .subscriptionIdentifierZero, .receiveMaximumZero,
            .maximumPacketSizeZero, .authenticationDataWithoutMethod, .authenticationMethodMissing, .unexpectedPacket,
            .tooManyFilters, .tooManyUserProperties:
            ""
        case .reservedFlags: "MQTT-2.1.3-1"
        case .invalidUTF8: "MQTT-1.5.4-1"
        case .nullCharacter: "MQTT-1.5.4-2"
        case .nonMinimalVariableByteInteger: "MQTT-1.5.5-1"
        case .invalidQoS: "MQTT-3.3.1-4"
        case .duplicateAtMostOnce: "MQTT-3.3.1-2"
        case .topicNameWithWildcard: "MQTT-3.3.2-2"
        case .emptyTopic: "MQTT-4.7.3-1"
        case .invalidTopicFilter: "MQTT-4.7.1-1"
        case .packetIdentifierZero: "MQTT-2.2.1-3"
        case .invalidResponseTopic: "MQTT-3.3.2-14"
        case .protocolName: "MQTT-3.1.2-1"
        case .reservedConnectFlag: "MQTT-3.1.2-3"
        case .willFlags: "MQTT-3.1.2-11"
        case .emptySubscribe: "MQTT-3.8.3-2"
        case .emptyUnsubscribe: "MQTT-3.10.3-2"
        case .reservedSubscriptionOptions: "MQTT-3.8.3-5"
        case .noLocalOnSharedSubscription: "MQTT-3.8.3-4"
        case .reservedConnackFlags: "MQTT-3.2.2-1"
        case .topicAliasZero: "MQTT-3.3.2-8"
        case .subscriptionIdentifierFromClient: "MQTT-3.3.4-6"
        case .sessionExpiryIntervalFromServer: "MQTT-3.14.2-2"
        }
    }

    /// One sentence that helps a person to find the fault in their client.
    public var explanation: StaticString {
        switch self {
        case .remainingLengthTooLong: "The remaining length takes more than four bytes."
        case .truncated: "A field reaches beyond the end of the packet."
        case .trailingBytes: "The packet has bytes behind its last field."
        case .reservedPacketType: "The packet type is reserved."
        case .reservedFlags: "The lower four bits of the first byte are not what this packet type asks for."
        case .invalidUTF8: "A text is not well-formed UTF-8."
        case .nullCharacter: "A text holds the null character U+0000."
        case .nonMinimalVariableByteInteger: "A variable byte integer is longer than it need be, or longer than four bytes."
        case .invalidQoS: "The QoS is 3; only 0, 1 and 2 exist."
        case .duplicateAtMostOnce: "The DUP flag is set on a message of QoS 0, which is never sent twice."
        case .topicNameWithWildcard: "A topic name holds + or #, which only filters may."
        case .emptyTopic: "The topic is empty and no topic alias stands for it."
        case .invalidTopicFilter: "A topic filter is empty, has a wildcard that does not fill its level, or is a broken $share."
        case .packetIdentifierZero: "The packet identifier is 0."
        case .unknownProperty: "A property has an identifier that does not exist."
        case .propertyNotAllowed: "A property does not belong on this packet."
        case .duplicateProperty: "A property that may stand once stands twice."
        case .invalidPropertyValue: "A property has a value that it may not have."
        case .invalidResponseTopic: "The response topic is empty or holds a wildcard."
        case .unsupportedProtocolVersion: "The protocol level is not one of 3 (MQIsdp), 4 and 5 (MQTT)."
        case .protocolName: "The protocol name is neither MQTT nor MQIsdp."
        case .reservedConnectFlag: "The lowest bit of the connect flags is set."
        case .willFlags: "Will QoS or will retain is set without a will, or the will QoS is 3."
        case .passwordWithoutUserName: "There is a password without a user name, which only MQTT 5.0 allows."
        case .emptySubscribe: "The SUBSCRIBE holds no topic filter."
        case .emptyUnsubscribe: "The UNSUBSCRIBE holds no topic filter."
        case .emptyAcknowledgement: "The SUBACK or UNSUBACK holds no reason code."
        case .reservedSubscriptionOptions: "A reserved bit of the subscription options is set."
        case .invalidMaximumQoS: "The QoS asked for by a subscription is 3."
        case .invalidRetainHandling: "The retain handling of a subscription is 3."
        case .noLocalOnSharedSubscription: "No Local is set on a shared subscription."
        case .invalidReasonCode: "The reason code may not stand in this packet."
        case .reservedConnackFlags: "A reserved bit of the connect acknowledge flags is set."
        case .topicAliasZero: "The topic alias is 0."
        case .subscriptionIdentifierZero: "The subscription identifier is 0."
        case .subscriptionIdentifierFromClient: "A client's PUBLISH holds a subscription identifier, which only the server adds."
        case .sessionExpiryIntervalFromServer: "A server's DISCONNECT holds a session expiry interval, which only clients send."
        case .receiveMaximumZero: "The receive maximum is 0."
        case .maximumPacketSizeZero: "The maximum packet size is 0."
        case .authenticationDataWithoutMethod: "There is authentication data without an authentication method."
        case .authenticationMethodMissing: "The AUTH names no authentication method."
        case .unexpectedPacket: "This side may not send this packet, or not now."
        case .tooManyUserProperties: "The packet has more than 256 user properties, or more than 64 KiB of them."
        case .tooManyFilters: "A SUBSCRIBE or UNSUBSCRIBE holds more than 10,000 topic filters."
        }
    }
}

/// Finds one packet at the front of received bytes.
public enum FrameScan: Hashable, Sendable {
    /// The fixed header is complete; the body has `bodyLength` bytes behind it, whether or not they have arrived.
    case packet(firstByte: UInt8, headerLength: Int, bodyLength: Int)
    /// Not even the fixed header is here.
    case incomplete
    /// No packet begins like this.
    case malformed(WireError)

    /// Reads the fixed header: at most five bytes.
    ///
    /// A remaining length with more bytes than it needs is taken as it is: MQTT 3.1.1 does not forbid it, and clients
    /// that reserve four bytes before they know the length send it. Whoever knows the version compares `headerLength`.
    /// [MQTT-1.5.5-1 v5]
    @inlinable @inline(__always)
    public static func scan(_ bytes: UnsafeRawBufferPointer) -> FrameScan {
        let count = bytes.count
        guard count >= 2 else { return .incomplete }
        let firstByte = bytes[0]
        let byte = bytes[1]
        if byte < 0x80 { return .packet(firstByte: firstByte, headerLength: 2, bodyLength: Int(byte)) }
        return scanLong(bytes, firstByte: firstByte, low: Int(byte & 0x7F))
    }

    @usableFromInline
    static func scanLong(_ bytes: UnsafeRawBufferPointer, firstByte: UInt8, low: Int) -> FrameScan {
        var length = low
        for index in 2..<5 {
            guard index < bytes.count else { return .incomplete }
            let byte = bytes[index]
            length |= Int(byte & 0x7F) &<< (7 &* (index &- 1))
            if byte < 0x80 { return .packet(firstByte: firstByte, headerLength: index &+ 1, bodyLength: length) }
        }
        return .malformed(.remainingLengthTooLong)
    }
}
