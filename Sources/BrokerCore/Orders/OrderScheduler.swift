import BrokerModel

/// The orders that a shard has been given and has not carried out, oldest first.
///
///     add ─► open ─► done
///             ▲│
///             │▼ the store has to do something first
///            waiting ─► done
///
/// Those in `open` want a turn; those that wait want to be looked at in each turn that there is, and others go on meanwhile.
///
/// Invariant: of administrators' orders, at most `Limits.ordersMax` wait. Owned by a shard, used on its thread only.
struct OrderScheduler {
    /// An order, and how far it is carried out.
    struct OpenOrder {
        let order: ShardOrder
        /// A message with a higher number has come after it.
        let lastNumber: UInt64
        /// Where it goes on, in the table or queue of what it is about.
        var place = 0
        /// How many are given up.
        var count = 0
        /// The queue that is purged; nil for another order, and before it has begun.
        var purge: QueuePurge?

        init(_ order: ShardOrder, after lastNumber: UInt64) { (self.order, self.lastNumber) = (order, lastNumber) }
    }

    private(set) var open: [OpenOrder] = []
    private(set) var waiting: [OpenOrder] = []
    /// How many places may be looked at in this turn still.
    var stepsLeft = 0
    /// How many were looked at so far: tests see by it how much a turn does.
    var stepCount = 0
    /// Whether one of those may wait for what has happened since it was looked at.
    var hasNews = false

    var isEmpty: Bool { open.isEmpty && waiting.isEmpty }
    /// Whether a turn would do anything.
    var hasWork: Bool { !open.isEmpty || hasNews && !waiting.isEmpty }
    private var administratorsCount: Int { (open + waiting).count { $0.order.token != 0 } }

    /// Takes an order; false if too many wait.
    ///
    /// - Parameter lastNumber: the highest one that a message has by now.
    mutating func add(_ order: ShardOrder, after lastNumber: UInt64) -> Bool {
        guard administratorsCount < Limits.ordersMax else { return false }
        open.append(OpenOrder(order, after: lastNumber))
        return true
    }

    /// Takes one of the loop's own: there are a few for each bridge, and none may be lost. Nobody waits for its outcome, so it has no token.
    mutating func addOwn(_ action: ShardOrder.Action, after lastNumber: UInt64) {
        open.append(OpenOrder(ShardOrder(action), after: lastNumber))
    }

    /// Takes out the one whose turn it is.
    mutating func takeFirst() -> OpenOrder { open.removeFirst() }

    /// Puts back the one that needs another turn, before the others.
    mutating func putBack(_ order: OpenOrder) { open.insert(order, at: 0) }

    /// Puts one aside that waits for the store.
    mutating func setAside(_ order: OpenOrder) { waiting.append(order) }

    /// Takes out all that were put aside.
    mutating func takeWaiting() -> [OpenOrder] {
        defer { waiting = [] }
        return waiting
    }

    /// The purge of a session's queue that waits for rows, to be changed in place; nil if there is none.
    func placeOfReader(_ sessionKey: UInt64) -> Int? {
        waiting.firstIndex { $0.purge.map { $0.sessionKey == sessionKey && $0.isReading } ?? false }
    }

    /// The waiting order at a place has come further.
    mutating func change(waiting place: Int, to order: OpenOrder) { waiting[place] = order }

    /// Traps where the invariant does not hold.
    func checkInvariants() { precondition(administratorsCount <= Limits.ordersMax, "too many orders wait") }
}
