import BrokerCore
import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// Sessions that nobody keeps any more: of nodes that are gone, and of this one before it was started again.
/// `LeftSessions` decides what becomes of them.
///
///     SessionScan ──► LeftSessions ──► SessionOwnership.adopt ──► FromCluster.sessionAssumed ──► this node's shard has it, or
///                          └──► wills, and the record's end
extension SessionCoordinator: LeftSessionsSink {
    /// Looks at a record that was read: whether this node has to look after its session.
    func consider(_ record: SessionRecord) {
        let session = record.identifier
        guard owner?.isLeft(session, record) == true, let dutyAt = record.dutyAt, !endings.keys.contains(session),
            visits[session] == nil, departures[session] == nil
        else { return }
        // What this node had before is its own; of others' one after the other looks whether it is done.
        let isOwn = record.owners[0].node.store == node.store
        let stagger = isOwn ? 0 : UInt64(rank(session)) * Limits.leftSessionStaggerMilliseconds
        left.record(session, dutyAt: stagger == 0 ? dutyAt : max(dutyAt, wallClock) + stagger)
    }

    /// How many nodes have their turn before this one.
    private func rank(_ session: [UInt8]) -> Int {
        func weight(_ node: NodeID) -> UInt64 {
            session.reduce(node.rawValue | 1) { ($0 ^ UInt64($1)) &* 0x9E37_79B9_7F4A_7C15 ^ $0 >> 29 }
        }
        let own = (weight(node), node)
        return min(Limits.leftSessionRanksMax, live.count { (weight($0), $0) > own })
    }

    /// Takes note that a shard has a session that is due, and does not know which node owns it.
    func wakes(_ session: [UInt8], _ waking: Waking) {
        guard owner != nil, visits[session] == nil, owner?.keeps(session) != true else { return }
        woken[session] = waking
        left.record(session, dutyAt: 0)
    }

    func tickLeft() {
        scan.tick(records.stream(), now: now)
        stepLeft()
    }

    func stepLeft() {
        guard owner != nil else { return }
        takeLeftNews()
        // What it wants done comes back by an answer, never from within.
        left.step(wallClock: wallClock, self)
    }

    /// Forgets all sessions that this node looks after, because its lease has ended.
    func forgetLeft() {
        left = LeftSessions()
        (adoptions, awaitingShards, leftNews, woken) = ([:], [:], [], [:])
        scan.end()
    }

    // MARK: What the owner says

    /// A session's record as it was found by whoever is about to assume it.
    func recordFound(_ session: [UInt8], _ record: SessionRecord?) {
        guard left.isHandling(session) else { return }
        let stayedBy = stayedBy(session)
        guard let record else {
            adoptions[session] = stayedBy
            return
        }
        // What this node has of it counts if nobody has kept it since.
        let isOwn = record.owners[0].node.store == node.store && record.saved == nil
        adoptions[session] = isOwn ? 0 : record.saved?.epoch ?? .max
        if let stayedBy, owner?.isLookedAfter(record, since: stayedBy) == true { adoptions[session] = record.saved?.epoch ?? 0 }
    }

    /// By which claim a client has stayed that had its session here before the lease ended; nil for none.
    private func stayedBy(_ session: [UInt8]) -> UInt64? { woken[session].flatMap { $0.isConnected ? $0.epoch : nil } }

    func notAssumed(_ session: [UInt8], _ record: SessionRecord?) {
        leftNews.append(.another(session, record))
        ticksAt = now
    }

    private func takeLeftNews() {
        let news = leftNews
        leftNews = []
        for item in news {
            switch item {
            case .taken(let session, let record): taken(session, record)
            case .saved(let session, let record): left.saved(session, record)
            case .published(let session, let name): left.published(session, name)
            case .another(let session, let record):
                left.notTaken(session)
                adoptions[session] = nil
                if let waking = woken.removeValue(forKey: session) { sendToShard(session, record, waking) }
            case .kept(let session):
                left.notTaken(session)
                woken[session] = nil
            }
        }
    }

