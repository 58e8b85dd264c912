import Administration
import BrokerCore
import BrokerModel
import Cluster
import Configuration
import MQTTCodec
import NATSClient
import Platform
import ServerLoops

/// Sessions that move between nodes, as one node sees it: brings together the shards, `SessionOwnership`, the records,
/// the messages of other nodes and the log.
///
///     shard ── claim ──► SessionOwnership ──► record ──► ask the last owner ──► its chunks ──► shard ──► the log again ──► CONNACK
///     shard ◄── leaves ◄── SessionOwnership ◄── another node asks
///
/// Belongs to the loop that speaks to the servers.
final class SessionCoordinator {
    /// Since the start.
    struct Counters {
        /// Sessions that came from other nodes, and that went there.
        var taken: UInt64 = 0
        var given: UInt64 = 0
        /// Sessions that began anew because nobody had them any more.
        var lost: UInt64 = 0
        var refused: UInt64 = 0
        /// Sessions that were restored from their records, without the nodes that had them.
        var restored: UInt64 = 0
        /// Wills that were published, and sessions that have ended, whose nodes were gone.
        var leftWills: UInt64 = 0
        var leftEnded: UInt64 = 0
    }

    private let incarnations: NodeIncarnations
    let loop: ShardLoop
    let connection: NATSConnection
    unowned let context: any GatewayContext
    let space: SubjectSpace
    let replay: LogRereader
    private(set) lazy var records = SessionRecords(
        plan, connection, report: { [unowned self] in log(.warning, "\($0).") },
        refused: { [unowned self] in context.refused($0, $1) }, take: { [unowned self] in take($0) })
    let plan: ClusterPlan
    private let placement: ShardPlacement
    /// nil without a lease.
    var owner: SessionOwnership?
    /// The sessions of which something is under way.
    var sessions = SessionTable()
    var counters = Counters()
    var nodes = PresentNodes()
    var drops = SessionDrops()
    var contested = ContestedSessions()
    var messages: SessionMessages
    var wills = WillQueue()
    /// The sessions that are too large to be stored, of which the log tells already.
    var unsavable = BoundedSessionMap<Void>(countMax: Limits.sessionDropsMax, nameBytesMax: Limits.sessionNameBytesMax)
    var ticksAt: UInt64 = 0
    private var looksAt: UInt64 = 0
    /// When it is looked whether the bucket of records is still the same.
    private var bucketLooksAt: UInt64 = 0
    /// Sessions that nobody keeps any more.
    var left = LeftSessions()
    private(set) lazy var scan = SessionScan(node: node, on: connection, give: { [unowned self] in consider($0) })
    var leftNews: [LeftNews] = []

    init(
        _ plan: ClusterPlan, _ incarnations: NodeIncarnations, on loop: ShardLoop, _ connection: NATSConnection, log: any ReadLog,
        context: any GatewayContext
    ) {
        (self.plan, self.incarnations, self.loop, self.connection) = (plan, incarnations, loop, connection)
        self.context = context
        space = SubjectSpace(cluster: plan.name)
        placement = loop.shard.placement
        messages = SessionMessages(incarnations.current)
        replay = LogRereader(
            plan, incarnations, on: loop, connection, log: log,
            report: { [log = loop.log, name = plan.name] in log.write(.error, "Cluster \(name): \($0).") })
    }

    var node: NodeID { incarnations.current }

    var now: UInt64 { loop.events.nowMilliseconds }

    /// In milliseconds since 1970.
    var wallClock: UInt64 { context.wallClock }

    func log(_ level: LogTopics, _ text: String) { loop.log.write(level, "Cluster \(plan.name): \(text)") }

    static func name(_ session: [UInt8]) -> String { String(decoding: session, as: UTF8.self) }

    /// Tells the shard that has a session, or would have it.
    func post(_ message: FromCluster, of session: [UInt8]) { post(.shard(message), of: session) }

    private func post(_ message: FromGateway, of session: [UInt8]) {
        context.post(message, to: session.withUnsafeBytes { placement.shard(ofClient: $0) })
    }

    func postToAll(_ message: FromCluster) { for shard in loop.loops.indices { context.post(.shard(message), to: shard) } }

    // MARK: The loop

