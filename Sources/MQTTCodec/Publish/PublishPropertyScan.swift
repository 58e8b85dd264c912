/// One walk over the property bytes of a PUBLISH: checks each and picks up those that the way of a message needs.
struct PublishPropertyScan {
    /// 0 if absent.
    private(set) var topicAlias: UInt16 = 0
    private(set) var messageExpiryInterval: UInt32?
    private(set) var payloadFormatIsUTF8 = false
    private(set) var hasSubscriptionIdentifiers = false
    /// How many bytes belong to the connection and not to the message: Topic Alias, Message Expiry Interval, Subscription Identifiers.
    private(set) var keptBackLength = 0
    /// One bit for each identifier met; those of PUBLISH are below 64.
    private var seen: UInt64 = 0

    /// Walks `block`; throws what is wrong with it.
    mutating func scan(_ block: UnsafeRawBufferPointer, from peer: Peer) throws(WireError) {
        var reader = PacketReader(block)
        while !reader.isAtEnd {
            let start = reader.position
            guard let identifier = PropertyIdentifier(rawValue: try reader.readByte()) else { throw .unknownProperty }
            switch identifier {
            case .userProperty:  // [MQTT-1.5.7-1 v5]
                _ = try reader.readText()
                _ = try reader.readText()
            case .subscriptionIdentifier:
                if peer == .client { throw .subscriptionIdentifierFromClient }  // [MQTT-3.3.4-6 v5]
                if try reader.readVariableByteInteger() == 0 { throw .subscriptionIdentifierZero }
                hasSubscriptionIdentifiers = true
                keptBackLength &+= reader.position &- start
            default:
                try scanOnce(identifier, &reader, from: peer)
            }
        }
    }

    /// The properties that may stand once.
    @inline(__always)
    private mutating func scanOnce(
        _ identifier: PropertyIdentifier, _ reader: inout PacketReader, from peer: Peer
    ) throws(WireError) {
        let bit: UInt64 = 1 &<< UInt64(identifier.rawValue)
        if seen & bit != 0 { throw .duplicateProperty }
        seen |= bit
        switch identifier {
        case .payloadFormatIndicator:
            let format = try reader.readByte()
            guard format <= 1 else { throw .invalidPropertyValue }
            payloadFormatIsUTF8 = format == 1
        case .messageExpiryInterval:
            messageExpiryInterval = try reader.readUInt32()
            keptBackLength &+= 5
        case .topicAlias:
            topicAlias = try reader.readUInt16()
            if topicAlias == 0 { throw .topicAliasZero }  // [MQTT-3.3.2-8 v5]
            keptBackLength &+= 3
        case .contentType:  // [MQTT-3.3.2-19 v5]
            _ = try reader.readText()
        case .responseTopic:  // [MQTT-3.3.2-13 v5]
            let topic = try reader.readText()
            if TopicValidation.validateName(topic) != nil { throw .invalidResponseTopic }  // [MQTT-3.3.2-14 v5]
        case .correlationData:
            _ = try reader.readLengthPrefixed()
        default:
            throw identifier.objection(in: .publish, from: peer) ?? .propertyNotAllowed
        }
    }
}
