/// Which of a node's interest is known to be in force at every other node.
///
/// Interest travels through the servers by itself, and nobody tells when it has arrived. So the node asks every other
/// one for an answer, behind its interest on the same connection: what asks comes to the other's server behind the
/// interest, and the answer comes to ours behind the interest of the other. When all have answered, both directions are
/// in force.
///
///     numbers:   … ≤ complete   in force
///                current        asked for; some have not answered
///                current + 1    given out while that was under way; asked for next, all at once
///
/// Invariant: complete < current ≤ last ≤ current + 1 while one is under way, complete ≤ last otherwise.
struct FenceBook {
    private struct Fence {
        let number: UInt64
        var waitingFor: Set<NodeID>
        var askedAt: UInt64
    }

    /// All up to this number are in force.
    private(set) var complete: UInt64 = 0
    /// The newest number that was given out.
    private(set) var last: UInt64 = 0
    private var current: Fence?
    /// Since when the servers say of a node that nobody is there.
    private var absentSince: [NodeID: UInt64] = [:]

    /// The number of the fence under way; nil if none is.
    var currentNumber: UInt64? { current?.number }

    /// The nodes that are still waited for, sorted.
    var waitingFor: [NodeID] { current?.waitingFor.sorted() ?? [] }

    /// Gives out the number of the fence behind all interest so far.
    mutating func need() -> UInt64 {
        let begun = current?.number ?? complete
        if last == begun { last += 1 }
        return last
    }

    /// Begins the newest fence, in place of any other, which it comprises.
    mutating func begin(_ peers: Set<NodeID>, now: UInt64) {
        current = Fence(number: last, waitingFor: peers, askedAt: now)
        completeIfAnswered()
    }

    /// Takes note that the connection is gone: open fences are asked again on the next one, and absences are forgotten,
    /// since they came from another server.
    mutating func interrupt() {
        absentSince = [:]
        if let current, last == current.number { last += 1 }
        current = nil
    }

    /// Lets everything that was given out count as in force.
    mutating func waive() {
        current = nil
        complete = last
    }

    /// Takes a node's answer to a fence.
    mutating func answered(_ node: NodeID, _ number: UInt64) {
        absentSince[node] = nil
        guard current?.number == number else { return }
        leave(node)
    }

    /// Takes the servers' word that a node is not there. It is believed when they go on saying so.
    ///
    /// - Returns: whether it is.
    mutating func absent(_ node: NodeID, _ number: UInt64, now: UInt64) -> Bool {
        let since = absentSince[node] ?? now
        absentSince[node] = since
        guard now >= since + Limits.absenceMilliseconds else { return false }
        if current?.number == number { leave(node) }
        return true
    }

    /// Takes note that a node is there.
    mutating func heard(_ node: NodeID) { absentSince[node] = nil }

    /// Forgets all nodes but these.
    mutating func keep(_ peers: Set<NodeID>) {
        absentSince = absentSince.filter { peers.contains($0.key) }
        guard current != nil else { return }
        current?.waitingFor.formIntersection(peers)
        completeIfAnswered()
    }

    /// Whether those who have not answered are to be asked again; said once for each time.
    mutating func isRepeatDue(now: UInt64) -> Bool {
        guard let askedAt = current?.askedAt, now >= askedAt + Limits.fenceRepeatMilliseconds else { return false }
        current?.askedAt = now
        return true
    }

    /// When `isRepeatDue` may be true; nil while no fence is under way.
    var repeatsAt: UInt64? { current.map { $0.askedAt + Limits.fenceRepeatMilliseconds } }

    private mutating func leave(_ node: NodeID) {
        current?.waitingFor.remove(node)
        completeIfAnswered()
    }

    private mutating func completeIfAnswered() {
        guard let fence = current, fence.waitingFor.isEmpty else { return }
        complete = fence.number
        current = nil
    }
}

extension Limits {
    /// How long the servers have to say of a node that nobody is there, in milliseconds, until fences go on without it:
    /// longer than two of its servers need to find each other again, so that a server that has just started does not
    /// vouch for nodes that it has not heard of.
    static let absenceMilliseconds: UInt64 = 3000
}
