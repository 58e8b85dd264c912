extension ConnackPacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> ConnackPacket {
        var packet = ConnackPacket()
        let flags = try reader.readByte()
        if flags & 0xFE != 0 && version != .v31 { throw .reservedConnackFlags }  // [MQTT-3.2.2-1 v5]
        packet.sessionPresent = flags & 0x01 != 0 && version != .v31
        let code = try reader.readByte()
        if version == .v5 {
            packet.reasonCode = ReasonCode(rawValue: code)
            guard packet.reasonCode.isAllowed(in: .connack, from: .server) else { throw .invalidReasonCode }
            packet.properties = try Properties.decode(&reader, in: .connack, from: .server)
        } else {
            guard let returnCode = ConnectReturnCode(rawValue: code) else { throw .invalidReasonCode }
            packet.returnCode = returnCode
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(sessionPresent && version != .v31)
        if version == .v5 {
            writer.write(reasonCode.rawValue)
            properties.encode(to: &writer)
        } else {
            writer.write(returnCode.rawValue)
        }
    }
}
