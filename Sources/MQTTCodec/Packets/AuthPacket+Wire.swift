extension AuthPacket {
    /// Without anything it is success; with a reason code it needs a property length and, to go on, a method.
    static func decode(_ reader: inout PacketReader, from peer: Peer) throws(WireError) -> AuthPacket {
        var packet = AuthPacket()
        if reader.isAtEnd { return packet }
        packet.reasonCode = ReasonCode(rawValue: try reader.readByte())
        guard packet.reasonCode.isAllowed(in: .auth, from: peer) else { throw .invalidReasonCode }
        packet.properties = try Properties.decode(&reader, in: .auth, from: peer)
        if packet.reasonCode != .success && packet.properties.authenticationMethod == nil { throw .authenticationMethodMissing }
        return packet
    }

    /// The shortest form.
    func encode(to writer: inout PacketWriter) {
        if reasonCode == .success && properties.isEmpty { return }
        writer.write(reasonCode.rawValue)
        properties.encode(to: &writer)
    }
}
