extension ControlPacket {
    /// Decodes one packet: `firstByte` of its fixed header and the whole body behind it.
    ///
    /// A CONNECT says its version itself; `version` is that of the connection for all others. Throws what is wrong with the packet;
    /// never traps, whatever the bytes.
    public static func decode(
        firstByte: UInt8, body: UnsafeRawBufferPointer, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> ControlPacket {
        guard let type = PacketType(rawValue: firstByte >> 4), type != .auth || version == .v5 else { throw .reservedPacketType }
        guard type.isSent(by: peer, version: version) else { throw .unexpectedPacket }
        if type == .connect { return .connect(try ConnectPacket.decode(firstByte: firstByte, body: body)) }
        if type == .publish {
            return .publish(try PublishPacket.decode(firstByte: firstByte, body: body, version: version, from: peer))
        }
        guard type.acceptsFlags(of: firstByte, version: version) else { throw .reservedFlags }  // [MQTT-2.1.3-1 v5]
        var reader = PacketReader(body)
        let packet = try decode(type, &reader, version: version, from: peer)
        try reader.finish()
        return packet
    }

    private static func decode(
        _ type: PacketType, _ reader: inout PacketReader, version: ProtocolVersion, from peer: Peer
    ) throws(WireError) -> ControlPacket {
        switch type {
        case .connack: .connack(try ConnackPacket.decode(&reader, version: version))
        case .puback, .pubrec, .pubrel, .pubcomp:
            .acknowledgement(try AcknowledgementPacket.decode(type, &reader, version: version, from: peer))
        case .subscribe: .subscribe(try SubscribePacket.decode(&reader, version: version))
        case .suback: .suback(try SubackPacket.decode(&reader, version: version))
        case .unsubscribe: .unsubscribe(try UnsubscribePacket.decode(&reader, version: version))
        case .unsuback: .unsuback(try UnsubackPacket.decode(&reader, version: version))
        case .pingreq: .pingreq
        case .pingresp: .pingresp
        case .disconnect: .disconnect(try DisconnectPacket.decode(&reader, version: version, from: peer))
        case .auth: .auth(try AuthPacket.decode(&reader, from: peer))
        case .connect, .publish: throw .unexpectedPacket  // Decoded by the caller, who has their first byte.
        }
    }
}
