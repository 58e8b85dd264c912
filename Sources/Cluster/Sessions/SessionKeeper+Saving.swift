/// What changes of a session that is kept.
extension SessionKeeper {
    /// Writes what has changed of a session that this node keeps: cursors once a second, subscriptions before they are confirmed.
    /// `SessionKeeperSink.saved` follows when it stands in the engine.
    ///
    /// - Parameters:
    ///   - session: which.
    ///   - hasAll: whether all that the session is has come here: up to then the record names those that may have it. Of a session that
    ///     nobody has asked for it does so always.
    ///   - now: milliseconds.
    ///   - sink: what is to be done goes there.
    ///   - change: what has changed.
    /// - Returns: false if the session is not kept, or an earlier change is on its way: to be tried again.
    public mutating func save(
        _ session: [UInt8], hasAll: Bool = false, now: UInt64, _ sink: some SessionKeeperSink,
        _ change: (inout SessionRecord) -> Void
    ) -> Bool {
        guard let claim = claims[session], case .kept(let record) = claim.phase, claim.saving == nil else { return false }
        var next = record
        change(&next)
        next.epoch = record.epoch
        // Who has stopped still has what its client wants, until that is here.
        if claim.terms != nil, hasAll { next.keepers = [me] + claim.unsettled }
        claims[session]?.saving = next
        write(next, of: session, expecting: claim.sequence, now: now, sink)
        return true
    }

    mutating func saved(_ session: [UInt8], _ record: SessionRecord, at sequence: UInt64, _ sink: some SessionKeeperSink) {
        claims[session]?.phase = .kept(record)
        claims[session]?.sequence = sequence
        claims[session]?.saving = nil
        rest(session)
        sink.saved(session, record)
    }

    /// What was to be saved met another entry: one of our own without an answer, or the claim of another node.
    mutating func foundWhileSaving(
        _ session: [UInt8], _ saving: SessionRecord, _ record: SessionRecord?, at sequence: UInt64, now: UInt64,
        _ sink: some SessionKeeperSink
    ) {
        // An answer to a question from before this was kept.
        guard sequence >= claims[session]?.sequence ?? 0 else { return }
        guard let record, record.keepers[0] == me, record.epoch == saving.epoch else {
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
