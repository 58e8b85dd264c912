internal import ClientCore

/// Messages that no subscription matches: a kept session sends them before the program has said what it wants. Those of QoS 1 and 2 wait for a
/// while; what nobody wants until then, and all of QoS 0, is counted.
struct UnmatchedMessages {
    private var messages: [ReceivedMessage] = []
    private var byteCount = 0
    /// Until when they wait, in milliseconds of the loop's clock; nil when none does.
    private var end: UInt64?
    /// What nobody gets, since it was last asked.
    private var dropped: DroppedMessages?

    var size: ClientSize.Part { ClientSize.Part(messages: messages.count, bytes: byteCount) }

    /// A connection begins.
    mutating func begin(until end: UInt64) { self.end = end }

    /// When `expire` has something to do.
    var deadline: UInt64? { messages.isEmpty ? nil : end }

    /// Returns whether it waits: not when the time is over, or too much waits already, and none of QoS 0.
    mutating func add(_ message: ReceivedMessage, now: UInt64) -> Bool {
        guard message.token != nil, let end, now < end, messages.count < Limits.unmatchedMessagesMax,
            byteCount + message.byteCount <= Limits.unmatchedBytesMax
        else {
            drop(message)
            return false
        }
        messages.append(message)
        byteCount += message.byteCount
        return true
    }

    /// Takes out those whose topic is wanted now.
    mutating func remove(where isWanted: (TopicName) -> Bool) -> [ReceivedMessage] {
        if messages.isEmpty { return [] }
        let taken = messages.filter { isWanted($0.topic) }
        messages.removeAll { isWanted($0.topic) }
        byteCount = messages.reduce(0) { $0 + $1.byteCount }
        return taken
    }

    /// Takes out all when the time is over; they are to be acknowledged, for nobody wants them.
    mutating func expire(now: UInt64) -> [AcknowledgementToken] {
        guard let deadline, deadline <= now else { return [] }
        defer { (messages, byteCount) = ([], 0) }
        for message in messages { drop(message) }
        return messages.compactMap(\.token)
    }

    private mutating func drop(_ message: ReceivedMessage) {
        let count = dropped?.count ?? 0
        dropped = DroppedMessages(.noSubscription, count: count + 1, topic: dropped?.topic ?? message.topic)
    }

    /// What nobody got since this was last asked; nil for nothing.
    mutating func takeDropped() -> DroppedMessages? { dropped.take() }
}
