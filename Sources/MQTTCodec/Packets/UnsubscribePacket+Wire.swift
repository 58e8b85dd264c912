extension UnsubscribePacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> UnsubscribePacket {
        var packet = UnsubscribePacket(packetIdentifier: try reader.readPacketIdentifier(), filters: [])
        if version == .v5 { packet.properties = try Properties.decode(&reader, in: .unsubscribe, from: .client) }
        if reader.isAtEnd { throw .emptyUnsubscribe }  // [MQTT-3.10.3-2 v5]
        while !reader.isAtEnd {
            if packet.filters.count == Limits.filtersPerPacketMax { throw .tooManyFilters }
            packet.filters.append(try reader.readTopicFilter())
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        if version == .v5 { properties.encode(to: &writer) }
        for filter in filters { writer.write(lengthPrefixed: filter.bytes) }
    }
}
