/// The changes of retained messages that this node has made, or heard of from the node that made them, and that have not come out of the
/// cluster's stream yet. Decides what becomes of what does: so that, whatever comes in which order, all nodes end with what the stream has
/// last.
///
/// A change counts at once where it is made and where it is heard of, for whoever subscribes next. What comes out of the stream before it is
/// most likely older, and passed over for a while. When it comes out itself, its value is there already. It need not come out: the stream
/// keeps one change of a topic, and its node skips those that a newer one has overtaken. So what was passed over last is kept, and taken
/// when the wait is over; and what comes then is taken at once. Should the change come out later all the same, it is taken like any other.
///
///     newest[topic]: the change that was made or heard of last, until something newer comes out of the stream
struct UnsettledChanges<Value> {
    private struct Origin: Hashable {
        let node: UInt64
        let shard: UInt8

        init(_ change: RetainedChange) { (node, shard) = (change.node, UInt8(truncatingIfNeeded: change.number)) }
    }

    private struct Awaited {
        let change: RetainedChange
        /// What came out of the stream since.
        var passedOver: Value?
        var isOverdue = false
    }

    private typealias Entry = (topic: [UInt8], change: RetainedChange, at: UInt64)

    private var newest: [[UInt8]: Awaited] = [:]
    /// The changes that are not overdue, oldest first, and some that have come.
    private var waiting: [Entry] = []
    private var waitingHead = 0
    /// Other nodes' changes in the order in which they were heard of.
    private var heard: [Entry] = []
    private var heardHead = 0
    /// The highest number that has come out of the stream of each shard of other nodes.
    private var settledNumbers: [Origin: UInt64] = [:]

    init() {}

    /// Whether a change may still count before it comes out of the stream: one that is heard of late may be there already.
    func isNews(_ change: RetainedChange) -> Bool { change.node == 0 || change.number > settledNumbers[Origin(change)] ?? 0 }

    /// A change is made, or heard of, and counts from now on.
    mutating func note(_ topic: [UInt8], _ change: RetainedChange, now: UInt64) {
        newest[topic] = Awaited(change: change, passedOver: newest[topic]?.passedOver)
        waiting.append((topic, change, now))
        Self.trim(&waiting, &waitingHead, newest)
        Self.thinOut(&waiting, &waitingHead, newest)
        guard change.node != 0 else { return }
        heard.append((topic, change, now))
        Self.trim(&heard, &heardHead, newest)
        Self.thinOut(&heard, &heardHead, newest)
    }

    /// Keeps one of each topic, where one that does not come is in front of many that others have overtaken.
    private static func thinOut(_ entries: inout [Entry], _ head: inout Int, _ newest: [[UInt8]: Awaited]) {
        guard entries.count - head > 2 * newest.count + 1024 else { return }
        entries = entries[head...].filter { newest[$0.topic]?.change == $0.change }
        head = 0
    }

    /// A change has come out of the stream.
    ///
    /// - Parameter value: what it sets; kept if it is passed over.
    /// - Returns: whether it is to be taken.
    mutating func settle(_ topic: [UInt8], _ change: RetainedChange, _ value: @autoclosure () -> Value) -> Bool {
        if change.node != 0 {
            if settledNumbers.count >= Limits.clusterOriginsMax { settledNumbers = [:] }
            settledNumbers[Origin(change)] = max(change.number, settledNumbers[Origin(change)] ?? 0)
        }
        guard let last = newest[topic] else { return true }
        if last.change == change {
            newest[topic] = nil
            return false
        }
        let isNewer = Origin(change) == Origin(last.change) && change.number > last.change.number
        guard isNewer || last.isOverdue else {
            newest[topic]?.passedOver = value()
            return false
        }
        newest[topic] = nil
        return true
    }

    /// What was passed over for changes that have not come for long: it is to be taken now.
    mutating func takeOverdue(now: UInt64) -> [Value] {
        var taken: [Value] = []
        while waitingHead < waiting.count, waiting[waitingHead].at + Limits.clusterChangeMilliseconds <= now {
            let entry = waiting[waitingHead]
            waitingHead += 1
            guard newest[entry.topic]?.change == entry.change else { continue }
            if let value = newest[entry.topic]?.passedOver {
                newest[entry.topic] = nil
                taken.append(value)
            } else {
                newest[entry.topic]?.isOverdue = true
            }
        }
        return taken
    }

    /// Whether a change of this topic is awaited.
    func isAwaited(_ topic: [UInt8]) -> Bool { newest[topic] != nil }

    /// How many changes are awaited.
    var count: Int { newest.count }

    /// All of the stream is read again: other nodes' changes count when they come out of it.
    mutating func forgetOthers() {
        for entry in heard[heardHead...] where newest[entry.topic]?.change == entry.change { newest[entry.topic] = nil }
        (heard, heardHead) = ([], 0)
    }

    /// Whether a change of another node has been awaited for so long that the node must have died before it was stored.
    mutating func hasStale(now: UInt64) -> Bool {
        Self.trim(&heard, &heardHead, newest)
        return heardHead < heard.count && heard[heardHead].at + Limits.clusterChangeMillisecondsMax < now
    }

    private static func trim(_ entries: inout [Entry], _ head: inout Int, _ newest: [[UInt8]: Awaited]) {
        while head < entries.count, newest[entries[head].topic]?.change != entries[head].change { head += 1 }
        if head > 1024, head > entries.count / 2 {
            entries.removeFirst(head)
            head = 0
        }
    }
}
