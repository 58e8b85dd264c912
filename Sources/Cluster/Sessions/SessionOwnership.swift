/// Makes sure that a session has one owner in the cluster, and that each CONNECT finds one soon.
///
///     connect ──► reading ──► writing ──────► settling ──► kept
///                    ▲  conflict, no answer │    (all who may still keep it have stopped)
///                    └──────────────────────┘
///
/// - reading: the record is on its way.
/// - writing: a record with the next epoch and this node in front of its owners is on its way. Without an answer nobody
///   knows whether it was stored; reading it again tells.
/// - settling: the record says that the session is ours; those who kept it before are asked to stop. Each has answered,
///   or its lease has ended, before we act. A node that was started again with the same store answers for its earlier
///   incarnation, whose sessions it has.
/// - kept: this node acts for the session, while its lease lasts.
///
/// The promise: no two nodes act for a session at the same time. It rests on three facts: a record is stored only if
/// nothing came in between; a owner stops before it answers; a lease's holder stops before others can know that it has
/// ended. `keepUnsettled` makes the one exception, for a session that begins anew: there the node that kept the session
/// before may act for what it was until it is reached, or its lease has ended.
public struct SessionOwnership {
    enum Phase {
        case reading
        case writing(SessionRecord)
        case settling(SessionRecord, waitingFor: [SessionRecord.Owner])
        case kept(SessionRecord)
    }

    struct Claim {
        var phase: Phase
        var askedAt: UInt64
        /// Nil for a session whose node has died, and which nobody has asked for.
        let terms: Terms?
        /// Of a session that is assumed: milliseconds since 1970.
        var wallClock: UInt64 = 0
        /// Of a session whose client has stayed here all the while: by which claim.
        var stayedBy: UInt64?
        /// The record that was written last; its fate may be unknown.
        var written: SessionRecord?
        /// The number of the record that is kept.
        var sequence: UInt64 = 0
        /// The number of the write under way.
        var number: UInt64 = 0
        /// While kept: the same record with what has changed, on its way.
        var saving: SessionRecord?
        /// While kept: those that may still act by earlier claims, see `keepUnsettled`.
        var unsettled: [SessionRecord.Owner] = []
        /// While kept, of a session that is assumed: whether its record does not say yet since when its client is away.
        var isAwayUnsaid = false
    }

    /// What CONNECT says of a session.
    public struct Terms: Sendable {
        /// In seconds.
        public var expiryInterval: UInt32
        /// What epochs begin with where there is no record: more than any that the session had before it ended the last
        /// time.
        public var firstEpoch: UInt64

        public init(expiryInterval: UInt32, firstEpoch: UInt64 = 1) {
            self.expiryInterval = expiryInterval
            self.firstEpoch = firstEpoch
        }
    }

    let me: SessionRecord.Owner
    var claims: [[UInt8]: Claim] = [:]
    /// The sessions of which something is under way: few of many.
    var busy: Set<[UInt8]> = []
    private var live: Set<NodeID> = []
    private var liveThrough: UInt64 = 0
    private var lastNumber: UInt64 = 0

    /// - Parameter me: this node, and the number of its lease's first entry.
    public init(_ me: SessionRecord.Owner) { self.me = me }

    /// Whether this node acts for a session, as long as its lease lasts.
    public func keeps(_ session: [UInt8]) -> Bool {
        guard case .kept? = claims[session]?.phase else { return false }
        return true
    }

    /// Of a claim whose record is written, or a session that is kept; nil for any other.
    public func epoch(of session: [UInt8]) -> UInt64? { record(of: session)?.epoch }

    /// The record of a claim that is written, or of a session that is kept; nil for any other.
    public func record(of session: [UInt8]) -> SessionRecord? {
        switch claims[session]?.phase {
        case .settling(let record, _), .kept(let record): record
        case .reading, .writing, nil: nil
        }
    }

    /// Of a claim under way: what it has written last, whose fate may be unknown; 0 for nothing.
    public func writtenEpoch(of session: [UInt8]) -> UInt64 { claims[session]?.written?.epoch ?? 0 }

    /// The session is over, or the claim is given up: this node acts for it no more, and what it may have written
    /// stands.
    ///
    /// - Returns: the number of the record that was kept; nil if none was, or a change of it is on its way.
    @discardableResult
    public mutating func release(_ session: [UInt8]) -> UInt64? {
        guard let claim = claims[session] else { return nil }
        forget(session)
        guard case .kept = claim.phase, claim.saving == nil else { return nil }
        return claim.sequence
    }

