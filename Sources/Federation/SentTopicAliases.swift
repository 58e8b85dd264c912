/// The Topic Aliases that a bridge sets on its connection: the first topics get one each, as many as the other broker allows.
/// [MQTT-3.3.2-9 v5]
struct SentTopicAliases {
    private var aliases: [[UInt8]: UInt16] = [:]
    private let maximum: Int
    /// Most often a topic comes again at once.
    private var last: (topic: [UInt8], alias: UInt16) = ([], 0)

    init(maximum: UInt16) { self.maximum = min(Int(maximum), Limits.sentAliasesMax) }

    /// The alias of a topic, and whether it is set; nil if it has none and gets none. A shorter topic than its property is not worth one.
    mutating func alias(for topic: UnsafeRawBufferPointer) -> (number: UInt16, isSet: Bool)? {
        guard maximum > 0, topic.count > 3 else { return nil }
        if last.topic.elementsEqual(topic) { return (last.alias, true) }
        let key = Array(topic)
        if let alias = aliases[key] {
            last = (key, alias)
            return (alias, true)
        }
        return aliases.count < maximum ? (UInt16(aliases.count + 1), false) : nil
    }

    /// The alias is set: the packet is written.
    mutating func set(_ alias: UInt16, for topic: UnsafeRawBufferPointer) {
        last = (Array(topic), alias)
        aliases[last.topic] = alias
    }
}
