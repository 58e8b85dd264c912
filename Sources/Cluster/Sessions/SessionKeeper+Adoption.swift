/// Sessions that nobody keeps any more, and whose clients have not come.
extension SessionKeeper {
    /// The lease of a session's keeper has ended: what it owes, such as a will, is this node's to do, if no other takes it.
    /// `SessionKeeperSink.takenUp` follows then, as for a client, or `notAdopted`; nothing if it is kept here, or about to be.
    ///
    /// - Parameters:
    ///   - session: which.
    ///   - epoch: the claim by which its client has stayed here while this node had no lease; nil if it has none here. Then it is adopted as well
    ///     if others have looked after it meanwhile, or ended it, and nobody has kept it for a client.
    ///   - wallClock: milliseconds since 1970: since then its client is away, if nobody has said so before.
    ///   - now: milliseconds.
    ///   - sink: what is to be done goes there.
    /// - Returns: whether the keeper looks after it.
    @discardableResult
    public mutating func adopt(
        _ session: [UInt8], stayedBy epoch: UInt64? = nil, wallClock: UInt64, now: UInt64, _ sink: some SessionKeeperSink
    ) -> Bool {
        guard claims[session] == nil else { return false }
        claims[session] = Claim(phase: .reading, askedAt: now, terms: nil, wallClock: wallClock, stayedBy: epoch)
        busy.insert(session)
        sink.read(session)
        return true
    }

    /// Whether nobody acts for a session with this record but whoever adopts it: its keeper is gone, or an earlier
    /// incarnation of this node, or this one, which has let go of it.
    public func isLeft(_ session: [UInt8], _ record: SessionRecord) -> Bool {
        let keeper = record.keepers[0]
        if keeper.node.store == me.node.store { return keeper != me || !keeps(session) }
        return isGone(keeper)
    }

    /// Whether a client that has stayed here by a claim is still the only one: since then others have looked after its session at most.
    public func isLookedAfter(_ record: SessionRecord, since epoch: UInt64) -> Bool {
        // Whoever keeps it for a client says that this one is there, or has saved what it is.
        record.awaySince > 0 && record.saved?.epoch ?? 0 <= epoch && record.keepers.contains { $0.node.store == me.node.store }
    }

    func mayAdopt(_ session: [UInt8], _ record: SessionRecord?, stayedBy epoch: UInt64?) -> Bool {
        guard let record else { return epoch != nil }
        return isLeft(session, record) || epoch.map { isLookedAfter(record, since: $0) } == true
    }
}
