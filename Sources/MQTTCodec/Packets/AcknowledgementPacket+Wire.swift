extension AcknowledgementPacket {
    static func decode(
        _ type: PacketType, _ reader: inout PacketReader, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> AcknowledgementPacket {
        var packet = AcknowledgementPacket(type: type, packetIdentifier: try reader.readPacketIdentifier())
        guard version == .v5, !reader.isAtEnd else { return packet }
        packet.reasonCode = ReasonCode(rawValue: try reader.readByte())
        guard packet.reasonCode.isAllowed(in: type, from: peer) else { throw .invalidReasonCode }
        if !reader.isAtEnd { packet.properties = try Properties.decode(&reader, in: .acknowledgement, from: peer) }
        return packet
    }

    /// The shortest form: the standard lets a lone success and absent properties be left out.
    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        guard version == .v5 else { return }
        let hasProperties = !properties.isEmpty
        if hasProperties || reasonCode != .success { writer.write(reasonCode.rawValue) }
        if hasProperties { properties.encode(to: &writer) }
    }
}
