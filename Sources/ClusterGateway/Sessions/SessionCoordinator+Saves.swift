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
        if let earlier = sessions[saved.identifier].saves.waiting, earlier.epoch == saved.epoch {
            if saved.state == nil { (saved.state, saved.will, saved.awaySince) = (earlier.state, earlier.will, earlier.awaySince) }
            saved.places = saved.places ?? earlier.places
        }
        sessions[saved.identifier].saves.waiting = saved
        ticksAt = min(ticksAt, now + Limits.sessionTickMilliseconds)
        write(saved)
    }

    func write(_ saved: SavedSession) {
        let session = saved.identifier
        // What stands in the record goes with what was published of it.
        guard owner == nil || !publishesWill(of: session) else { return }
        guard owner != nil else {
            sessions[session].saves.waiting = nil
            // Where clients stay without the cluster, what they have is confirmed for this node.
            if plan.detached == .local { post(.sessionSaved(session, number: saved.number), of: session) }
            return
        }
        guard owner?.epoch(of: session) == saved.epoch, owner?.keeps(session) == true else {
            // Another claim has come in between: what it finds is given by that.
            sessions[session].saves.waiting = nil
            // A client that has stayed without a lease has what this node gives it, whoever has claimed its session
            // since.
            let isClaimed = owner?.epoch(of: session) != nil || sessions[session].coming != nil || sessions[session].going != nil
            if plan.detached == .local, !isClaimed { post(.sessionSaved(session, number: saved.number), of: session) }
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
                record.wills = saved.will.map { [$0] } ?? []
                record.awaySince = saved.awaySince
            }
            let state = isTooLarge ? [] : saved.state ?? record.saved?.state ?? []
            let places = saved.places ?? record.saved.map { context.positions(of: session, $0) }
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
        sessions[session].saves.waiting = nil
        sessions[session].saves.underWay = saved.number
    }

    private func logUnsavable(_ session: [UInt8], _ count: Int, _ bytesMax: Int) {
        guard unsavable[session] == nil, unsavable.hasRoom(for: session) else { return }
        unsavable[session] = ()
        log(
            .warning,
            "the session of client \(Self.name(session)) has subscriptions or a will of \(count) bytes, more than the servers' max_payload "
                + "(\(bytesMax)): they are lost if its node is gone for good.")
    }

    /// Takes note that a session's record is stored.
    func saved(_ session: [UInt8], _ record: SessionRecord) {
        wills.ended.keep(record.wills, of: session)
        if left.isHandling(session) { leftNews.append(.saved(session, record)) }
        if let visit = sessions[session].coming, visit.wills == .publishing {
            sessions[session].coming?.wills = .cleared
            sessions[session].coming?.record = record
            sessions[session].coming?.progressAt = now
        }
        ticksAt = min(
            ticksAt, now + (left.isHandling(session) || sessions[session].coming != nil ? 0 : Limits.sessionTickMilliseconds))
        endSave(of: session)
    }

    func tickSaves() {
        for session in sessions.names(with: .saves) { if let saved = sessions[session].saves.waiting { write(saved) } }
    }

    /// Handles a record that is too large to be sent: nothing waits for it any more.
    func refused(_ session: [UInt8], number: UInt64) {
        guard owner?.refused(session, number: number) == true else { return }
        if let visit = sessions[session].coming {
            giveUp(session, visit, "its session's record is larger than the servers' max_payload")
        }
        if left.isHandling(session) {
            owner?.release(session)
            left.notTaken(session)
            (sessions[session].adoption.oldest, sessions[session].adoption.woken) = (nil, nil)
        }
        endSave(of: session)
    }

    /// Nothing of what a shard has given is on its way to the record any more.
    private func endSave(of session: [UInt8]) {
        guard let number = sessions.take(\.saves.underWay, of: session) else { return }
        post(.sessionSaved(session, number: number), of: session)
    }

    /// Forgets the saves of a session that has ended, or is another node's.
    func forgetSaves(of session: [UInt8]) {
        sessions[session].saves = SessionSaves()
        unsavable[session] = nil
    }

    /// Forgets all saves, because the lease has ended.
    func endSaves() {
        guard plan.detached == .local else { return }
        for session in sessions.names(with: .saves) {
            let saves = sessions[session].saves
            guard let number = saves.waiting?.number ?? saves.underWay else { continue }
            post(.sessionSaved(session, number: number), of: session)
        }
    }

    /// Has the shards give how far their sessions have got in the log.
    func saveLogPositions() {
        guard owner != nil, connection.isReady else { return }
        postToAll(.saveLogPositions)
    }
}

/// What a shard has given of a session for its record.
struct SessionSaves {
    /// The number of what is on its way to the record.
    var underWay: UInt64?
    /// What waits for that.
    var waiting: SavedSession?

    var isEmpty: Bool { underWay == nil && waiting == nil }
}

extension Limits {
    /// Bytes of a session's record, and of the message with it, beside what is saved of the session.
    static let sessionRecordFrameBytesMax = 80 << 10

    /// Room for the headers of a session's record, and for the names of nodes that join it, in bytes.
    static let sessionRecordHeadersBytesMax = 4 << 10
}