    var nextDeadline: UInt64? {
        let isMoving = ClusterSession.Part.allCases.contains { sessions.has($0) }
        let isBusy = isMoving || !drops.isEmpty || !nodes.awaited.isEmpty || !leftNews.isEmpty
        // With a lease it is looked now and then whether something is left.
        let looksForLeft = owner == nil ? nil : left.isEmpty && !scan.isReading ? max(ticksAt, scan.beginsAt) : ticksAt
        let looksForBucket = owner == nil ? nil : max(ticksAt, bucketLooksAt)
        return [replay.nextDeadline, scan.nextDeadline, isBusy ? ticksAt : looksForLeft, looksForBucket].compactMap { $0 }.min()
    }

    func advance(now: UInt64) {
        replay.advance(now: now)
        scan.advance(now: now)
        guard now >= ticksAt else { return }
        ticksAt = now + Limits.sessionTickMilliseconds
        if now >= bucketLooksAt {
            bucketLooksAt = now + Limits.sessionBucketMilliseconds
            if connection.isReady { records.look() }
        }
        owner?.tick(now: now, wallClock: wallClock, self)
        tickVisits()
        tickUnsettled()
        logAwaited()
        tickExports()
        tickWills()
        tickSaves()
        tickLeft()
        guard now >= looksAt, connection.isReady else { return }
        looksAt = now + Limits.leaseRenewalMilliseconds
        records.create()
        sendDrops()
        for session in sessions.names(with: .ending) { end(session, sessions[session].ending?.found) }
    }

    func attached() {
        records.attached()
        replay.attached()
    }

    func detached() {
        records.detached()
        replay.detached()
        if scan.isReading { scan.begin(at: now) }
        scan.end()
        for session in sessions.names(with: .coming) {
            guard case .fetching(var fetch) = sessions[session].coming?.stage, fetch.isLast == nil else { continue }
            fetch.asksAt = now
            sessions[session].coming?.stage = .fetching(fetch)
        }
    }

    // MARK: The lease

    /// Takes the list of the nodes that hold a lease, by all entries up to a number; `me` is this one, if it holds one.
    func live(_ nodes: [NodeID], through sequence: UInt64, me: SessionRecord.Owner?) {
        if self.nodes.change(nodes, now: now) { scan.begin(at: now) }
        let live = self.nodes.live
        if owner == nil, let me {
            owner = SessionOwnership(me)
            scan.begin(at: now)
            owner?.live(live, through: sequence, self)
            for session in sessions.names(with: .coming) { connect(session) }
            // Their clients may have stayed.
            if plan.detached == .local { postToAll(.leaseBegins) }
        } else {
            owner?.live(live, through: sequence, self)
        }
    }

    /// Stops all sessions, because this node's lease has ended.
    func leaseEnded() {
        guard owner != nil else { return }
        (owner, drops) = (nil, SessionDrops())
        wills.forget()
        forgetLeft()
        endSaves()
        for session in sessions.names(with: .coming) {
            guard let visit = sessions[session].coming else { continue }
            replay.forget(session)
            fail(session, visit, "the cluster cannot be reached")
        }
        sessions.endLease()
        guard plan.detached == .refuse else { return }
        log(.warning, "this node's lease has expired: its clients are disconnected, because other nodes may serve them now.")
        postToAll(.fenceClients("the cluster cannot be reached"))
    }

    // MARK: The shards

    /// Takes what a shard has to tell of sessions.
    func received(_ note: ToCluster) {
        switch note {
        case .claim(let claim): claimed(claim)
        case .leaving(let session, let piece): leaving(session, piece)
        case .arrived(let session, let number): arrived(session, number)
        case .illegible(let session): illegible(session)
        case .lacksLog(let session): post(.sessionLacksLog(session), of: session)
        case .restored(let session): sessions[session].coming = nil
        case .sessionEnded(let session): ended(session)
        case .saves(let saved): save(saved)
        case .will(let session, let will): due(will, of: session)
        case .willEnds(let session, let name): wills.ended.insert(name, of: session)
        case .assumed(let session, let isHere, let will): assumed(session, isHere: isHere, will)
        case .wakes(let session, let epoch, let isConnected):
            wakes(session, SessionAdoption.Waking(epoch: epoch, isConnected: isConnected))
        // These are about something else.
        case .interest, .group, .fence, .messages, .retained, .swept, .staleChanges: return
        }
    }

    // MARK: The records

