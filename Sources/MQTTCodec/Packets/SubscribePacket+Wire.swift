extension SubscribePacket {
    static func decode(_ reader: inout PacketReader, version: ProtocolVersion) throws(WireError) -> SubscribePacket {
        var packet = SubscribePacket(packetIdentifier: try reader.readPacketIdentifier(), subscriptions: [])
        if version == .v5 { packet.properties = try Properties.decode(&reader, in: .subscribe, from: .client) }
        if reader.isAtEnd { throw .emptySubscribe }  // [MQTT-3.8.3-2 v5]
        while !reader.isAtEnd {
            if packet.subscriptions.count == Limits.filtersPerPacketMax { throw .tooManyFilters }
            let filter = try reader.readTopicFilter()
            let options = try SubscriptionOptions(validating: reader.readByte(), version: version)
            if options.noLocal && filter.isShared { throw .noLocalOnSharedSubscription }  // [MQTT-3.8.3-4 v5]
            packet.subscriptions.append(Subscription(filter: filter, options: options))
        }
        return packet
    }

    func encode(to writer: inout PacketWriter, version: ProtocolVersion) {
        writer.write(packetIdentifier)
        if version == .v5 { properties.encode(to: &writer) }
        for subscription in subscriptions {
            writer.write(lengthPrefixed: subscription.filter.bytes)
            writer.write(subscription.options.byte(version: version))
        }
    }
}
