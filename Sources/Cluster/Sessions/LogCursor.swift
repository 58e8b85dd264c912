/// How far a session has got in one partition of the log: where its next owner goes on reading.
///
///     done          │ read, and not all done        │ not read
///     ──────────────┼───────────────────────────────┼──────────►
///                position                          next
///
/// Invariant: every message before `position` is done; `open` holds the records from there on that have something left,
/// rising.
public struct LogCursor: Equatable, Sendable {
    private var open: [(sequence: UInt64, left: Int)] = []
    /// How many at the front of `open` are gone.
    private var head = 0
    /// The number of the record that is read next.
    public private(set) var next: UInt64

    /// - Parameter position: everything before this record is done.
    public init(at position: UInt64) { next = position }

    /// The record from which on something may be left.
    public var position: UInt64 { head < open.count ? open[head].sequence : next }

    /// How many messages are read and not done.
    public var openCount: Int { open[head...].reduce(0) { $0 + $1.left } }

    /// A record has been read, which holds so many messages for the session.
    ///
    /// - Precondition: it is `next` or a later one.
    public mutating func read(_ sequence: UInt64, count: Int) {
        precondition(sequence >= next, "a partition is read once, in its order")
        next = sequence + 1
        if count > 0 { open.append((sequence, count)) }
    }

    /// One message of a record is done: acknowledged, dropped or expired. Nothing happens for a record with nothing
    /// left.
    public mutating func done(_ sequence: UInt64) {
        var (low, high) = (head, open.count)
        while low < high {
            let middle = (low + high) / 2
            if open[middle].sequence < sequence { low = middle + 1 } else { high = middle }
        }
        guard low < open.count, open[low].sequence == sequence, open[low].left > 0 else { return }
        open[low].left -= 1
        while head < open.count, open[head].left == 0 { head += 1 }
        guard head > 64, head > open.count / 2 else { return }
        open.removeFirst(head)
        head = 0
    }

    public static func == (left: LogCursor, right: LogCursor) -> Bool {
        left.next == right.next && left.open[left.head...].elementsEqual(right.open[right.head...], by: ==)
    }
}
