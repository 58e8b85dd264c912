extension PublishPacket {
    /// Copies what a view shows.
    static func decode(
        firstByte: UInt8, body: UnsafeRawBufferPointer, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> PublishPacket {
        let view = try PublishView.decode(firstByte: firstByte, body: body, version: version, from: peer)
        return PublishPacket(
            topic: EncodedString(checked: Array(view.topic)),
            packetIdentifier: view.qos == .atMostOnce ? nil : view.packetIdentifier,
            qos: view.qos, retain: view.retain, duplicate: view.duplicate,
            properties: try Properties.decode(block: view.properties, in: .publish, from: peer), payload: Array(view.payload))
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(topic)
        if qos != .atMostOnce { writer.write(packetIdentifier ?? 0) }  // [MQTT-2.2.1-2 v5]
        if version == .v5 { properties.encode(to: &writer) }
        writer.write(raw: payload)
    }

    /// The lower four bits of the first byte.
    var flags: UInt8 { (duplicate ? 0x08 : 0) | qos.rawValue << 1 | (retain ? 0x01 : 0) }
}