    /// Whether nobody can act for a session that is kept here by an earlier claim.
    public func isSettled(_ session: [UInt8]) -> Bool { claims[session]?.unsettled.isEmpty ?? true }

    // MARK: Input

    /// A session begins anew, and needs nothing of those that kept it before: it is kept from now on, although not all
    /// of them have stopped. They are asked until they have, or their leases have ended. Up to then they stand in the
    /// record, so that whoever claims the session next asks them too. Does nothing unless the claim waits for just
    /// that.
    public mutating func keepUnsettled(_ session: [UInt8], _ sink: some SessionOwnershipSink) {
        guard let claim = claims[session], claim.terms != nil, case .settling(let record, let waitingFor) = claim.phase else {
            return
        }
        claims[session]?.unsettled = waitingFor
        keep(session, record, sink)
    }

    /// Claims a session for a client that has connected. `SessionOwnershipSink.restored` follows, or `stop` if another
    /// node claims it meanwhile.
    public mutating func connect(_ session: [UInt8], _ terms: Terms, now: UInt64, _ sink: some SessionOwnershipSink) {
        let (before, isKept) = (claims[session], keeps(session))
        // A claim under way serves the new connection, unless it is for nobody.
        if before?.terms != nil, !isKept { return }
        claims[session] = Claim(phase: .reading, askedAt: now, terms: terms)
        busy.insert(session)
        guard let before, case .kept(let record) = before.phase else { return sink.read(session) }
        claim(session, from: record, at: before.sequence, now: now, sink)
    }

    /// Takes the record that was asked for.
    ///
    /// - Parameters:
    ///   - session: whose.
    ///   - record: nil if there is none.
    ///   - sequence: the number of its last entry, a marker of its end included; 0 for none.
    ///   - ended: without a record, the epoch that a session had which has ended; 0 if that is not known. The next one
    ///     is greater, whatever this node's clock says.
    ///   - now: milliseconds.
    ///   - sink: what is to be done goes there.
    public mutating func found(
        _ session: [UInt8], _ record: SessionRecord?, at sequence: UInt64, ended: UInt64 = 0, now: UInt64,
        _ sink: some SessionOwnershipSink
    ) {
        guard let claim = claims[session] else { return }
        if let saving = claim.saving { return foundWhileSaving(session, saving, record, at: sequence, now: now, sink) }
        guard case .reading = claim.phase else { return }
        // Only this node writes records that it is in front of.
        if let record, record.owners[0] == me, record.epoch == claim.written?.epoch {
            return settle(session, record, at: sequence, now: now, sink)
        }
        guard claim.terms != nil || mayAssume(session, record, stayedBy: claim.stayedBy) else {
            forget(session)
            return sink.notAssumed(session, record)
        }
        self.claim(session, from: record, at: sequence, ended: ended, now: now, sink)
    }

    /// Takes the servers' answer to the record that was written under this number.
    public mutating func written(
        _ session: [UInt8], number: UInt64, _ answer: StoreAnswer, now: UInt64, _ sink: some SessionOwnershipSink
    ) {
        // Of an earlier one it says nothing about the one under way.
        guard let claim = claims[session], claim.number == number else { return }
        if let saving = claim.saving {
            switch answer {
            case .stored(let sequence): saved(session, saving, at: sequence, sink)
            case .conflict: sink.read(session)
            case .unavailable, .noRoom, .refused: break
            }
            return
        }
        guard case .writing(let record) = claim.phase else { return }
        switch answer {
        case .stored(let sequence): settle(session, record, at: sequence, now: now, sink)
        case .conflict: read(session, now: now, sink)
        case .unavailable, .noRoom, .refused: break
        }
    }

    /// Gives up a write because the record is larger than the servers accept. A session that this node owns stays its
    /// own, without the change; a claim that is not complete is given up.
    ///
    /// - Returns: whether that write was the one under way.
    public mutating func refused(_ session: [UInt8], number: UInt64) -> Bool {
        guard let claim = claims[session], claim.number == number else { return false }
        switch claim.phase {
        case .kept:
            guard claim.saving != nil else { return false }
            claims[session]?.saving = nil
            rest(session)
        case .writing: forget(session)
        case .reading, .settling: return false
        }
        return true
    }

    /// Another node has claimed the session with an epoch.
    ///
    /// - Returns: whether this node has stopped, and answers with what it has of the session.
    public mutating func askedToStop(_ session: [UInt8], epoch: UInt64, _ sink: some SessionOwnershipSink) -> Bool {
        switch claims[session]?.phase {
        case nil: break
        case .reading, .writing:
            // Nothing is kept.
            if let written = claims[session]?.written, epoch > written.epoch {
                // What was written is behind the other's: its CONNECT is the newer one.
                sink.stop(session)
                forget(session)
            }
        case .settling(let record, _), .kept(let record):
            // Who asks with an earlier epoch is itself asked by us to stop.
            guard epoch > record.epoch else { return false }
            sink.stop(session)
            forget(session)
        }
        return true
    }

