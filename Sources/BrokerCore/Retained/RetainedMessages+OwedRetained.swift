import BrokerModel
import MQTTCodec

/// Retained messages that a session is owed, over a crash: see `OwedRetained`.
extension RetainedMessages {
    /// A SUBSCRIBE asks for what is retained, before its subscription is kept.
    func owe(_ filter: [UInt8], to session: Session) {
        guard shard.journal != nil, session.keepsMessages, shard.shardCount > 1 || shard.retained.count > 0 else { return }
        makeOwed(of: session).ask(filter)
    }

    /// - Parameter stage: as it stood in a row, or came from another node.
    func restoreOwed(_ filter: [UInt8], _ stage: OwedRetained.Stage, of session: Session) {
        guard let journal = shard.journal else { return }
        makeOwed(of: session).restore(filter, stage, lastNumber: journal.lastNumber)
    }

    private func makeOwed(of session: Session) -> OwedRetained {
        if let owed = session.owed { return owed }
        let owed = OwedRetained()
        session.owed = owed
        return owed
    }

    /// The session's client is back: what nobody looks for any more is asked for again.
    func resumeOwed(_ session: Session) {
        guard let owed = session.owed, !owed.isAllQueued, shard.scans.slot(of: session.key) == nil else { return }
        let stamp = shard.shardCount > 1 ? shard.scans.arrivals.stamp(now: shard.now) : 0
        shard.scanning.beginScans(
            owed.takeUnfinished().map {
                // The subscription's terms are those that it has when its turn comes.
                RetainedQuery(
                    filter: $0, shard: shard.index, sessionIndex: session.index, sessionKey: session.key,
                    terms: SubscriptionTerms(maximumQoS: .atMostOnce), stamp: stamp)
            })
    }

    /// At the end of a turn: all scans of these sessions have come to their end.
    func settleEndedScans() {
        // Something else may be looked for since: then its end says what was found.
        for ended in shard.scans.takeEnded() where ended.shard == shard.index && shard.scans.slot(of: ended.key) == nil {
            guard let session = shard.sessions.find(index: ended.index, key: ended.key), let owed = session.owed,
                let journal = shard.journal
            else {
                continue
            }
            var filters = owed.queueFound(lastNumber: journal.lastNumber)
            // One row may be of a cluster that there is no more.
            if shard.cluster?.moves == nil { filters.formUnion(owed.takeQueued()) }
            settle(filters, owed, of: session)
        }
    }

    /// Whether its client has acknowledged all that it was owed. O(1).
    func hasPaid(_ session: Session) -> Bool {
        guard let owed = session.owed, owed.isAllQueued, !session.storage.isReading else { return false }
        return shard.saves.isDone(through: owed.lastNumber, session)
    }

    /// Its client has acknowledged that.
    func settlePaid(_ session: Session) {
        guard let owed = session.owed else { return }
        settle(owed.takeQueued(), owed, of: session)
    }

    private func settle(_ filters: Set<[UInt8]>, _ owed: OwedRetained, of session: Session) {
        if owed.isEmpty { session.owed = nil }
        let sorted = filters.sorted { left, right in
            left.withUnsafeBytes { left in right.withUnsafeBytes { MemoryComparison.precedes(left, $0) } }
        }
        shard.scans.unsettled.add(sorted, sessionIndex: session.index, sessionKey: session.key)
    }

    /// Writes some of the rows that are to be written anew.
    func stepUnsettledRows() {
        var steps = Limits.scanStepsPerTurn
        while steps > 0, let (rows, filter) = shard.scans.unsettled.next() {
            steps -= OpenPackets.steps(of: filter)
            guard let session = shard.sessions.find(index: rows.sessionIndex, key: rows.sessionKey) else { continue }
            let record = filter.withUnsafeBytes { shard.tree.find($0, subscriber: .session(session.index)) }
            guard record != SubscriptionRecord.none, shard.tree.records[record].storeNumber != 0, let filter = TopicFilter(filter)
            else {
                continue
            }
            _ = shard.sessionRows.keepSubscription(
                filter, shard.tree.records[record].terms, of: session, number: shard.tree.records[record].storeNumber)
        }
    }
}

extension UnsettledRows: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { !shard.scans.unsettled.isEmpty }
    static func step(_ shard: BrokerShard) { shard.retainedMessages.stepUnsettledRows() }
}
