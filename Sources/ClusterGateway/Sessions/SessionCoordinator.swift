import Administration
import BrokerCore
import BrokerModel
import Bytes
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
    let replay: LogReplay
    private(set) lazy var records = SessionRecords(
        plan, connection, report: { [unowned self] in log(.warning, "\($0).") },
        refused: { [unowned self] in context.refused($0, $1) })
    let plan: ClusterPlan
    private let placement: ShardPlacement
    /// nil without a lease.
    var owner: SessionOwnership?
    var visits: [[UInt8]: SessionVisit] = [:]
    var departures: [[UInt8]: OutgoingSession] = [:]
    var counters = Counters()
    /// The nodes that hold a lease.
    private(set) var live: Set<NodeID> = []
    /// Since when stores are missed.
    private(set) var missedSince: [UInt32: UInt64] = [:]
    /// The clients that were refused because of missing nodes.
    var awaited = AwaitedNodes()
    /// The sessions that other nodes are to forget, until they say that they have.
    var drops: [SessionDrop] = []
    /// The messages to other nodes that are not answered, by token.
    var nodeMessages: [UInt64: SentSessionMessage] = [:]
    var messagesUnderWay: Set<SentSessionMessage> = []
    var lastMessage: UInt64 = 0
    var lastOffer: UInt64
    /// Where another node's question is answered, while `owner` is asked.
    var asker: (reply: Subject, cleanStart: Bool)?
    /// Sessions that are over, whose records are to go: the record's epoch and number; nil while they are looked for.
    var endings: [[UInt8]: (epoch: UInt64, number: UInt64)?] = [:]
    var isFencing = false
    var isConnecting = false
    /// What shards have given of their sessions and is on its way to the record, by number, and what waits for that.
    var savesUnderWay: [[UInt8]: UInt64] = [:]
    var savesWaiting: [[UInt8]: SavedSession] = [:]
    /// The sessions that are too large to be stored, of which the log tells already.
    var unsavable: Set<[UInt8]> = []
    var ticksAt: UInt64 = 0
    private var looksAt: UInt64 = 0
    /// Wills on their way into the log, by session, in their order; and whose are under way, by request.
    var willJobs: [[UInt8]: [WillJob]] = [:]
    var willTokens: [UInt64: [UInt8]] = [:]
    /// Sessions of which one is to be sent: in their order, and in the next tick.
    var willQueue = Deque<[UInt8]>()
    var willRetries: [[UInt8]] = []
    /// The sessions whose wills wait for what their clients have published before.
    var willsBehind: [[UInt8]] = []
    var lastWillToken: UInt64 = 0
    /// The wills that stand in records although they are over.
    var endedWills = EndedWills()
    /// Sessions that are over when their wills are in the log, and chunks of sessions that leave then.
    var endsAfterWills: Set<[UInt8]> = []
    var heldLeavings: [[UInt8]: SessionChunk] = [:]
    /// By which claims of others sessions have left of which this node has seen to the wills.
    var settledClaims = SettledClaims()
    /// Sessions that are kept here while other nodes may still act by earlier claims.
    var unsettled: [[UInt8]: UnsettledSession] = [:]
    /// Sessions that nobody keeps any more.
    var left = LeftSessions()
    private(set) lazy var scan = SessionScan(node: node, on: connection, give: { [unowned self] in consider($0) })
    /// From which claim on what a shard has of a session to be assumed counts; `UInt64.max` for none.
    var adoptions: [[UInt8]: UInt64] = [:]
    /// Adopted sessions of which a shard is to say whether it has them.
    var awaitingShards: [[UInt8]: SessionRecord] = [:]
    var leftNews: [LeftNews] = []
    /// The sessions of which shards have asked whose they are.
    var woken: [[UInt8]: Waking] = [:]

    /// The claim by which a shard has a session, and whether its client has stayed.
    struct Waking {
        let epoch: UInt64
        let isConnected: Bool
    }

    init(
        _ plan: ClusterPlan, _ incarnations: NodeIncarnations, on loop: ShardLoop, _ connection: NATSConnection, log: any ReadLog,
        context: any GatewayContext
    ) {
        (self.plan, self.incarnations, self.loop, self.connection) = (plan, incarnations, loop, connection)
        self.context = context
        space = SubjectSpace(cluster: plan.name)
        placement = loop.shard.placement
        // A node that was started again knows nothing of what its earlier incarnation has offered.
        lastOffer = (incarnations.current.rawValue & 0xffff_ffff) << 28
        replay = LogReplay(
            plan, incarnations, on: loop, connection, log: log,
            report: { [log = loop.log, name = plan.name] in log.write(.error, "Cluster \(name): \($0).") })
    }

    var node: NodeID { incarnations.current }

    var now: UInt64 { loop.events.nowMilliseconds }

    /// In milliseconds since 1970.
    var wallClock: UInt64 { context.wallClock }

    func log(_ level: LogTopics, _ text: String) { loop.log.write(level, "Cluster \(plan.name): \(text)") }

    static func name(_ session: [UInt8]) -> String { String(decoding: session, as: UTF8.self) }

    func shard(of session: [UInt8]) -> Int? { EncodedString(session).map { placement.shard(of: $0) } }

    func post(_ message: FromCluster, to shard: Int) { context.post(.shard(message), to: shard) }

    // MARK: The loop

    var nextDeadline: UInt64? {
        let isMoving = !visits.isEmpty || !unsettled.isEmpty || !departures.isEmpty || !drops.isEmpty || !endings.isEmpty
        let isBusy =
            isMoving || !awaited.isEmpty || !savesUnderWay.isEmpty || !savesWaiting.isEmpty || !willJobs.isEmpty
            || !leftNews.isEmpty
        // With a lease it is looked now and then whether something is left.
        let looksForLeft = owner == nil ? nil : left.isEmpty && !scan.isReading ? max(ticksAt, scan.beginsAt) : ticksAt
        return [replay.nextDeadline, scan.nextDeadline, isBusy ? ticksAt : looksForLeft].compactMap { $0 }.min()
    }

    func advance(now: UInt64) {
        replay.advance(now: now)
        scan.advance(now: now)
        guard now >= ticksAt else { return }
        ticksAt = now + Limits.sessionTickMilliseconds
        takeRefused()
        owner?.tick(now: now, self)
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
        for (session, found) in endings { end(session, found) }
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
        endWillRequests()
        (nodeMessages, messagesUnderWay) = ([:], [])
        for session in visits.keys {
            guard case .fetching(var fetch) = visits[session]?.stage, fetch.isLast == nil else { continue }
            fetch.asksAt = now
            visits[session]?.stage = .fetching(fetch)
        }
    }

    // MARK: The lease

    /// Takes the list of the nodes that hold a lease, by all entries up to a number; `me` is this one, if it holds one.
    func live(_ nodes: [NodeID], through sequence: UInt64, me: SessionRecord.Owner?) {
        let stores = Set(nodes.map(\.store))
        for gone in live where !stores.contains(gone.store) {
            missedSince[gone.store] = now
            scan.begin(at: now)
        }
        for store in stores { missedSince[store] = nil }
        live = Set(nodes)
        if owner == nil, let me {
            owner = SessionOwnership(me)
            scan.begin(at: now)
            owner?.live(live, through: sequence, self)
            for session in visits.keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) { connect(session) }
            // Their clients may have stayed.
            if plan.detached == .local { for shard in loop.loops.indices { post(.leaseBegins, to: shard) } }
        } else {
            owner?.live(live, through: sequence, self)
        }
    }

    /// Stops all sessions, because this node's lease has ended.
    func leaseEnded() {
        guard owner != nil else { return }
        isFencing = true
        owner?.fence(self)
        isFencing = false
        owner = nil
        drops = []
        (endsAfterWills, heldLeavings, unsettled) = ([], [:], [:])
        forgetWills()
        forgetLeft()
        endSaves()
        for (session, visit) in visits {
            replay.forget(session)
            fail(session, visit, "the cluster cannot be reached")
        }
        visits = [:]
        guard plan.detached == .refuse else { return }
        log(.warning, "this node's lease has expired: its clients are disconnected, because other nodes may serve them now.")
        for shard in loop.loops.indices { post(.fenceClients("the cluster cannot be reached"), to: shard) }
    }

    // MARK: The shards

    /// Takes what a shard has to tell of sessions; false if it is about something else.
    @discardableResult
    func received(_ note: ToCluster, from shard: Int) -> Bool {
        switch note {
        case .claim(let claim): claimed(claim, by: shard)
        case .leaving(let session, let piece): leaving(session, piece)
        case .arrived(let session, let number): arrived(session, number)
        case .illegible(let session): illegible(session)
        case .lacksLog(let session): context.post(.sessionLacksLog(session), to: shard)
        case .restored(let session): visits[session] = nil
        case .sessionEnded(let session): ended(session)
        case .saves(let saved): save(saved)
        case .will(let session, let will): due(will, of: session, from: shard)
        case .willEnds(let session, let name): endedWills.insert(WillName(name), of: session)
        case .assumed(let session, let isHere, let will): assumed(session, isHere: isHere, will.map { WillName($0) })
        case .wakes(let session, let epoch, let isConnected):
            wakes(session, Waking(epoch: epoch, isConnected: isConnected))
        case .interest, .group, .fence, .messages, .retained, .swept, .staleChanges: return false
        }
        return true
    }

    // MARK: The records

    func answered(_ token: UInt64, _ answer: NATSAnswer) -> Bool {
        if Self.isWill(token) {
            willAnswered(token, answer)
            return true
        }
        if Self.isMessage(token) {
            messageAnswered(token, answer)
            return true
        }
        return records.answered(token, answer) { take($0) }
    }

    private func take(_ answer: SessionRecords.Answer) {
        switch answer {
        case .found(let session, let record, let sequence, let ended):
            if endings[session] != nil {
                guard let record, record.owners[0].node.store == node.store else {
                    endings[session] = nil
                    endedWills.keep([], of: session)
                    return
                }
                endings[session] = .some((record.epoch, sequence))
                return records.remove(session, epoch: record.epoch, expecting: sequence)
            }
            recordFound(session, record)
            // What this claim has written itself says nothing of who had the session before.
            if visits[session] != nil, visits[session]?.found == nil || record?.owners[0].node != node {
                recordFound(record, by: session)
            }
            owner?.found(session, record, at: sequence, ended: ended, now: now, self)
        case .written(let session, let number, let answer): owner?.written(session, number: number, answer, now: now, self)
        case .illegible(let session, let words): if let visit = visits[session] { giveUp(session, visit, words) }
        case .removed(let session):
            endings[session] = nil
            endedWills.keep([], of: session)
        case .notRemoved: return
        }
    }

    /// Takes the record of a session whose client has come, before this node has claimed it.
    func recordFound(_ record: SessionRecord?, by session: [UInt8]) {
        visits[session]?.found = record
        visits[session]?.previous = record
        // Its time is over: the client begins a new one. [MQTT-3.1.2-23 v5]
        if record?.hasEnded(now: wallClock) == true { visits[session]?.beginsAnew() }
    }

    /// The node that may have what is newest of a session, and is away; nil for none.
    func missing(_ visit: SessionVisit) -> NodeID? { visit.claim.cleanStart ? nil : gone(visit) }

    /// The node that may have what is newest of a session and is away, whether the client wants the session or not; nil
    /// for none.
    func gone(_ visit: SessionVisit) -> NodeID? {
        guard let found = visit.found, found.expiryInterval > 0 else { return nil }
        // Of the others each has answered.
        let gone = found.owners.filter { $0.node.store != node.store && visit.offers[$0.node.store] == nil }
        let newest = max(visit.source?.offer.epoch ?? 0, visit.claim.hasSession ? visit.claim.epoch : 0)
        return newest < found.epoch ? gone.first?.node : nil
    }

    /// Whether clients wait for a node that is missing: it may be back soon.
    func isAwaited(_ missing: NodeID) -> Bool {
        let since = missedSince[missing.store] ?? now
        missedSince[missing.store] = since
        return now < since + plan.sessionWaitMilliseconds
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
    private func awaitedUntil(_ store: UInt32) -> UInt64 { (missedSince[store] ?? now) + plan.sessionWaitMilliseconds }

    private func clockTime(_ time: UInt64) -> String { Timestamp.text(wallClock &+ time &- now) }

    /// Logs how many clients have been refused meanwhile.
    func logAwaited() {
        for (node, count) in awaited.due(now: now) {
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
        let cleanStart = visits[session]?.claim.cleanStart ?? (unsettled[session] != nil)
        send(SessionMessage(.ask(cleanStart: cleanStart), node: self.node, epoch: epoch, identifier: session), to: node)
    }

    func restored(_ session: [UInt8], _ record: SessionRecord, isAssumed: Bool) {
        if isAssumed {
            leftNews.append(.taken(session, record))
            ticksAt = now
            return
        }
        guard visits[session] != nil else { return }
        visits[session]?.record = record
        visits[session]?.progressAt = now
        settled(session)
    }

    func stop(_ session: [UInt8]) {
        guard !isFencing else { return }
        // A session that is looked after here for its client, who has come, is not another node's.
        if left.isHandling(session) {
            left.notTaken(session)
            (adoptions[session], awaitingShards[session]) = (nil, nil)
        }
        if !isConnecting { overtake(session) }
    }

    /// Refuses the client that waits here: it came before one that has come to another node.
    func overtake(_ session: [UInt8]) {
        replay.forget(session)
        guard let visit = visits.removeValue(forKey: session) else { return }
        let words = "another connection uses this Client Identifier on another node of the cluster."
        post(.claimFailed(session, words, isTold: true), to: visit.shard)
    }

    func answer(_ session: [UInt8], to node: NodeID, epoch: UInt64) {
        guard let asker else { return }
        depart(session, to: node, epoch: epoch, asker.reply, cleanStart: asker.cleanStart)
    }
}

/// Clients that come for their sessions, and sessions that are over.
extension SessionCoordinator {
    func claimed(_ claim: SessionClaim, by shard: Int) {
        let session = claim.identifier
        endings[session] = nil
        endsAfterWills.remove(session)
        guard visits[session] == nil else {
            // What is under way serves the newer client; what the shard has by now is a part of what is under way.
            visits[session]?.claim.cleanStart = claim.cleanStart
            visits[session]?.isForNobody = false
            visits[session]?.progressAt = now
            return
        }
        let isKept = owner?.keeps(session) == true && !left.isHandling(session)
        let isOver = unsettled[session]?.isOver == true && owner?.epoch(of: session) == unsettled[session]?.epoch
        unsettled[session]?.isOver = false
        // What it publishes from now on comes behind its earlier connection's will.
        if isKept, !isOver, !publishesWill(of: session), let epoch = owner?.epoch(of: session) {
            return post(.sessionClaimed(session, .here, epoch: epoch), to: shard)
        }
        ticksAt = min(ticksAt, now + Limits.sessionTickMilliseconds)
        visits[session] = SessionVisit(shard: shard, claim: claim, stage: .waiting, now: now)
        // A session that is looked after here has a client again.
        if let record = left.record(of: session) ?? awaitingShards[session] ?? (isKept ? owner?.record(of: session) : nil) {
            recordFound(record, by: session)
        }
        if isOver { visits[session]?.beginsAnew() }
        // The shard gives it anew by the new claim.
        if isKept { (savesUnderWay[session], savesWaiting[session]) = (nil, nil) }
        left.notTaken(session)
        (adoptions[session], awaitingShards[session]) = (nil, nil)
        connect(session)
    }

    func connect(_ session: [UInt8]) {
        guard owner != nil, let claim = visits[session]?.claim, case .waiting = visits[session]?.stage else { return }
        visits[session]?.stage = .claiming
        // A session that begins once more has higher numbers than what may be left of it somewhere.
        let terms = SessionOwnership.Terms(expiryInterval: claim.expiryInterval, firstEpoch: wallClock)
        isConnecting = true
        owner?.connect(session, terms, now: now, self)
        isConnecting = false
    }

    /// Removes the record of a session that is over, if it is this node's.
    func ended(_ session: [UInt8]) {
        guard visits[session] == nil else { return }
        drops.removeAll { $0.session == session }
        if publishesWill(of: session) {
            endsAfterWills.insert(session)
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
        endings[session] = .some(found)
        end(session, found)
    }

    func end(_ session: [UInt8], _ found: (epoch: UInt64, number: UInt64)?) {
        guard connection.isReady else { return }
        if let found { records.remove(session, epoch: found.epoch, expecting: found.number) } else { records.read(session) }
    }
}
