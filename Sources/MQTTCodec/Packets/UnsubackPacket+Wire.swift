extension UnsubackPacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> UnsubackPacket {
        var packet = UnsubackPacket(packetIdentifier: try reader.readPacketIdentifier())
        guard version == .v5 else { return packet }
        packet.properties = try Properties.decode(&reader, in: .unsuback, from: .server)
        if reader.isAtEnd { throw .emptyAcknowledgement }
        for byte in reader.readRest() {
            let code = ReasonCode(rawValue: byte)
            guard code.isAllowed(in: .unsuback, from: .server) else { throw .invalidReasonCode }
            packet.reasonCodes.append(code)
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        guard version == .v5 else { return }
        properties.encode(to: &writer)
        for code in reasonCodes { writer.write(code.rawValue) }
    }
}
