extension ControlPacket {
    /// Appends the packet's bytes to `bytes`.
    ///
    /// A CONNECT carries its own version. What an older version cannot say is left out. The packet is written as it is given, right or
    /// wrong; only what no packet can hold traps: data longer than 65,535 bytes and a body longer than 268,435,455.
    public func encode(version: ProtocolVersion, into bytes: inout [UInt8]) {
        var writer = PacketWriter(appendingTo: bytes)
        bytes = []
        writer.write(firstByte)
        let start = writer.beginLength()
        encodeBody(to: &writer, version: version)
        writer.endLength(start)
        bytes = writer.bytes
    }

    /// The packet's bytes.
    public func encoded(version: ProtocolVersion) -> [UInt8] {
        var bytes: [UInt8] = []
        encode(version: version, into: &bytes)
        return bytes
    }

    private var firstByte: UInt8 {
        let flags =
            switch self {
            case .publish(let packet): packet.flags
            default: type.fixedFlags  // [MQTT-2.1.3-1 v5]
            }
        return type.rawValue << 4 | flags
    }

    private func encodeBody(to writer: inout PacketWriter, version: ProtocolVersion) {
        switch self {
        case .connect(let packet): packet.encode(to: &writer)
        case .connack(let packet): packet.encode(to: &writer, version: version)
        case .publish(let packet): packet.encode(to: &writer, version: version)
        case .acknowledgement(let packet): packet.encode(to: &writer, version: version)
        case .subscribe(let packet): packet.encode(to: &writer, version: version)
        case .suback(let packet): packet.encode(to: &writer, version: version)
        case .unsubscribe(let packet): packet.encode(to: &writer, version: version)
        case .unsuback(let packet): packet.encode(to: &writer, version: version)
        case .pingreq, .pingresp: break
        case .disconnect(let packet): packet.encode(to: &writer, version: version)
        case .auth(let packet): packet.encode(to: &writer)
        }
    }
}