    /// Another node has stopped.
    public mutating func hasStopped(_ node: NodeID, _ session: [UInt8], epoch: UInt64, _ sink: some SessionOwnershipSink) {
        guard let claim = claims[session] else { return }
        if case .kept(let record) = claim.phase, record.epoch == epoch {
            claims[session]?.unsettled.removeAll { $0.node.store == node.store }
            return rest(session)
        }
        guard case .settling(let record, let waitingFor) = claim.phase, record.epoch == epoch else { return }
        settle(session, record, waitingFor: waitingFor.filter { $0.node.store != node.store }, sink)
    }

    /// Takes the list of the nodes that hold a lease, by all entries of their stream up to a number.
    public mutating func live(_ nodes: Set<NodeID>, through sequence: UInt64, _ sink: some SessionOwnershipSink) {
        live = nodes
        liveThrough = sequence
        for session in busySorted {
            switch claims[session]?.phase {
            case .settling(let record, let waitingFor): settle(session, record, waitingFor: waitingFor, sink)
            case .kept:
                let left = claims[session]?.unsettled.filter { !isGone($0) } ?? []
                claims[session]?.unsettled = left
                rest(session)
            case .reading, .writing, nil: continue
            }
        }
    }

    /// Asks again what was not answered; to be called about each second.
    ///
    /// - Parameters:
    ///   - now: milliseconds.
    ///   - wallClock: milliseconds since 1970: the clients of sessions that were assumed, and that others have kept
    ///     until they stopped, are away since then.
    ///   - sink: what is to be done goes there.
    public mutating func tick(now: UInt64, wallClock: UInt64, _ sink: some SessionOwnershipSink) {
        for session in busySorted {
            guard let claim = claims[session], now >= claim.askedAt + Limits.claimAnswerMilliseconds else { continue }
            switch claim.phase {
            case .kept(let record):
                claims[session]?.askedAt = now
                ask(claim.unsettled, for: session, epoch: record.epoch, sink)
                if claim.saving != nil {
                    sink.read(session)
                } else if claim.isAwayUnsaid {
                    _ = save(session, now: now, sink) { $0.awaySince = wallClock }
                }
            case .reading, .writing: read(session, now: now, sink)
            case .settling(let record, let waitingFor):
                claims[session]?.askedAt = now
                ask(waitingFor, for: session, epoch: record.epoch, sink)
            }
        }
    }

