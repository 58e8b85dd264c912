extension PublishView {
    /// Decodes the body of a PUBLISH and checks all of it: flags, topic, packet identifier and every property.
    ///
    /// Throws what is wrong with the packet; never traps, whatever the bytes. Allocates nothing.
    public static func decode(
        firstByte: UInt8, body: UnsafeRawBufferPointer, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> PublishView {
        guard let qos = QoS(rawValue: (firstByte &>> 1) & 0x03) else { throw .invalidQoS }  // [MQTT-3.3.1-4 v5]
        let duplicate = firstByte & 0x08 != 0
        if duplicate && qos == .atMostOnce && version != .v31 { throw .duplicateAtMostOnce }  // [MQTT-3.3.1-2 v5]

        var reader = PacketReader(body)
        let topic = try reader.readLengthPrefixed()  // [MQTT-3.3.2-1 v5]
        let mayBeAliased = version == .v5 && topic.isEmpty
        if !TextScan.isShortAndPlain(topic), !mayBeAliased, let error = TopicValidation.validateName(topic) { throw error }
        let packetIdentifier = qos == .atMostOnce ? 0 : try reader.readPacketIdentifier()  // [MQTT-2.2.1-2 v5]

        var properties = PublishPropertyScan()
        var block = UnsafeRawBufferPointer(start: nil, count: 0)
        if version == .v5 {
            let length = try reader.readVariableByteInteger()
            block = try reader.readBytes(length)
            if length > 0 { try properties.scan(block, from: peer) }
            if topic.isEmpty && properties.topicAlias == 0 { throw .emptyTopic }
        }
        return PublishView(
            topic: topic, packetIdentifier: packetIdentifier, qos: qos, retain: firstByte & 0x01 != 0, duplicate: duplicate,
            payload: reader.readRest(), properties: block, topicAlias: properties.topicAlias,
            messageExpiryInterval: properties.messageExpiryInterval, payloadFormatIsUTF8: properties.payloadFormatIsUTF8,
            hasSubscriptionIdentifiers: properties.hasSubscriptionIdentifiers,
            forwardedPropertiesLength: block.count &- properties.keptBackLength)
    }
}
