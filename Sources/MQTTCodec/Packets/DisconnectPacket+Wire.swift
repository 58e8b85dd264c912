extension DisconnectPacket {
    /// Without a reason code it is a normal disconnection; without a property length there are no properties.
    static func decode(
        _ reader: inout PacketReader, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> DisconnectPacket {
        var packet = DisconnectPacket()
        guard version == .v5, !reader.isAtEnd else { return packet }
        packet.reasonCode = ReasonCode(rawValue: try reader.readByte())
        guard packet.reasonCode.isAllowed(in: .disconnect, from: peer) else { throw .invalidReasonCode }
        if !reader.isAtEnd { packet.properties = try Properties.decode(&reader, in: .disconnect, from: peer) }
        return packet
    }

    /// The shortest form.
    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        guard version == .v5 else { return }
        let hasProperties = !properties.isEmpty
        if hasProperties || reasonCode != .normalDisconnection { writer.write(reasonCode.rawValue) }
        if hasProperties { properties.encode(to: &writer) }
    }
}
