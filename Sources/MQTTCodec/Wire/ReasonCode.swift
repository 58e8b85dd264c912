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
