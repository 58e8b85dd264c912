extension Properties {
    /// Reads a property length and the properties behind it, which must be allowed there and from that side.
    static func decode(
        _ reader: inout PacketReader, in place: PropertyPlace, from peer: Peer
    ) throws(WireError) -> Properties {
        let length = try reader.readVariableByteInteger()
        return try decode(block: reader.readBytes(length), in: place, from: peer)
    }

    /// Reads the property bytes behind the property length.
    static func decode(
        block: UnsafeRawBufferPointer, in place: PropertyPlace, from peer: Peer
    ) throws(WireError) -> Properties {
        var properties = Properties()
        var block = PacketReader(block)
        var seen: UInt64 = 0
        var userPropertyBytes = 0
        while !block.isAtEnd {
            guard let identifier = try PropertyIdentifier(rawValue: block.readByte()) else { throw .unknownProperty }
            if let objection = identifier.objection(in: place, from: peer) { throw objection }
            let bit: UInt64 = 1 << UInt64(identifier.rawValue)
            let mayRepeat = identifier == .userProperty || (identifier == .subscriptionIdentifier && place == .publish)
            if seen & bit != 0 && !mayRepeat { throw .duplicateProperty }
            seen |= bit
            let before = block.remaining
            try properties.read(identifier, from: &block)
            guard identifier == .userProperty, peer == .client, place != .publish else { continue }
            userPropertyBytes += before - block.remaining
            if properties.userProperties.count > Limits.userPropertiesMax || userPropertyBytes > Limits.userPropertyBytesMax {
                throw .tooManyUserProperties
            }
        }
        if properties.authenticationData != nil && properties.authenticationMethod == nil { throw .authenticationDataWithoutMethod }
        return properties
    }

    private mutating func read(_ identifier: PropertyIdentifier, from block: inout PacketReader) throws(WireError) {
        switch identifier {
        case .payloadFormatIndicator: payloadFormatIndicator = try Self.readBool(&block) ? 1 : 0
        case .messageExpiryInterval: messageExpiryInterval = try block.readUInt32()
        case .contentType: contentType = try block.readString()  // [MQTT-3.3.2-19 v5]
        case .responseTopic: responseTopic = try Self.readResponseTopic(&block)
        case .correlationData: correlationData = try block.readBinaryData()
        case .subscriptionIdentifier: subscriptionIdentifiers.append(try Self.readSubscriptionIdentifier(&block))
        case .sessionExpiryInterval: sessionExpiryInterval = try block.readUInt32()
        case .assignedClientIdentifier: assignedClientIdentifier = try block.readString()
        case .serverKeepAlive: serverKeepAlive = try block.readUInt16()
        case .authenticationMethod: authenticationMethod = try block.readString()
        case .authenticationData: authenticationData = try block.readBinaryData()
        case .requestProblemInformation: requestProblemInformation = try Self.readBool(&block)
        case .willDelayInterval: willDelayInterval = try block.readUInt32()
        case .requestResponseInformation: requestResponseInformation = try Self.readBool(&block)
        case .responseInformation: responseInformation = try block.readString()
        case .serverReference: serverReference = try block.readString()
        case .reasonString: reasonString = try block.readString()
        case .receiveMaximum: receiveMaximum = try Self.readNonZero(&block)
        case .topicAliasMaximum: topicAliasMaximum = try block.readUInt16()
        case .topicAlias: topicAlias = try Self.readTopicAlias(&block)
        case .maximumQoS: maximumQoS = try Self.readBool(&block) ? .atLeastOnce : .atMostOnce
        case .retainAvailable: retainAvailable = try Self.readBool(&block)
        case .userProperty: userProperties.append(try Self.readUserProperty(&block))
        case .maximumPacketSize: maximumPacketSize = try Self.readMaximumPacketSize(&block)
        case .wildcardSubscriptionAvailable: wildcardSubscriptionAvailable = try Self.readBool(&block)
        case .subscriptionIdentifierAvailable: subscriptionIdentifierAvailable = try Self.readBool(&block)
        case .sharedSubscriptionAvailable: sharedSubscriptionAvailable = try Self.readBool(&block)
        }
    }

    private static func readBool(_ block: inout PacketReader) throws(WireError) -> Bool {
        let byte = try block.readByte()
        guard byte <= 1 else { throw .invalidPropertyValue }
        return byte == 1
    }

    private static func readNonZero(_ block: inout PacketReader) throws(WireError) -> UInt16 {
        let value = try block.readUInt16()
        if value == 0 { throw .receiveMaximumZero }
        return value
    }

    private static func readMaximumPacketSize(_ block: inout PacketReader) throws(WireError) -> UInt32 {
        let value = try block.readUInt32()
        if value == 0 { throw .maximumPacketSizeZero }
        return value
    }

    private static func readTopicAlias(_ block: inout PacketReader) throws(WireError) -> UInt16 {
        let value = try block.readUInt16()
        if value == 0 { throw .topicAliasZero }  // [MQTT-3.3.2-8 v5]
        return value
    }

    private static func readSubscriptionIdentifier(_ block: inout PacketReader) throws(WireError) -> UInt32 {
        let value = try block.readVariableByteInteger()
        if value == 0 { throw .subscriptionIdentifierZero }
        return UInt32(truncatingIfNeeded: value)
    }

    private static func readResponseTopic(_ block: inout PacketReader) throws(WireError) -> EncodedString {
        let text = try block.readText()  // [MQTT-3.3.2-13 v5]
        if TopicValidation.validateName(text) != nil { throw .invalidResponseTopic }  // [MQTT-3.3.2-14 v5]
        return EncodedString(checked: Array(text))
    }

    private static func readUserProperty(_ block: inout PacketReader) throws(WireError) -> UserProperty {
        let name = try block.readString()  // [MQTT-1.5.7-1 v5]
        return UserProperty(name: name, value: try block.readString())
    }
}
