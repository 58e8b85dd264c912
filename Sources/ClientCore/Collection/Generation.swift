package import MQTTCodec

/// What has come for one subscription since SUBSCRIBE, gathered until the server has told everything that it retains.
///
/// Messages of the subscription before may still come, from a session's queue that has lost what came after them: they are known by a
/// Subscription Identifier that is not that of the end mark, nor one of the next behind it, and count for nothing. An earlier process that had the
/// session may have had greater ones. Without identifiers all count.
package struct Generation: Sendable {
    private struct Arrival {
        /// Nil where the topic was cleared.
        var content: EntryContent?
        var identifier: UInt32
    }

    /// The latest of each identifier, for what the end mark's is comes last.
    private var arrivals: [TopicName: [Arrival]] = [:]
    /// The keys, in the order in which they came.
    private var topics: [TopicName] = []
    /// What came without RETAIN for a subscription that has an identifier: it counts if that is not this one, which would have kept the flag.
    private var others: [(topic: TopicName, arrival: Arrival)] = []
    /// The latest write of this collection that came back, for each topic.
    private var echoes: [TopicName: UInt64] = [:]
    private(set) var bytes = 0

    package init() {}

    package var count: Int { arrivals.count + others.count }

    package func contains(_ topic: TopicName) -> Bool { arrivals[topic] != nil }

    /// Takes a message in. What comes late from an older subscription does not replace what a newer one has told.
    ///
    /// - Parameter isPassing: it came without RETAIN, and counts only if the subscription that it came for is not this one.
    package mutating func gather(_ topic: TopicName, _ content: EntryContent?, identifier: UInt32, isPassing: Bool = false) {
        bytes += content?.size ?? 0
        if isPassing {
            bytes += topic.bytes.count
            return others.append((topic, Arrival(content: content, identifier: identifier)))
        }
        let arrival = Arrival(content: content, identifier: identifier)
        guard let known = arrivals[topic] else {
            topics.append(topic)
            bytes += topic.bytes.count
            arrivals[topic] = [arrival]
            return
        }
        guard let place = known.firstIndex(where: { $0.identifier == identifier }) else {
            arrivals[topic]?.append(arrival)
            return
        }
        bytes -= known[place].content?.size ?? 0
        arrivals[topic]?[place] = arrival
    }

    /// The message was this collection's own write of that number.
    package mutating func noteEcho(_ number: UInt64, _ topic: TopicName) { echoes[topic] = max(number, echoes[topic] ?? 0) }

    /// What the server has, in order of arrival, if the end mark came with that identifier; 0 for none.
    package mutating func told(identifier: UInt32) -> [(topic: TopicName, content: EntryContent)] {
        for (topic, other) in others where other.identifier != identifier && Self.isOf(other.identifier, since: identifier) {
            gather(topic, other.content, identifier: other.identifier)
        }
        return topics.compactMap { topic in
            let counting = arrivals[topic]?.filter { Self.isOf($0.identifier, since: identifier) }
            guard let content = counting?.max(by: { $0.identifier < $1.identifier })?.content else { return nil }
            return (topic, content)
        }
    }

    /// How many subscriptions a process makes at most between one and the end mark for it. Identifiers of processes begin anywhere: of another's, hardly
    /// any is so near.
    private static let laterSubscriptionsMax: UInt32 = 1000

    /// Whether a subscription is that of the end mark, or was made by this process after it.
    private static func isOf(_ identifier: UInt32, since mark: UInt32) -> Bool {
        mark == 0 || (identifier >= mark && identifier - mark <= laterSubscriptionsMax)
    }

    /// The latest own write that came back, for each topic, by number.
    package var ownEchoes: [(topic: TopicName, number: UInt64)] {
        echoes.sorted { $0.value < $1.value }.map { ($0.key, $0.value) }
    }
}
