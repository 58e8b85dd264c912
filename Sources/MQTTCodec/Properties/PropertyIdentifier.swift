/// The identifiers of the 27 properties, and the one table of where each may stand.
enum PropertyIdentifier: UInt8, CaseIterable {
    case payloadFormatIndicator = 0x01
    case messageExpiryInterval = 0x02
    case contentType = 0x03
    case responseTopic = 0x08
    case correlationData = 0x09
    case subscriptionIdentifier = 0x0B
    case sessionExpiryInterval = 0x11
    case assignedClientIdentifier = 0x12
    case serverKeepAlive = 0x13
    case authenticationMethod = 0x15
    case authenticationData = 0x16
    case requestProblemInformation = 0x17
    case willDelayInterval = 0x18
    case requestResponseInformation = 0x19
    case responseInformation = 0x1A
    case serverReference = 0x1C
    case reasonString = 0x1F
    case receiveMaximum = 0x21
    case topicAliasMaximum = 0x22
    case topicAlias = 0x23
    case maximumQoS = 0x24
    case retainAvailable = 0x25
    case userProperty = 0x26
    case maximumPacketSize = 0x27
    case wildcardSubscriptionAvailable = 0x28
    case subscriptionIdentifierAvailable = 0x29
    case sharedSubscriptionAvailable = 0x2A

    /// The error if that side may not put this property there (section 2.2.2.2 of the standard); nil if it may.
    func objection(in place: PropertyPlace, from peer: Peer) -> WireError? {
        guard places.contains(place) else { return .propertyNotAllowed }
        switch (self, place, peer) {
        case (.subscriptionIdentifier, .publish, .client): return .subscriptionIdentifierFromClient  // [MQTT-3.3.4-6 v5]
        case (.sessionExpiryInterval, .disconnect, .server): return .sessionExpiryIntervalFromServer  // [MQTT-3.14.2-2 v5]
        case (.serverReference, .disconnect, .client): return .propertyNotAllowed
        default: return nil
        }
    }

    private var places: PropertyPlace {
        switch self {
        case .payloadFormatIndicator, .messageExpiryInterval, .contentType, .responseTopic, .correlationData: [.publish, .will]
        case .subscriptionIdentifier: [.publish, .subscribe]
        case .sessionExpiryInterval: [.connect, .connack, .disconnect]
        case .authenticationMethod, .authenticationData: [.connect, .connack, .auth]
        case .requestProblemInformation, .requestResponseInformation: .connect
        case .willDelayInterval: .will
        case .serverReference: [.connack, .disconnect]
        case .reasonString: [.connack, .acknowledgement, .suback, .unsuback, .disconnect, .auth]
        case .receiveMaximum, .topicAliasMaximum, .maximumPacketSize: [.connect, .connack]
        case .topicAlias: .publish
        case .userProperty: .all
        case .assignedClientIdentifier, .serverKeepAlive, .responseInformation, .maximumQoS, .retainAvailable,
            .wildcardSubscriptionAvailable, .subscriptionIdentifierAvailable, .sharedSubscriptionAvailable:
            .connack
        }
    }
}