    private func take(_ answer: SessionRecords.Answer) {
        switch answer {
        case .found(let session, let record, let sequence, let ended):
            if sessions[session].ending != nil {
                guard let record, record.owners[0].node.store == node.store else {
                    sessions[session].ending = nil
                    wills.ended.keep([], of: session)
                    return
                }
                sessions[session].ending = SessionEnding(found: (record.epoch, sequence))
                return records.remove(session, epoch: record.epoch, expecting: sequence)
            }
            recordFound(session, record)
            // What this claim has written itself says nothing of who had the session before.
            if sessions[session].coming != nil, sessions[session].coming?.found == nil || record?.owners[0].node != node {
                recordFound(record, by: session)
            }
            owner?.found(session, record, at: sequence, ended: ended, now: now, self)
        case .written(let session, let number, let answer): owner?.written(session, number: number, answer, now: now, self)
        case .tooLarge(let session, let number): refused(session, number: number)
        case .illegible(let session, let words): if let visit = sessions[session].coming { giveUp(session, visit, words) }
        case .removed(let session):
            sessions[session].ending = nil
            wills.ended.keep([], of: session)
        case .lost:
            log(.warning, "the records of all sessions are lost: those that this node keeps are written down anew.")
            owner?.recordsLost(now: now, self)
        }
    }

    /// Takes the record of a session whose client has come, before this node has claimed it.
    func recordFound(_ record: SessionRecord?, by session: [UInt8]) {
        sessions[session].coming?.found = record
        // Its time is over: the client begins a new one. [MQTT-3.1.2-23 v5]
        if record?.hasEnded(now: wallClock) == true { sessions[session].coming?.beginsAnew() }
    }

    /// The node that may have what is newest of a session, and is away; nil for none.
    func missing(_ visit: IncomingSession) -> NodeID? { visit.claim.cleanStart ? nil : gone(visit) }

    /// The node that may have what is newest of a session and is away, whether the client wants the session or not; nil
    /// for none.
    func gone(_ visit: IncomingSession) -> NodeID? {
        guard let found = visit.found, found.expiryInterval > 0 else { return nil }
        // Of the others each has answered.
        let gone = found.owners.filter { $0.node.store != node.store && visit.offers[$0.node.store] == nil }
        let newest = max(visit.source?.offer.epoch ?? 0, visit.claim.hasSession ? visit.claim.epoch : 0)
        return newest < found.epoch ? gone.first?.node : nil
    }

    /// Whether clients wait for a node that is missing: it may be back soon.
    func isAwaited(_ missing: NodeID) -> Bool {
        now < nodes.miss(missing.store, now: now) + plan.sessionWaitMilliseconds
    }
}

/// What the log tells of nodes that are away, and of the clients that wait for them.
extension SessionCoordinator {
    /// What becomes of the clients of a node whose lease has ended, in words.
    func prospect(of gone: NodeID) -> String {
        let until = awaitedUntil(gone.store)
        guard until > now else {
            return "sessions of its clients that connect here are restored from the cluster's copy"
        }
        return
            "clients that connect here and have their session there are refused until \(clockTime(until)) "
            + "(martlet_cluster_session_wait); if it is not back by then, their sessions are restored from the cluster's copy"
    }

    /// When clients wait no more for a node that is missed.
    private func awaitedUntil(_ store: UInt32) -> UInt64 { (nodes.missedSince[store] ?? now) + plan.sessionWaitMilliseconds }

    private func clockTime(_ time: UInt64) -> String { Timestamp.text(wallClock &+ time &- now) }

    /// Logs how many clients have been refused meanwhile.
    func logAwaited() {
        for (node, count) in nodes.awaited.due(now: now) {
            let until = awaitedUntil(node.store)
            let end = until > now ? "; it is waited for until \(clockTime(until))" : ""
            log(
                .warning,
                "\(count) more \(count == 1 ? "client was" : "clients were") refused: the node that has their sessions, \(context.shownName(of: node)), was not there\(end)."
            )
        }
    }
}

/// What the owner wants done.
extension SessionCoordinator: SessionOwnershipSink {
    func read(_ session: [UInt8]) { records.read(session) }