    /// Tells a shard that a session which it has is another node's or has ended, or that the servers have lost its
    /// record.
    private func sendToShard(_ session: [UInt8], _ record: SessionRecord?, _ waking: Waking) {
        guard let shard = shard(of: session) else { return }
        // A client has come for it elsewhere: the one that has stayed is closed as if it had come then.
        if waking.isConnected { return post(.sessionGone(session), to: shard) }
        // Whether the servers have lost it tells the age of the bucket alone; the shard asks again.
        guard record != nil || records.createdAt != nil else { return }
        let isLost = record == nil && records.createdAt.map { $0 > waking.epoch } == true
        if let record, record.owners.contains(where: { $0.node.store == node.store }) {
            // Its client finds here what nobody has fetched.
            return post(.sessionWillIsElsewhere(session), to: shard)
        }
        post(isLost ? .sessionIsUnknown(session) : .sessionIsElsewhere(session), to: shard)
    }

    private func taken(_ session: [UInt8], _ record: SessionRecord) {
        let hasStayed = stayedBy(session) != nil
        woken[session] = nil
        guard left.isHandling(session), owner?.epoch(of: session) == record.epoch, let shard = shard(of: session) else { return }
        guard let oldest = adoptions.removeValue(forKey: session), oldest < .max else {
            if hasStayed { post(.sessionGone(session), to: shard) }
            return left.restored(session, record)
        }
        awaitingShards[session] = record
        post(.sessionAssumed(session, epoch: record.epoch, from: oldest), to: shard)
    }

    /// A shard says whether it has what this node has claimed.
    func assumed(_ session: [UInt8], isHere: Bool, _ will: WillName?) {
        guard let record = awaitingShards.removeValue(forKey: session), left.isHandling(session) else { return }
        guard isHere else {
            left.restored(session, record)
            return stepLeft()
        }
        log(
            .information,
            "the session of client \(Self.name(session)), which this node had, is its own again by claim \(record.epoch).")
        left.notTaken(session)
        for due in record.dueWills(now: wallClock)
        where due.name != will { publish(due, of: session) }
    }

    // MARK: LeftSessionsSink

    func adopt(_ session: [UInt8]) {
        // Its client has come, or it is kept here.
        guard visits[session] == nil,
            owner?.adopt(session, stayedBy: stayedBy(session), wallClock: wallClock, now: now, self) == true
        else { return leftNews.append(.kept(session)) }
    }

    func remove(_ wills: Set<WillName>, of session: [UInt8]) {
        _ = owner?.save(session, now: now, self) { $0.wills.removeAll { wills.contains($0.name) } }
    }

    func end(_ session: [UInt8]) {
        counters.leftEnded += 1
        log(.notice, "the session of client \(Self.name(session)) has expired; the node that kept it is gone.")
        guard let record = owner?.record(of: session), let saved = record.saved, SavedSession.isMember(state: saved.state),
            let shard = shard(of: session), let last = record.owners.last(where: { $0.node.store != node.store })?.node
        else { return releaseAndEnd(session) }
        // It ends here when all that share groups have dispatched to it is here too.
        let claim = SessionClaim(
            identifier: session, expiryInterval: record.expiryInterval, cleanStart: false, hasSession: false)
        var visit = SessionVisit(shard: shard, claim: claim, stage: .claiming, now: now)
        (visit.record, visit.found, visit.previous) = (record, record, record)
        (visit.wills, visit.hasSettledWills, visit.hasExpired, visit.isForNobody) = (.cleared, true, true, true)
        visits[session] = visit
        restore(session, saved, from: last, epoch: record.epoch)
    }

    func letGo(_ session: [UInt8]) { owner?.release(session) }
}

/// What has become of a session that was to be assumed, to be looked at when the owner is done.
enum LeftNews {
    case taken([UInt8], SessionRecord)
    case saved([UInt8], SessionRecord)
    /// A will of it needs not be published: it was.
    case published([UInt8], WillName)
    case another([UInt8], SessionRecord?)
    /// The session is kept here already, or its client waits.
    case kept([UInt8])
}
