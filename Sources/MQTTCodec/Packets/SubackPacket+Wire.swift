extension SubackPacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> SubackPacket {
        var packet = SubackPacket(packetIdentifier: try reader.readPacketIdentifier(), reasonCodes: [])
        if version == .v5 { packet.properties = try Properties.decode(&reader, in: .suback, from: .server) }
        if reader.isAtEnd { throw .emptyAcknowledgement }
        for byte in reader.readRest() {
            let code = ReasonCode(rawValue: byte)
            let isAllowed = version == .v5 ? code.isAllowed(in: .suback, from: .server) : byte <= 2 || byte == 0x80
            guard isAllowed else { throw .invalidReasonCode }
            packet.reasonCodes.append(code)
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        if version == .v5 { properties.encode(to: &writer) }
        for code in reasonCodes {
            // Before MQTT 5.0 there is one failure.
            writer.write(code.isError && version != .v5 ? ReasonCode.unspecifiedError.rawValue : code.rawValue)
        }
    }
}