    func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64) {
        records.write(record, of: session, expecting: sequence, number: number)
    }

    func askToStop(_ session: [UInt8], from node: NodeID, epoch: UInt64) {
        let cleanStart = sessions[session].coming?.claim.cleanStart ?? (sessions[session].unsettled != nil)
        send(SessionMessage(.ask(cleanStart: cleanStart), node: self.node, epoch: epoch, identifier: session), to: node)
    }

    func restored(_ session: [UInt8], _ record: SessionRecord, isAssumed: Bool) {
        if isAssumed {
            leftNews.append(.taken(session, record))
            ticksAt = now
            return
        }
        guard sessions[session].coming != nil else { return }
        sessions[session].coming?.record = record
        sessions[session].coming?.progressAt = now
        settled(session)
    }

    func stop(_ session: [UInt8]) {
        // A session that is looked after here for its client, who has come, is not another node's.
        if left.isHandling(session) {
            left.notTaken(session)
            (sessions[session].adoption.oldest, sessions[session].adoption.awaitsShard) = (nil, nil)
        }
        contested.claimed(session, now: now)
        overtake(session)
    }

    /// Refuses the client that waits here: it came before one that has come to another node.
    func overtake(_ session: [UInt8]) {
        replay.forget(session)
        guard sessions.take(\.coming, of: session) != nil else { return }
        let words = "another connection uses this Client Identifier on another node of the cluster."
        post(.claimFailed(session, words, isTold: true), of: session)
    }
}

/// Clients that come for their sessions, and sessions that are over.
extension SessionCoordinator {
    func claimed(_ claim: SessionClaim) {
        let session = claim.identifier
        sessions[session].ending = nil
        sessions[session].wills.endsSession = false
        guard sessions[session].coming == nil else {
            // What is under way serves the newer client; what the shard has by now is a part of what is under way.
            sessions[session].coming?.claim.cleanStart = claim.cleanStart
            sessions[session].coming?.isForNobody = false
            sessions[session].coming?.progressAt = now
            return
        }
        let isKept = owner?.keeps(session) == true && !left.isHandling(session)
        let isOver = sessions[session].unsettled?.isOver == true && owner?.epoch(of: session) == sessions[session].unsettled?.epoch
        sessions[session].unsettled?.isOver = false
        // What it publishes from now on comes behind its earlier connection's will.
        if isKept, !isOver, !publishesWill(of: session), let epoch = owner?.epoch(of: session) {
            return post(.sessionClaimed(session, .here, epoch: epoch), of: session)
        }
        ticksAt = min(ticksAt, now + Limits.sessionTickMilliseconds)
        sessions[session].coming = IncomingSession(claim: claim, stage: .waiting, now: now)
        // What is kept here, as for a client that has not come yet, is not read again: it says who had the session.
        if owner?.keeps(session) == true, let record = owner?.record(of: session) { recordFound(record, by: session) }
        if isOver { sessions[session].coming?.beginsAnew() }
        // The shard gives it anew by the new claim.
        if isKept { (sessions[session].saves.underWay, sessions[session].saves.waiting) = (nil, nil) }
        left.notTaken(session)
        (sessions[session].adoption.oldest, sessions[session].adoption.awaitsShard) = (nil, nil)
        connect(session)
    }

    func connect(_ session: [UInt8]) {
        guard owner != nil, let claim = sessions[session].coming?.claim, case .waiting = sessions[session].coming?.stage else {
            return
        }
        guard !contested.waits(session, now: now) else { return }
        sessions[session].coming?.stage = .claiming
        // A session that begins once more has higher numbers than what may be left of it somewhere.
        let terms = SessionOwnership.Terms(expiryInterval: claim.expiryInterval, firstEpoch: wallClock)
        owner?.connect(session, terms, now: now, self)
    }

    /// Removes the record of a session that is over, if it is this node's.
    func ended(_ session: [UInt8]) {
        guard sessions[session].coming == nil else { return }
        drops.remove(session)
        if publishesWill(of: session) {
            sessions[session].wills.endsSession = true
            return
        }
        forgetSaves(of: session)
        if !endsUnsettled(session) { releaseAndEnd(session) }
    }

    /// Stops acting for a session, and removes its record.
    func releaseAndEnd(_ session: [UInt8]) {
        let epoch = owner?.epoch(of: session)
        let number = owner?.release(session)
        let found = epoch.flatMap { epoch in number.map { (epoch: epoch, number: $0) } }
        sessions[session].ending = SessionEnding(found: found)
        end(session, found)
    }

    func end(_ session: [UInt8], _ found: (epoch: UInt64, number: UInt64)?) {
        guard connection.isReady else { return }
        if let found { records.remove(session, epoch: found.epoch, expecting: found.number) } else { records.read(session) }
    }
}
