extension AcknowledgementView {
    /// Decodes the body of a PUBACK, PUBREC, PUBREL or PUBCOMP.
    ///
    /// Throws what is wrong with the packet; never traps, whatever the bytes. Allocates only to check properties, which are rare here.
    public static func decode(
        type: PacketType, firstByte: UInt8, body: UnsafeRawBufferPointer, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> AcknowledgementView {
        guard type.acceptsFlags(of: firstByte, version: version) else { throw .reservedFlags }  // [MQTT-3.6.1-1 v5]
        var reader = PacketReader(body)
        let packetIdentifier = try reader.readPacketIdentifier()
        // Without a reason code it is success; without a property length there are no properties.
        if reader.isAtEnd { return AcknowledgementView(packetIdentifier: packetIdentifier, reasonCode: .success) }
        guard version == .v5 else { throw .trailingBytes }
        let reasonCode = ReasonCode(rawValue: try reader.readByte())
        guard reasonCode.isAllowed(in: type, from: peer) else { throw .invalidReasonCode }
        if !reader.isAtEnd {
            let length = try reader.readVariableByteInteger()
            let block = try reader.readBytes(length)
            if length > 0 { _ = try Properties.decode(block: block, in: .acknowledgement, from: peer) }
            try reader.finish()
        }
        return AcknowledgementView(packetIdentifier: packetIdentifier, reasonCode: reasonCode)
    }
}
