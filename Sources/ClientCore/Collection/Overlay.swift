package import MQTTCodec

/// Local writes over the server's values: each is shown until it comes back, or the server refuses it.
///
/// ```
///   write ──► pending ──own echo, or that of a later write─────────► confirmed
///               │ ├────acknowledged, and a picture was whole since──► confirmed: what the server has now, the picture told
///               │ └────a later one is known to be taken────────────► superseded ──acknowledged──► confirmed
///               └──────refused───────────────► rolled back                        └──refused────► rolled back
/// ```
/// Writes are numbered from 1 in the order in which they are published, and the server takes those of one topic in that order.
package struct Overlay: Sendable {
    private struct LocalWrite {
        let number: UInt64
        /// Nil removes.
        let content: EntryContent?
        /// How many pictures of the server were whole when it was published.
        var picture: Int
        var isAcknowledged = false
    }

    /// Those that are shown or lie below such a one, the latest last.
    private var writes: [TopicName: [LocalWrite]] = [:]
    /// The topic of each that is not decided.
    private var topics: [UInt64: TopicName] = [:]

    package init() {}

    /// Whether no write is undecided.
    package var isEmpty: Bool { topics.isEmpty }

    /// Where a write that is not decided goes to.
    package func topic(of number: UInt64) -> TopicName? { topics[number] }

    /// What is to be shown at a topic; nil if no write lies over it.
    package func latest(_ topic: TopicName) -> EntryContent?? { writes[topic]?.last.map(\.content) }

    /// What the server has taken over last at a topic, and not sent back; nil if there is no such write.
    package func latestAcknowledged(_ topic: TopicName) -> EntryContent?? {
        writes[topic]?.last(where: \.isAcknowledged).map(\.content)
    }

    /// The topics that writes lie over, in no order.
    package var topicsWritten: [TopicName] { Array(writes.keys) }

    package mutating func write(_ number: UInt64, _ topic: TopicName, _ content: EntryContent?, picture: Int = 0) {
        writes[topic, default: []].append(LocalWrite(number: number, content: content, picture: picture))
        topics[number] = topic
    }

    /// A write leaves only now.
    package mutating func published(_ number: UInt64, picture: Int) { change(number) { $0.picture = picture } }

    private mutating func change(_ number: UInt64, _ body: (inout LocalWrite) -> Void) {
        guard let topic = topics[number], let place = writes[topic]?.firstIndex(where: { $0.number == number }) else { return }
        if var write = writes[topic]?[place] {
            body(&write)
            writes[topic]?[place] = write
        }
    }

    /// The first write to a topic that a message with that payload may be, where no Correlation Data tells.
    package func match(_ topic: TopicName, _ payload: Payload?) -> UInt64? {
        writes[topic]?.first { $0.content?.payload == payload }?.number
    }

    /// A write has come back. Returns those that are confirmed by it, in order.
    package mutating func echoed(_ number: UInt64, _ topic: TopicName) -> [UInt64] {
        let isKnown = topics[number] != nil
        return settle(topic, through: number) { $0.isAcknowledged || (isKnown && $0.number == number) }
    }

    /// The server has taken a write over; so many pictures of it were whole by now. Returns what is confirmed by that: a write of which a later one
    /// has come back already, and one that may have been in the server before the last picture was begun. It will not come back if another's came
    /// after it, and has not stayed if it removed.
    package mutating func acknowledged(_ number: UInt64, picture: Int) -> [UInt64] {
        guard let topic = topics[number] else { return [] }
        guard let write = writes[topic]?.first(where: { $0.number == number }) else {
            topics[number] = nil
            return [number]
        }
        change(number) { $0.isAcknowledged = true }
        return write.picture < picture ? echoed(number, topic) : []
    }

    /// A write will not be: what lay below it shows again.
    package mutating func refused(_ number: UInt64) {
        guard let topic = topics.removeValue(forKey: number) else { return }
        writes[topic]?.removeAll { $0.number == number }
        if writes[topic]?.isEmpty == true { writes[topic] = nil }
    }

    /// The topics with a write that the server has taken over and that has not come back, each with the latest such.
    package var acknowledgedWrites: [(topic: TopicName, number: UInt64)] {
        writes.compactMap { topic, writes in writes.last(where: \.isAcknowledged).map { (topic, $0.number) } }
            .sorted { $0.number < $1.number }
    }

    /// Takes the writes to a topic up to one of them away. Returns those of which `isConfirmed` is true; the others wait for their answer.
    private mutating func settle(_ topic: TopicName, through number: UInt64, _ isConfirmed: (LocalWrite) -> Bool) -> [UInt64] {
        guard let all = writes[topic] else { return [] }
        let over = all.prefix { $0.number <= number }
        let left = Array(all.dropFirst(over.count))
        writes[topic] = left.isEmpty ? nil : left
        let confirmed = over.filter(isConfirmed).map(\.number)
        for number in confirmed { topics[number] = nil }
        return confirmed
    }
}
