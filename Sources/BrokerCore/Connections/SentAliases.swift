import BrokerModel

/// The Topic Aliases that the broker uses towards one client.
///
/// An alias costs three bytes each time and spares the topic, so only topics longer than that get one, and only when they come a second
/// time; the aliases go to the topics that came first, and the one unused for longest gives way. [MQTT-3.3.2-11 v5]
struct SentAliases {
    /// How a message names its topic.
    enum Naming: Equatable {
        /// By the topic alone.
        case topic
        /// By the topic, which sets the alias.
        case topicAndAlias(UInt16)
        /// By the alias alone.
        case alias(UInt16)
    }

    private struct Entry {
        var topic: [UInt8]
        var lastUse: UInt64
    }

    static let shortestTopicWorthAnAlias = 4

    /// The client's Topic Alias Maximum, bounded by the broker's own limit.
    let maximum: UInt16
    private var entries: [Entry] = []
    private var candidate: [UInt8] = []
    private var uses: UInt64 = 0

    init(maximum: UInt16) { self.maximum = maximum }

    /// How to name `topic` in the next PUBLISH. With `.topicAndAlias` the alias counts as set: the packet must be sent.
    mutating func name(_ topic: UnsafeRawBufferPointer) -> Naming {
        guard maximum > 0, topic.count >= Self.shortestTopicWorthAnAlias else { return .topic }
        uses += 1
        for position in entries.indices where Self.equal(entries[position].topic, topic) {
            entries[position].lastUse = uses
            return .alias(UInt16(position + 1))
        }
        guard Self.equal(candidate, topic) || entries.count < Int(maximum) else {
            candidate = Array(topic)
            return .topic
        }
        if entries.count < Int(maximum) {
            entries.append(Entry(topic: Array(topic), lastUse: uses))
            return .topicAndAlias(UInt16(entries.count))
        }
        guard let oldest = entries.indices.min(by: { entries[$0].lastUse < entries[$1].lastUse }) else { return .topic }
        entries[oldest] = Entry(topic: Array(topic), lastUse: uses)
        return .topicAndAlias(UInt16(oldest + 1))
    }

    private static func equal(_ left: [UInt8], _ right: UnsafeRawBufferPointer) -> Bool {
        left.withUnsafeBytes { MemoryComparison.equal($0, right) }
    }
}
