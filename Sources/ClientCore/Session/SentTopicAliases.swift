import MQTTCodec

/// Topic Aliases that this client set on the connection: the first topics get one each, as many as the server allows.
struct SentTopicAliases: Sendable {
    private var aliases: [EncodedString: UInt16] = [:]
    private var maximum = 0

    /// The server's Topic Alias Maximum. [MQTT-3.3.2-9 v5]
    mutating func allow(_ maximum: UInt16) { self.maximum = Int(maximum) }

    /// The packet with an alias instead of its topic, or beside it the first time; unchanged when none is left or it has one already.
    mutating func shorten(_ packet: PublishPacket) -> PublishPacket {
        guard maximum > 0, packet.properties.topicAlias == nil, packet.topic.count > Self.aliasByteCount else { return packet }
        var shortened = packet
        if let alias = aliases[packet.topic] {
            shortened.properties.topicAlias = alias
            shortened.topic = EncodedString()
        } else if aliases.count < maximum {
            let alias = UInt16(aliases.count + 1)
            aliases[packet.topic] = alias
            shortened.properties.topicAlias = alias
        }
        return shortened
    }

    /// What the property takes; a shorter topic is not worth one.
    private static let aliasByteCount = 3
}
