/// The properties of an MQTT 5.0 packet or of a will (section 2.2.2 of the standard), named as the standard names them.
///
/// Nil means absent. Which of them may stand where is `PropertyIdentifier`'s table; this type holds any. Not for the way of a
/// message: `PublishView` reads a PUBLISH without allocating.
public struct Properties: Hashable, Sendable {
    public var payloadFormatIndicator: UInt8?
    /// In seconds.
    public var messageExpiryInterval: UInt32?
    public var contentType: EncodedString?
    /// A topic name.
    public var responseTopic: EncodedString?
    public var correlationData: [UInt8]?
    /// Each in 1...268,435,455; more than one only on a server's PUBLISH.
    public var subscriptionIdentifiers: [UInt32] = []
    /// In seconds; 0xFFFFFFFF is never.
    public var sessionExpiryInterval: UInt32?
    public var assignedClientIdentifier: EncodedString?
    /// In seconds.
    public var serverKeepAlive: UInt16?
    public var authenticationMethod: EncodedString?
    public var authenticationData: [UInt8]?
    public var requestProblemInformation: Bool?
    /// In seconds.
    public var willDelayInterval: UInt32?
    public var requestResponseInformation: Bool?
    public var responseInformation: EncodedString?
    public var serverReference: EncodedString?
    public var reasonString: EncodedString?
    public var receiveMaximum: UInt16?
    public var topicAliasMaximum: UInt16?
    public var topicAlias: UInt16?
    /// At most QoS 1; absent means 2.
    public var maximumQoS: QoS?
    public var retainAvailable: Bool?
    /// In the order in which they stand in the packet.
    public var userProperties: [UserProperty] = []
    /// In bytes.
    public var maximumPacketSize: UInt32?
    public var wildcardSubscriptionAvailable: Bool?
    public var subscriptionIdentifierAvailable: Bool?
    public var sharedSubscriptionAvailable: Bool?

    /// No property.
    public init() {}

    /// Whether no property is set.
    public var isEmpty: Bool { self == Properties() }
}
