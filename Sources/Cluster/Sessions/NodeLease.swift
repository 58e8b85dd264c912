/// A node's right to act for its sessions: an entry on the servers that expires unless it is renewed.
///
///     own clock:   asked at t ──────────── stored ─────────► may act until t + life − allowance
///     servers:           stored, not before t ──────────────────────────────► goes after life
///
/// What counts is when the renewal was asked for, because the servers may have stored it at once and answered late. The
/// allowance covers the clocks: this node's may be slow, and that of a new leader early. So a node stops by itself
/// before anybody else can know that its lease has ended. A lease that has ended is not renewed: the node starts anew,
/// as another one.
public struct NodeLease {
    public enum State: Equatable, Sendable {
        /// There is no lease yet.
        case none
        /// The node may act until then, in milliseconds of its own clock.
        case held(until: UInt64)
        /// It may not act any more.
        case ended
    }

    /// How long the servers keep the entry, in milliseconds.
    private let lifeMilliseconds: UInt64
    private let allowanceMilliseconds: UInt64
    public private(set) var state = State.none
    /// The number of the entry in its stream, which the next renewal expects.
    public private(set) var sequence: UInt64 = 0
    /// The number of the first entry: who has read the stream so far knows of this node.
    public private(set) var firstSequence: UInt64 = 0

    /// - Parameters:
    ///   - lifeMilliseconds: more than the servers take to elect a leader.
    ///   - allowanceMilliseconds: by how much clocks may differ over that time, and the time that a node takes to stop.
    public init(lifeMilliseconds: UInt64, allowanceMilliseconds: UInt64) {
        precondition(allowanceMilliseconds < lifeMilliseconds, "a lease that ends before it has begun")
        self.lifeMilliseconds = lifeMilliseconds
        self.allowanceMilliseconds = allowanceMilliseconds
    }

    /// Whether the node may act now.
    public func mayAct(now: UInt64) -> Bool {
        guard case .held(let until) = state else { return false }
        return now < until
    }

    /// Takes note that the servers have stored the entry that was asked for at a time.
    public mutating func renewed(askedAt time: UInt64, at sequence: UInt64, now: UInt64) {
        expire(now: now)
        guard state != .ended else { return }
        if firstSequence == 0 { firstSequence = sequence }
        self.sequence = max(self.sequence, sequence)
        let until = time + lifeMilliseconds - allowanceMilliseconds
        if case .held(let earlier) = state, earlier > until { return }
        state = .held(until: until)
        expire(now: now)
    }

    /// Handles a renewal that met another number than it expected: the entry has gone, or a renewal whose answer was
    /// lost was stored.
    ///
    /// - Parameters:
    ///   - found: the number of the entry of this node that the servers hold; nil if there is none.
    ///   - now: milliseconds on this node's clock.
    public mutating func conflicted(found: UInt64?, now: UInt64) {
        expire(now: now)
        guard state != .ended else { return }
        // Also the first one may have been stored and have gone again, without an answer: what is left of it stands in
        // the way of another.
        guard let found else {
            state = .ended
            return
        }
        // Stored by a question without an answer. When that was asked is not known any more, so the right to act stays
        // as it is.
        sequence = found
        if firstSequence == 0 { firstSequence = found }
    }

    /// Ends the lease if its time is over.
    public mutating func expire(now: UInt64) {
        if case .held(let until) = state, now >= until { state = .ended }
    }
}