    /// Writes down anew what this node keeps, because the servers have lost the records of all sessions, as when their
    /// stream was deleted. A change that is on its way finds that out by itself.
    public mutating func recordsLost(now: UInt64, _ sink: some SessionOwnershipSink) {
        for session in claims.keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            guard let claim = claims[session], case .kept(let record) = claim.phase, claim.saving == nil else { continue }
            claims[session]?.sequence = 0
            claims[session]?.saving = record
            write(record, of: session, expecting: 0, now: now, sink)
        }
    }

    private var busySorted: [[UInt8]] { busy.sorted { $0.lexicographicallyPrecedes($1) } }

    private mutating func forget(_ session: [UInt8]) {
        claims[session] = nil
        busy.remove(session)
    }

    // MARK: Steps

    /// Writes the record of the next epoch, by which the session is to be this node's.
    private mutating func claim(
        _ session: [UInt8], from record: SessionRecord?, at sequence: UInt64, ended: UInt64 = 0, now: UInt64,
        _ sink: some SessionOwnershipSink
    ) {
        guard let claim = claims[session] else { return }
        let next = successor(of: record, session, claim, ended: ended)
        claims[session]?.phase = .writing(next)
        claims[session]?.written = next
        write(next, of: session, expecting: sequence, now: now, sink)
    }

    /// A session is kept, and nothing is on its way to its record: it is busy only while somebody is asked to stop, or
    /// something is to be said in its record first.
    mutating func rest(_ session: [UInt8]) {
        guard let claim = claims[session], claim.saving == nil, claim.unsettled.isEmpty, !claim.isAwayUnsaid else { return }
        busy.remove(session)
    }

    mutating func write(
        _ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, now: UInt64, _ sink: some SessionOwnershipSink
    ) {
        lastNumber += 1
        claims[session]?.number = lastNumber
        busy.insert(session)
        claims[session]?.askedAt = now
        sink.write(record, of: session, expecting: sequence, number: lastNumber)
    }

    private mutating func read(_ session: [UInt8], now: UInt64, _ sink: some SessionOwnershipSink) {
        claims[session]?.phase = .reading
        claims[session]?.askedAt = now
        sink.read(session)
    }

    private mutating func settle(
        _ session: [UInt8], _ record: SessionRecord, at sequence: UInt64, now: UInt64, _ sink: some SessionOwnershipSink
    ) {
        claims[session]?.sequence = sequence
        claims[session]?.askedAt = now
        let waitingFor = record.owners.dropFirst().filter { !isGone($0) }
        ask(waitingFor, for: session, epoch: record.epoch, sink)
        settle(session, record, waitingFor: waitingFor, sink)
    }

    /// Asks whoever has the stores of these, or may have them.
    private func ask(_ owners: [SessionRecord.Owner], for session: [UInt8], epoch: UInt64, _ sink: some SessionOwnershipSink) {
        for owner in owners {
            let successors = live.filter { $0.store == owner.node.store }
            for node in successors.union([owner.node]).sorted() where successors.isEmpty || successors.contains(node) {
                sink.askToStop(session, from: node, epoch: epoch)
            }
        }
    }

    private mutating func settle(
        _ session: [UInt8], _ record: SessionRecord, waitingFor: [SessionRecord.Owner], _ sink: some SessionOwnershipSink
    ) {
        let left = waitingFor.filter { !isGone($0) }
        guard left.isEmpty else {
            claims[session]?.phase = .settling(record, waitingFor: left)
            return
        }
        keep(session, record, sink)
    }

    private mutating func keep(_ session: [UInt8], _ record: SessionRecord, _ sink: some SessionOwnershipSink) {
        claims[session]?.phase = .kept(record)
        // Its client may have been connected to a node that has stopped only now: it is away since then.
        if claims[session]?.terms == nil, record.awaySince == 0 {
            claims[session]?.isAwayUnsaid = true
            return
        }
        rest(session)
        sink.restored(session, record, isAssumed: claims[session]?.terms == nil)
    }

    /// Whether a node is known to hold no lease any more: one that the list does not name may be one that it does not
    /// name yet.
    private func hasEnded(_ owner: SessionRecord.Owner) -> Bool {
        liveThrough >= owner.leaseSequence && !live.contains(owner.node)
    }

    /// Whether its lease has ended, and nobody has its store: it acts no more, and nobody can tell what it had.
    func isGone(_ owner: SessionRecord.Owner) -> Bool {
        hasEnded(owner) && !live.contains { $0.store == owner.node.store }
    }

    /// The record of the next epoch.
    private func successor(
        of record: SessionRecord?, _ session: [UInt8], _ claim: Claim, ended: UInt64
    ) -> SessionRecord {
        let before = max((claim.terms?.firstEpoch ?? 1) - 1, ended, claim.stayedBy ?? 0)
        var next = record ?? SessionRecord(epoch: before, owners: [me], identifier: session)
        next.epoch += 1
        // Who is gone may be back with what it had.
        next.owners = [me] + next.owners.filter { $0.node.store != me.node.store }.prefix(Limits.ownersMax - 1)
        guard let terms = claim.terms else {
            // Whoever has to be asked to stop may have its client until then.
            if next.awaySince == 0, next.owners.dropFirst().allSatisfy({ isGone($0) }) { next.awaySince = claim.wallClock }
            return next
        }
        // What it was stays as it was, even if the client begins anew: it may be refused yet.
        if record == nil { next.expiryInterval = terms.expiryInterval }
        // Which wills are due depends on it.
        if next.wills.isEmpty { next.awaySince = 0 }
        return next
    }
}

/// Sessions that nobody keeps any more, and whose clients have not come.
extension SessionOwnership {
    /// The lease of a session's owner has ended: what it owes, such as a will, is this node's to do, if no other takes
    /// it. `SessionOwnershipSink.restored` follows then, as for a client, or `notAssumed`; nothing if it is kept here,
    /// or about to be.
    ///
    /// - Parameters:
    ///   - session: which.
    ///   - epoch: the claim by which its client has stayed here while this node had no lease; nil if it has none here.
    ///     Then it is assumed as well if others have looked after it meanwhile, or ended it, and nobody has kept it for
    ///     a client.
    ///   - wallClock: milliseconds since 1970: since then its client is away, if nobody has said so before, and nobody
    ///     has to be asked to stop; see `tick`.
    ///   - now: milliseconds.
    ///   - sink: what is to be done goes there.
    /// - Returns: whether the owner looks after it.
    @discardableResult
    public mutating func adopt(
        _ session: [UInt8], stayedBy epoch: UInt64? = nil, wallClock: UInt64, now: UInt64, _ sink: some SessionOwnershipSink
    ) -> Bool {
        guard claims[session] == nil else { return false }
        claims[session] = Claim(phase: .reading, askedAt: now, terms: nil, wallClock: wallClock, stayedBy: epoch)
        busy.insert(session)
        sink.read(session)
        return true
    }

