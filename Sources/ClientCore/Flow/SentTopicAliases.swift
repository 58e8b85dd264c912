import MQTTCodec

/// Topic Aliases that this client set on the connection: the first topics get one each, as many as the server allows.
struct SentTopicAliases: Sendable {
    /// What stands for a topic on the wire.
    enum Form {
        /// The topic alone.
        case plain
        /// The topic and the alias that stands for it from now on.
        case setting(UInt16)
        /// The alias alone.
        case alias(UInt16)
    }

    private var aliases: [TopicName: UInt16] = [:]
    private var maximum = 0
    /// Most often a topic comes again at once.
    private var last: (topic: TopicName, alias: UInt16)?

    /// The server's Topic Alias Maximum. [MQTT-3.3.2-9 v5]
    mutating func allow(_ maximum: UInt16) { self.maximum = Int(maximum) }

    /// Whether the server allows any.
    var areAllowed: Bool { maximum > 0 }

    /// How the topic is to be written. `maySet` is false where there is no room for both.
    mutating func form(of topic: TopicName, maySet: Bool) -> Form {
        guard areAllowed, topic.bytes.count > Self.aliasByteCount else { return .plain }
        if let last, last.topic == topic { return .alias(last.alias) }
        if let alias = aliases[topic] {
            last = (topic, alias)
            return .alias(alias)
        }
        guard maySet, aliases.count < maximum else { return .plain }
        let alias = UInt16(aliases.count + 1)
        aliases[topic] = alias
        last = (topic, alias)
        return .setting(alias)
    }

    /// What the property takes; a shorter topic is not worth one.
    static let aliasByteCount = 3
}
