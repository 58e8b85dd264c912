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
        guard owner?.isLeft(session, record) == true, let dutyAt = record.dutyAt, sessions[session].ending == nil,
            sessions[session].coming == nil, sessions[session].going == nil
        else { return }
        // What this node had before is its own; of others' one after the other looks whether it is done.
        let isOwn = record.owners[0].node.store == node.store
        let stagger = isOwn ? 0 : UInt64(nodes.rank(of: node, for: session)) * Limits.leftSessionStaggerMilliseconds
        left.record(session, dutyAt: stagger == 0 ? dutyAt : max(dutyAt, wallClock) + stagger)
    }

    /// Takes note that a shard has a session that is due, and does not know which node owns it.
    func wakes(_ session: [UInt8], _ waking: SessionAdoption.Waking) {
        guard owner != nil, sessions[session].coming == nil, owner?.keeps(session) != true else { return }
        sessions[session].adoption.woken = waking
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
        (left, leftNews) = (LeftSessions(), [])
        scan.end()
    }

    // MARK: What the owner says

    /// A session's record as it was found by whoever is about to assume it.
    func recordFound(_ session: [UInt8], _ record: SessionRecord?) {
        // What this claim has written itself says nothing of who had the session before.
        guard left.isHandling(session), owner?.keeps(session) != true else { return }
        let stayedBy = stayedBy(session)
        guard let record else {
            sessions[session].adoption.oldest = stayedBy
            return
        }
        // What this node has of it counts if nobody has kept it since.
        let isOwn = record.owners[0].node.store == node.store && record.saved == nil
        sessions[session].adoption.oldest = isOwn ? 0 : record.saved?.epoch ?? .max
        if let stayedBy, owner?.isLookedAfter(record, since: stayedBy) == true {
            sessions[session].adoption.oldest = record.saved?.epoch ?? 0
        }
    }

    /// By which claim a client has stayed that had its session here before the lease ended; nil for none.
    private func stayedBy(_ session: [UInt8]) -> UInt64? {
        sessions[session].adoption.woken.flatMap { $0.isConnected ? $0.epoch : nil }
    }

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
                sessions[session].adoption.oldest = nil
                if let waking = sessions.take(\.adoption.woken, of: session) { sendToShard(session, record, waking) }
            case .kept(let session):
                left.notTaken(session)
                sessions[session].adoption.woken = nil
            }
        }
    }

    /// Tells a shard that a session which it has is another node's or has ended, or that the servers have lost its
    /// record.
    private func sendToShard(_ session: [UInt8], _ record: SessionRecord?, _ waking: SessionAdoption.Waking) {
        // A client has come for it elsewhere: the one that has stayed is closed as if it had come then.
        if waking.isConnected { return post(.sessionGone(session), of: session) }
        // Whether the servers have lost it tells the age of the bucket alone; the shard asks again.
        guard record != nil || records.createdAt != nil else { return }
        let isLost = record == nil && records.createdAt.map { $0 > waking.epoch } == true
        if let record, record.owners.contains(where: { $0.node.store == node.store }) {
            // Its client finds here what nobody has fetched.
            return post(.sessionWillIsElsewhere(session), of: session)
        }
        post(isLost ? .sessionIsUnknown(session) : .sessionIsElsewhere(session), of: session)
    }

    private func taken(_ session: [UInt8], _ record: SessionRecord) {
        let hasStayed = stayedBy(session) != nil
        sessions[session].adoption.woken = nil
        guard left.isHandling(session), owner?.epoch(of: session) == record.epoch else { return }
        guard let oldest = sessions.take(\.adoption.oldest, of: session), oldest < .max else {
            if hasStayed { post(.sessionGone(session), of: session) }
            return left.restored(session, record)
        }
        sessions[session].adoption.awaitsShard = record
        post(.sessionAssumed(session, epoch: record.epoch, from: oldest), of: session)
    }

    /// A shard says whether it has what this node has claimed.
    func assumed(_ session: [UInt8], isHere: Bool, _ will: WillName?) {
        guard let record = sessions.take(\.adoption.awaitsShard, of: session), left.isHandling(session) else { return }
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
        guard sessions[session].coming == nil,
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
            let last = record.owners.last(where: { $0.node.store != node.store })?.node
        else { return releaseAndEnd(session) }
        // It ends here when all that share groups have dispatched to it is here too.
        let claim = SessionClaim(
            identifier: session, expiryInterval: record.expiryInterval, cleanStart: false, hasSession: false)
        var visit = IncomingSession(claim: claim, stage: .claiming, now: now)
        (visit.record, visit.found) = (record, record)
        (visit.wills, visit.hasSettledWills, visit.hasExpired, visit.isForNobody) = (.cleared, true, true, true)
        sessions[session].coming = visit
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

/// A session that is claimed although no client has come for it, or is to be.
struct SessionAdoption {
    /// By which claim a shard has a session, and whether its client has stayed.
    struct Waking {
        let epoch: UInt64
        let isConnected: Bool
    }

    /// A shard has asked whose it is.
    var woken: Waking?
    /// From which claim on what a shard has of it counts; `UInt64.max` for none.
    var oldest: UInt64?
    /// It is claimed, and a shard is to say whether it has it.
    var awaitsShard: SessionRecord?

    var isEmpty: Bool { woken == nil && oldest == nil && awaitsShard == nil }
}
