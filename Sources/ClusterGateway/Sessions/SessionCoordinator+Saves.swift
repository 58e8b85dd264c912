import BrokerCore
import BrokerModel
import Cluster
import Configuration
import NATSClient
import ServerLoops

/// What shards give of their sessions, to be stored in the sessions' records.
///
///     shard ── ToCluster.saves ──► SessionOwnership.save ──► record ──► FromCluster.sessionSaved ──► shard
extension SessionCoordinator {
    /// Stores what a shard has given of a session, or keeps it until an earlier write is done.
    func save(_ saved: SavedSession) {
        var saved = saved
        if let earlier = savesWaiting[saved.identifier], earlier.epoch == saved.epoch {
            if saved.state == nil { (saved.state, saved.will, saved.awaySince) = (earlier.state, earlier.will, earlier.awaySince) }
            saved.places = saved.places ?? earlier.places
        }
        savesWaiting[saved.identifier] = saved
        ticksAt = min(ticksAt, now + Limits.sessionTickMilliseconds)
        write(saved)
    }

    func write(_ saved: SavedSession) {
        let session = saved.identifier
        // What stands in the record goes with what was published of it.
        guard owner == nil || !publishesWill(of: session) else { return }
        guard owner != nil else {
            savesWaiting[session] = nil
            // Where clients stay without the cluster, what they have is confirmed for this node.
            if plan.detached == .local, let shard = shard(of: session) {
                post(.sessionSaved(session, number: saved.number), to: shard)
            }
            return
        }
        guard owner?.epoch(of: session) == saved.epoch, owner?.keeps(session) == true else {
            // Another claim has come in between: what it finds is given by that.
            savesWaiting[session] = nil
            // A client that has stayed without a lease has what this node gives it, whoever has claimed its session
            // since.
            let isClaimed = owner?.epoch(of: session) != nil || visits[session] != nil || departures[session] != nil
            if plan.detached == .local, !isClaimed, let shard = shard(of: session) {
                post(.sessionSaved(session, number: saved.number), to: shard)
            }
            return
        }
        let payloadBytesMax = connection.session.info?.payloadBytesMax ?? .max
        let bytesMax = payloadBytesMax - Limits.sessionRecordFrameBytesMax
        let isTooLarge = (saved.state?.count ?? 0) > bytesMax
        if isTooLarge { logUnsavable(session, saved.state?.count ?? 0, bytesMax) }
        // What a shard gives is a session that has come as a whole.
        let isOnItsWay = owner?.save(session, hasAll: true, now: now, self) { record in
            record.expiryInterval = saved.expiryInterval
            if saved.state != nil {
                record.wills = saved.will.map { [SessionRecord.LastWill($0)] } ?? []
                record.awaySince = saved.awaySince
            }
            let state = isTooLarge ? [] : saved.state ?? record.saved?.state ?? []
            let places = saved.places ?? record.saved?.places
            record.saved = places.flatMap {
                state.isEmpty ? nil : SessionRecord.Saved(epoch: saved.epoch, state: state, places: $0)
            }
            // Of a will there may be more than anybody has thought of. Without it in the record, its node alone can
            // publish it.
            guard !record.wills.isEmpty else { return }
            let count = record.encoded.count
            guard count > payloadBytesMax - Limits.sessionRecordHeadersBytesMax else { return }
            logUnsavable(session, count, payloadBytesMax)
            record.wills = []
        }
        guard isOnItsWay == true else { return }
        savesWaiting[session] = nil
        savesUnderWay[session] = saved.number
    }

    private func logUnsavable(_ session: [UInt8], _ count: Int, _ bytesMax: Int) {
        guard !unsavable.contains(session), unsavable.count < Limits.sessionDropsMax,
            unsavable.reduce(session.count, { $0 + $1.count }) <= Limits.sessionNameBytesMax
        else { return }
        unsavable.insert(session)
        log(
            .warning,
            "the session of client \(Self.name(session)) has subscriptions or a will of \(count) bytes, more than the servers' max_payload "
                + "(\(bytesMax)): they are lost if its node is gone for good.")
    }

    /// Takes note that a session's record is stored.
    func saved(_ session: [UInt8], _ record: SessionRecord) {
        endedWills.keep(record.wills, of: session)
        if left.isHandling(session) { leftNews.append(.saved(session, record)) }
        if let visit = visits[session], visit.wills == .publishing {
            visits[session]?.wills = .cleared
            visits[session]?.record = record
            visits[session]?.progressAt = now
        }
        ticksAt = min(ticksAt, now + (left.isHandling(session) || visits[session] != nil ? 0 : Limits.sessionTickMilliseconds))
        guard let number = savesUnderWay.removeValue(forKey: session), let shard = shard(of: session) else { return }
        post(.sessionSaved(session, number: number), to: shard)
    }

    func tickSaves() {
        for saved in savesWaiting.values.sorted(by: { $0.identifier.lexicographicallyPrecedes($1.identifier) }) { write(saved) }
    }

    /// Handles records that were not even sent, because they are too large: nothing waits for them any more.
    func takeRefused() {
        for (session, number) in records.takeRefused() where owner?.refused(session, number: number) == true {
            if let visit = visits[session] {
                giveUp(session, visit, "its session's record is larger than the servers' max_payload")
            }
            if left.isHandling(session) {
                owner?.release(session)
                left.notTaken(session)
                (adoptions[session], woken[session]) = (nil, nil)
            }
            guard let number = savesUnderWay.removeValue(forKey: session), let shard = shard(of: session) else { continue }
            post(.sessionSaved(session, number: number), to: shard)
        }
    }

    /// Forgets the saves of a session that has ended, or is another node's.
    func forgetSaves(of session: [UInt8]) {
        (savesUnderWay[session], savesWaiting[session]) = (nil, nil)
        unsavable.remove(session)
    }

    /// Forgets all saves, because the lease has ended.
    func endSaves() {
        if plan.detached == .local {
            let numbers = savesUnderWay.merging(savesWaiting.mapValues(\.number)) { $1 }
            for (session, number) in numbers {
                if let shard = shard(of: session) { post(.sessionSaved(session, number: number), to: shard) }
            }
        }
        (savesUnderWay, savesWaiting) = ([:], [:])
    }

    /// Has the shards give how far their sessions have got in the log.
    func saveLogPositions() {
        guard owner != nil, connection.isReady else { return }
        for shard in loop.loops.indices { post(.saveLogPositions, to: shard) }
    }
}

extension Limits {
    /// Bytes of a session's record, and of the message with it, beside what is saved of the session.
    static let sessionRecordFrameBytesMax = 80 << 10

    /// Room for the headers of a session's record, and for the names of nodes that join it, in bytes.
    static let sessionRecordHeadersBytesMax = 4 << 10
}