    /// Whether nobody acts for a session with this record but whoever takes it: its owner is gone, or an earlier
    /// incarnation of this node, or this one, which has let go of it.
    public func isLeft(_ session: [UInt8], _ record: SessionRecord) -> Bool {
        let owner = record.owners[0]
        if owner.node.store == me.node.store { return owner != me || !keeps(session) }
        return isGone(owner)
    }

    /// Whether a client that has stayed here by a claim is still the only one: since then others have looked after its
    /// session at most.
    public func isLookedAfter(_ record: SessionRecord, since epoch: UInt64) -> Bool {
        // Whoever keeps it for a client says that this one is there, or has saved what it is.
        record.awaySince > 0 && record.saved?.epoch ?? 0 <= epoch && record.owners.contains { $0.node.store == me.node.store }
    }

    func mayAssume(_ session: [UInt8], _ record: SessionRecord?, stayedBy epoch: UInt64?) -> Bool {
        guard let record else { return epoch != nil }
        return isLeft(session, record) || epoch.map { isLookedAfter(record, since: $0) } == true
    }
}

/// What changes of a session that is kept.
extension SessionOwnership {
    /// Writes what has changed of a session that this node keeps: places in the log now and then, subscriptions before
    /// they are confirmed. `SessionOwnershipSink.saved` follows when it stands in the engine.
    ///
    /// - Parameters:
    ///   - session: which.
    ///   - hasAll: whether all that the session is has come here: up to then the record names those that may have it.
    ///     Of a session that nobody has asked for it does so always.
    ///   - now: milliseconds.
    ///   - sink: what is to be done goes there.
    ///   - change: what has changed.
    /// - Returns: false if the session is not kept, or an earlier change is on its way: to be tried again.
    public mutating func save(
        _ session: [UInt8], hasAll: Bool = false, now: UInt64, _ sink: some SessionOwnershipSink,
        _ change: (inout SessionRecord) -> Void
    ) -> Bool {
        guard let claim = claims[session], case .kept(let record) = claim.phase, claim.saving == nil else { return false }
        var next = record
        change(&next)
        next.epoch = record.epoch
        // Who has stopped still has what its client wants, until that is here.
        if claim.terms != nil, hasAll { next.owners = [me] + claim.unsettled }
        claims[session]?.saving = next
        write(next, of: session, expecting: claim.sequence, now: now, sink)
        return true
    }

    mutating func saved(_ session: [UInt8], _ record: SessionRecord, at sequence: UInt64, _ sink: some SessionOwnershipSink) {
        claims[session]?.phase = .kept(record)
        claims[session]?.sequence = sequence
        claims[session]?.saving = nil
        guard claims[session]?.isAwayUnsaid == true, record.awaySince > 0 else {
            rest(session)
            return sink.saved(session, record)
        }
        claims[session]?.isAwayUnsaid = false
        rest(session)
        sink.restored(session, record, isAssumed: true)
    }

    /// Goes on with a change that met another record than it expected: an earlier one of our own whose answer was lost,
    /// or another node's claim.
    mutating func foundWhileSaving(
        _ session: [UInt8], _ saving: SessionRecord, _ record: SessionRecord?, at sequence: UInt64, now: UInt64,
        _ sink: some SessionOwnershipSink
    ) {
        // Nobody ends a session that another node keeps, so there is a mark at least: the servers have lost the
        // records.
        if record == nil, sequence == 0 {
            claims[session]?.sequence = 0
            return write(saving, of: session, expecting: 0, now: now, sink)
        }
        // An answer to a question from before this was kept.
        guard sequence >= claims[session]?.sequence ?? 0 else { return }
        guard let record, record.owners[0] == me, record.epoch == saving.epoch else {
            // It waits for us, and asks: what it needs to go on is given then, and not before.
            claims[session]?.saving = nil
            rest(session)
            return
        }
        if record == saving { return saved(session, record, at: sequence, sink) }
        claims[session]?.sequence = sequence
        write(saving, of: session, expecting: sequence, now: now, sink)
    }
}

extension Limits {
    /// After how long a question about a session's record is asked again, in milliseconds.
    static let claimAnswerMilliseconds: UInt64 = 1000
}
