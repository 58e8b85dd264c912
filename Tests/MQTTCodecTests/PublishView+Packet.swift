import MQTTCodec

extension PublishView {
    /// The view as an owned packet, built from the view's own fields alone; the rest of the properties is read from its bytes.
    func packet(version: ProtocolVersion, from peer: Peer) -> ControlPacket {
        var packet = PublishPacket(
            topic: EncodedString(validating: topic) ?? "", packetIdentifier: qos == .atMostOnce ? nil : packetIdentifier, qos: qos,
            retain: retain, duplicate: duplicate, payload: Array(payload))
        packet.properties = forwardedProperties(from: peer)
        packet.properties.topicAlias = topicAlias == 0 ? nil : topicAlias
        packet.properties.messageExpiryInterval = messageExpiryInterval
        packet.properties.subscriptionIdentifiers = subscriptionIdentifiers
        return .publish(packet)
    }

    /// What `copyForwardedProperties(to:)` copies.
    var forwardedBytes: [UInt8] {
        [UInt8](unsafeUninitializedCapacity: forwardedPropertiesLength) { buffer, count in
            if let base = buffer.baseAddress { copyForwardedProperties(to: UnsafeMutableRawPointer(base)) }
            count = forwardedPropertiesLength
        }
    }

    /// The forwarded properties, read by way of a PUBLISH that carries nothing else.
    private func forwardedProperties(from peer: Peer) -> Properties {
        let bytes = forwardedBytes
        let length = Frame(first: 0, body: bytes).bytes.dropFirst()  // A length and the bytes: as in a fixed header.
        let carrier = Frame(first: 0x30, body: [0, 1, 0x61] + length)
        guard case .success(.publish(let packet)) = carrier.decoded(.v5, from: peer) else { return Properties() }
        return packet.properties
    }
}
