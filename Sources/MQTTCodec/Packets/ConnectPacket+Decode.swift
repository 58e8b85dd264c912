extension ConnectPacket {
    /// Decodes the body of a CONNECT, which names its version itself: "MQIsdp" 3, "MQTT" 4 or 5.
    ///
    /// Another level of a known name is `unsupportedProtocolVersion`, another name `protocolName`. The client identifier may be empty
    /// or long: that is the broker's affair.
    public static func decode(firstByte: UInt8, body: UnsafeRawBufferPointer) throws(WireError) -> ConnectPacket {
        guard firstByte == PacketType.connect.rawValue << 4 else { throw .reservedFlags }  // [MQTT-2.1.3-1 v5]
        var reader = PacketReader(body)
        let (version, isBridge) = try readVersion(&reader)
        let flags = try ConnectFlags(validating: reader.readByte(), version: version)
        var packet = ConnectPacket(version: version, cleanStart: flags.cleanStart, isBridge: isBridge)
        packet.keepAliveSeconds = try reader.readUInt16()
        if version == .v5 { packet.properties = try Properties.decode(&reader, in: .connect, from: .client) }
        try packet.readPayload(&reader, flags)
        try reader.finish()
        return packet
    }

    private static func readVersion(_ reader: inout PacketReader) throws(WireError) -> (ProtocolVersion, isBridge: Bool) {
        let name = try reader.readLengthPrefixed()
        let isOld = name.elementsEqual(Self.name(of: .v31))
        guard isOld || name.elementsEqual(Self.name(of: .v311)) else { throw .protocolName }  // [MQTT-3.1.2-1 v5]
        let level = try reader.readByte()
        guard let version = ProtocolVersion(rawValue: level & 0x7F), (version == .v31) == isOld else {
            throw .unsupportedProtocolVersion  // [MQTT-3.1.2-2 v5]
        }
        return (version, level & 0x80 != 0)
    }

    /// The protocol level that a CONNECT announces, whether or not the rest of it is right; nil if it does not get that far.
    public static func announcedLevel(_ body: UnsafeRawBufferPointer) -> UInt8? {
        var reader = PacketReader(body)
        guard let name = try? reader.readLengthPrefixed(), name.elementsEqual(Self.name(of: .v311)) else { return nil }
        return try? reader.readByte()
    }

    /// The payload's fields in the standard's order. [MQTT-3.1.3-1 v5]
    private mutating func readPayload(_ reader: inout PacketReader, _ flags: ConnectFlags) throws(WireError) {
        clientIdentifier = try reader.readString()  // [MQTT-3.1.3-3 v5] [MQTT-3.1.3-4 v5]
        if flags.hasWill { will = try readWill(&reader, flags) }
        // MQTT 3.1: the remaining length takes precedence over these flags, for clients older still.
        if flags.hasUserName && !isMissing(reader) { userName = try reader.readString() }  // [MQTT-3.1.3-12 v5]
        if flags.hasPassword && !isMissing(reader) { password = try reader.readBinaryData() }
    }

    private func isMissing(_ reader: PacketReader) -> Bool { version == .v31 && reader.isAtEnd }

    private func readWill(_ reader: inout PacketReader, _ flags: ConnectFlags) throws(WireError) -> Will {
        let properties = version == .v5 ? try Properties.decode(&reader, in: .will, from: .client) : Properties()
        let topic = try reader.readTopicName()  // [MQTT-3.1.3-11 v5]
        let payload = try reader.readBinaryData()
        return Will(topic: topic, payload: payload, qos: flags.willQoS, retain: flags.willRetain, properties: properties)
    }

    static func name(of version: ProtocolVersion) -> [UInt8] {
        version == .v31 ? Array("MQIsdp".utf8) : Array("MQTT".utf8)
    }
}
