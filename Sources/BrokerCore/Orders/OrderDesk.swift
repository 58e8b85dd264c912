/// The orders that a shard has been given and has not carried out, oldest first.
///
/// Invariant: of administrators' orders, at most `Limits.ordersMax` wait. Owned by a shard, used on its thread only.
struct OrderDesk {
    /// An order, and how far it is carried out.
    struct OpenOrder {
        let order: ShardOrder
        /// Where it goes on, in the table or queue of what it is about.
        var place = 0
        /// How many are given up.
        var count = 0

        init(_ order: ShardOrder) { self.order = order }
    }

    private(set) var open: [OpenOrder] = []
    /// How many places were looked at so far: tests see by it how much a turn does.
    var stepCount = 0

    var isEmpty: Bool { open.isEmpty }

    /// Takes an order; false if too many wait.
    mutating func add(_ order: ShardOrder) -> Bool {
        guard open.count(where: { $0.order.token != 0 }) < Limits.ordersMax else { return false }
        open.append(OpenOrder(order))
        return true
    }

    /// Takes one of the loop's own: there are a few for each bridge, and none may be lost. Nobody waits for its outcome, so it has no token.
    mutating func addOwn(_ action: ShardOrder.Action) { open.append(OpenOrder(ShardOrder(action))) }

    /// Takes out the one whose turn it is.
    mutating func takeFirst() -> OpenOrder { open.removeFirst() }

    /// Puts back the one that needs another turn, before the others.
    mutating func putBack(_ order: OpenOrder) { open.insert(order, at: 0) }

    /// Traps where the invariant does not hold.
    func checkInvariants() { precondition(open.count { $0.order.token != 0 } <= Limits.ordersMax, "too many orders wait") }
}
