import BrokerCore
import BrokerModel
package import Cluster
import Configuration
import NATSClient
import Platform
package import ServerLoops
import Transports

/// One node's part in its cluster: brings together the shards, the bus's decisions, the leases and the connection to
/// the servers.
///
///     shards ── ToCluster ──► ClusterRunner ──► ClusterBus ──► ClusterSink ──► NATSConnection
///     shard ◄── ClusterSink ◄── ClusterBus ◄── ClusterRunner ◄── NATSConnection
///
/// Belongs to the thread of the first loop.
package final class ClusterRunner: ClusterParticipant {
    let plan: ClusterPlan
    unowned let loop: ShardLoop
    let incarnations: NodeIncarnations
    let space: SubjectSpace
    // Not lazy: a value that is made late is copied for each call.
    var bus: ClusterBus
    var leases: NodeLeases
    lazy var connection = NATSConnection(
        plan.settings, tls: plan.credentials.tls, on: loop.events, workspace: loop.workspace, resolver: NameResolver(),
        listener: self,
        post: { [mailbox = loop.mailbox] in mailbox.post(.gateway(.nats($0))) })
    /// nil where nothing is logged.
    var log: ClusterLog?
    /// nil where sessions do not move: without a store.
    var sessions: SessionCoordinator?
    /// nil where nothing is logged.
    var dispatch: DispatchCoordinator?
    lazy var access = AccessBucket(
        plan, node: incarnations.current, connection, report: { [control = loop.control] in control?.post(.access($0)) },
        complain: { [unowned self] in report($0) })
    lazy var members = ClusterMembers(node: incarnations.current, space: space, connection: connection)
    var topics = ClusterTopics()
    lazy var sink = ClusterSink(connection, shard: loop.shard)
    lazy var retained = RetainedRunner(
        plan, node: incarnations.current, space: space, on: loop, connection, refusals, context: self)
    var barriers: InterestBarriers
    var receipts = GroupReceipts()
    var others: Set<NodeID> = []
    lazy var refusals = StreamRefusals(plan.name, on: loop, changed: { [unowned self] in report() })
    /// The change to another incarnation, while it is under way.
    var change: IncarnationChange?
    var troubles = ClusterTroubles()
    var logged = LoggedOnce()
    var watches = NodeWatches()
    /// Whether the shards were told last that the cluster is away.
    var isAway = true

    package init(_ plan: ClusterPlan, node: NodeID, on loop: ShardLoop) {
        (self.plan, incarnations, self.loop) = (plan, NodeIncarnations(node), loop)
        space = SubjectSpace(cluster: plan.name)
        bus = ClusterBus(node: node, space: space, worksDetached: plan.detached == .local, readsLog: plan.hasStore)
        leases = NodeLeases(plan, node: node)
        barriers = InterestBarriers(shardCount: loop.shard.placement.shardCount)
        guard plan.hasStore else { return }
        let log = ClusterLog(plan, incarnations, on: loop, connection: connection, refusals, context: self)
        let sessions = SessionCoordinator(plan, incarnations, on: loop, connection, log: log, context: self)
        (self.log, self.sessions) = (log, sessions)
        dispatch = DispatchCoordinator(incarnations, on: loop, log: log, replay: sessions.replay)
    }

    var now: UInt64 { loop.events.nowMilliseconds }

    // MARK: The loop

    package func start() {
        loop.log.write(.notice, plan.line)
        connection.start()
    }

    /// Says goodbye to the other nodes, and sends what is to be sent.
    package func stop() {
        members.sayGoodbye()
        // The lease of a node with sessions ends by itself: until then others wait for it to be back with them.
        if sessions == nil, let request = leases.goodbye {
            try? connection.publish(request.subject, payload: request.payload)
        }
        connection.stop()
    }

    package var nextDeadline: UInt64? {
        [
            connection.nextDeadline, bus.wakesAt, leases.dueAt, leases.endsAt, log?.nextDeadline, access.nextDeadline,
            retained.nextDeadline, sessions?.nextDeadline,
        ].compactMap { $0 }.min()
    }

    package func advance(now: UInt64) {
        guard let nextDeadline, nextDeadline <= now else { return }
        if leases.hasEnded(now: now) || log?.isOver == true { endIncarnation() }
        connection.advance(now: now)
        bus.tick(now: now, sink)
        log?.advance(now: now)
        access.advance()
        retained.advance()
        sessions?.advance(now: now)
        renew()
        settle()
    }

    /// Sends what the turn has brought.
    package func endTurn() {
        connection.flush()
        guard let (byteCount, bytesMax) = sink.tooLarge else { return }
        sink.tooLarge = nil
        if let loggedAt = logged.tooLargeAt, now < loggedAt + Self.tooLargeMilliseconds { return }
        logged.tooLargeAt = now
        log(
            .warning,
            "a message of \(byteCount) bytes is larger than the servers' max_payload (\(bytesMax)): it is not sent to other nodes."
        )
    }

    package func received(_ message: ToGateway) {
        switch message {
        case .nats(let message): connection.received(message)
        case .shard(let shard, let message): received(message, from: shard)
        case .access(let order): access.received(order)
        case .report:
            report()
            sessions?.saveLogPositions()
            dispatch?.ask()
        case .summary(let figures): record(figures)
        case .unsynced(let reason):
            troubles.unsynced = reason
            if let reason { report(reason) }
            settle()
        case .credentials(let credentials):
            connection.renew(login: credentials.login, requiresTLS: credentials.requiresTLS, tls: credentials.tls)
        case .ask(let token, let question):
            members.ask(question) { [control = loop.control] in control?.post(.clusterAnswered(token: token, $0)) }
        case .answer(let number, let answer): members.answer(number, answer)
        case .groupsTaken(let token): if let receipt = receipts.taken(token) { bus.learned(receipt, sink) }
        case .dispatched(let shard, let dispatched): dispatch?.received(dispatched, from: shard)
        case .recordsTaken(let byteCount, let illegible):
            log?.countIllegible(illegible)
            log?.taken(byteCount)
        case .spans(let shard, let session, let spans): sessions?.replay.add(session, shard: shard, spans)
        case .recordsReplayed(let byteCount): sessions?.replay.taken(byteCount)
        case .incarnationEnded(let stored):
            guard change?.ended(stored) == true else { return }
            loop.postToAll(.incarnationBegins(after: change?.stored))
        case .incarnationBegun(let shard, let earlierDispatches): incarnationBegun(by: shard, earlierDispatches)
        }
    }

    // MARK: The shards

    func received(_ message: ToCluster, from shard: Int) {
        switch message {
        case .interest(let filter, true):
            if let ticket = bus.want(filter, now: now, sink) { barriers.record(ticket, by: shard) }
        case .interest(let filter, false): bus.release(filter, sink)
        case .group(let shareName, let filter, let connected, let away, let isSubscribed):
            let ticket = bus.members(
                of: ShareGroupName(shareName: shareName, filter: filter), part: shard,
                GroupSize(connected: connected, away: away), now: now, sink)
            if isSubscribed, let ticket { barriers.record(ticket, by: shard) }
        case .fence(let token):
            barriers.begin(token, by: shard)
        case .messages(let batch):
            let now = loop.shard.now
            if batch.logSerial != 0, change?.isWaiting(for: shard) == true {
                log?.refuse(batch.logSerial, of: shard)
                break
            }
            batch.forEachMessage { message in
                if let expiresAt = message.expiresAt, expiresAt <= now { return }
                bus.collect(message, now: now, sink)
            }
            bus.sendCollected(sink)
            if batch.logSerial != 0 { log?.append(batch.logged, serial: batch.logSerial, of: shard) }
        case .retained(let batch, let serial): retained.received(batch, serial: serial, from: shard)
        case .swept(let batch, let next, let round): retained.swept(batch, next: next, round: round)
        case .staleChanges: retained.foundStale()
        case .claim, .leaving, .arrived, .illegible, .lacksLog, .restored, .sessionEnded, .saves, .will, .willEnds, .assumed,
            .wakes:
            sessions?.received(message)
        }
        settle()
    }

    /// Whether a SUBACK that waits for a ticket may leave: all nodes know of the interest, and the retained messages
    /// are here. Without a connection nobody can say what they are.
    func isPassing(_ ticket: UInt64) -> Bool { ticket <= sink.confirmed && (isCurrent || troubles.away != nil) }

    /// Whether what is retained is here, and it is known from where on the log is read.
    var isCurrent: Bool { retained.isCurrent && log?.trouble == nil }

    var isCarrying: Bool { bus.state == .open && isCurrent && troubles.unsynced == nil }

    /// Tells all loops of other nodes' members of share groups. The node that has told of them is answered when all
    /// know.
    func sendGroups() {
        while !sink.learned.isEmpty {
            let news = sink.learned.removeFirst()
            let token = receipts.begin(news.receipt, loops: loop.loops.count)
            loop.postToAll(.groups(news.news, token: token))
        }
    }

    /// Releases what waits for something that has happened in this turn.
    func settle() {
        sendGroups()
        for barrier in barriers.take(where: isPassing) {
            loop.shard.passedFence(barrier.token, of: barrier.shard)
        }
        // Which nodes may forget sessions that are here depends on it.
        if barriers.isNews(sink.confirmed) { sessions?.sendDrops() }
        guard isAway == isCarrying else { return }
        isAway.toggle()
        if !isAway {
            let count = livingOthers
            log(.notice, "ready, with \(count) other \(count == 1 ? "node" : "nodes").")
            logged.reasons = []
        }
        loop.postToAll(.isAway(isAway))
        report()
    }

    private static let tooLargeMilliseconds: UInt64 = 60_000
}

/// A node whose lease has ended goes on as another one: see `NodeIncarnations`.
extension ClusterRunner {
    /// Ends the incarnation, because its lease has ended and others act for it. The node goes on as another incarnation
    /// when all loops have stopped acting for the last one. Where nothing is logged, there is nothing that others would
    /// do for it.
    func endIncarnation() {
        // Who does not stand in the next list may be about to get a lease, as this node is: nobody knows that it is
        // gone.
        others = []
        guard dispatch != nil else { return leases.beginAgain() }
        sessions?.leaseEnded()
        connection.abandon()
        wentAway(withRefusals("this node's lease has expired"))
        incarnations.begin()
        bus.begin(as: incarnations.current)
        leases.begin(as: incarnations.current)
        members.begin(as: incarnations.current, now: now)
        retained.begin(as: incarnations.current)
        change = IncarnationChange(loops: loop.loops.count)
        log?.beginIncarnation()
        loop.postToAll(.incarnationEnds(next: incarnations.current))
    }

    func incarnationBegun(by shard: Int, _ earlierDispatches: StoredDispatches?) {
        guard let earlierDispatchesByLoop = change?.begun(shard, earlierDispatches) else { return }
        change = nil
        dispatch?.beginIncarnation(earlierDispatchesByLoop)
        connection.start()
    }
}

/// How the cluster is, for the control thread, the other nodes and the log.
extension ClusterRunner {
    /// Tells the control thread how the cluster is, and who subscribes to that.
    func report() {
        members.settle(now: now)
        for (name, nodes) in watches.namesakes.look(members.table.namesakes, now: now) {
            let identifiers = nodes.map(\.description).joined(separator: ", ")
            log(.warning, "\(nodes.count) nodes are called \(name) (\(identifiers)): each needs a martlet_node_name of its own.")
        }
        logMixedStores()
        let awaited = isAway ? trouble : nil
        // What failed has been told.
        if let reason = watches.awaiting.look(awaited, now: now), !logged.reasons.contains(reason) {
            report("not ready yet: \(reason)")
        }
        for (node, isSilent) in watches.silences.look(members.table.members) { report(node, isSilent: isSilent) }
        for (isFar, words) in members.clockNews() { log(isFar ? .warning : .notice, words) }
        let status = status
        loop.control?.post(.cluster(status))
        guard let interval = plan.systemTopicMilliseconds else { return }
        for (topic, value) in topics.changes(status, now: now, every: interval) { loop.shard.publishSystemTopic(topic, value) }
    }

    private func report(_ node: NodeID, isSilent: Bool) {
        let name = members.table.shownName(of: node)
        guard isSilent else { return log(.notice, "node \(name) is up again.") }
        let clients = "clients that connect here and have their session there wait until it is back, or its lease has expired"
        log(.warning, "node \(name) is silent\(sessions == nil ? "" : "; \(clients)").")
    }

    private func logMixedStores() {
        for member in members.table.others where member.state == .up {
            guard let summary = member.summary, summary.hasStore != plan.hasStore, logged.stores.count < Limits.clusterReasonsMax,
                logged.stores.insert(member.node.store).inserted
            else { continue }
            let (with, without) = plan.hasStore ? ("this node", summary.name) : (summary.name, "this node")
            log(
                .warning,
                "\(with) has a store, and \(without) has none: what \(without) acknowledges is lost with it, and no session goes there. "
                    + "Write persistence true into the configuration of all nodes, or of none.")
        }
    }

    /// Completes this node's summary with what the gateway knows, and sends it.
    func record(_ figures: NodeSummary) {
        var summary = figures
        (summary.node, summary.name, summary.version) = (incarnations.current, plan.nodeName, plan.settings.programVersion)
        (summary.address, summary.hasStore) = (plan.address ?? "", plan.hasStore)
        summary.trouble = trouble ?? troubles.recentComplaint(now: now) ?? figures.trouble
        summary.server = connection.session.info.map { "\($0.serverName) \($0.version)" } ?? ""
        members.record(summary, now: now)
        report()
    }

    /// How many other nodes are there; leases of earlier incarnations of these last for a while.
    var livingOthers: Int { members.table.othersCount(among: others) }

    var status: ClusterStatus {
        var status = ClusterStatus(name: plan.name, trouble: trouble)
        status.server = connection.session.info.map { "\($0.serverName) \($0.version)" }
        status.others = livingOthers
        let counters = bus.counters
        (status.messagesOut, status.messagesIn, status.copies) = (counters.sent, counters.received, counters.copies)
        status.dropped = counters.dropped + sink.refused + retained.refused
        status.illegible = counters.illegible + sink.illegible + members.illegible + retained.illegible
        (status.members, status.sharedNames) = (members.members, members.table.namesakes.map(\.name))
        status.retainedWaiting = retained.waitingCount
        status.losses = troubles.losses
        // A node that carries nothing asks nothing of them, and they do not say it again.
        status.refusingStreams = refusals.count(isCurrent: isCarrying)
        status.refusal = refusals.words(isCurrent: isCarrying)
        if let counters = sessions?.counters {
            (status.sessionsTaken, status.sessionsGiven) = (counters.taken, counters.given)
            (status.sessionsLost, status.claimsRefused) = (counters.lost, counters.refused)
            (status.sessionsRestored, status.sessionsExpired) = (counters.restored, counters.leftEnded)
            status.willsOfOthers = counters.leftWills
        }
        if let counters = log?.counters {
            (status.logWritten, status.logFailed) = (counters.written, counters.failed)
            (status.logRead, status.logLost) = (counters.records, counters.lost)
            (status.logReread, status.positionsTold) = (sessions?.replay.records ?? 0, counters.progress)
            status.illegible += counters.illegible
        }
        return status
    }

    /// Why nothing is carried, or not all of it; nil if it is.
    var trouble: String? {
        // While servers elect who leads the log, all else goes on. What is missing, somebody has deleted.
        if isCarrying { return troubles.recentRefusal(now: now) ?? refusals.words(isCurrent: true) ?? log?.loss }
        if let reason = troubles.away { return reason }
        if let reason = troubles.lease { return withRefusals(reason) }
        if let reason = troubles.unsynced { return reason }
        if let trouble = retained.trouble ?? log?.trouble { return trouble }
        if bus.state == .open { return "the retained messages are being read (stream \(retained.streamName))" }
        let missing = bus.waitingFor
        guard !missing.isEmpty else { return "discovering the other nodes" }
        let names =
            missing.prefix(Limits.namedNodesMax).map { members.table.shownName(of: $0) }
            + (missing.count > Limits.namedNodesMax ? ["…"] : [])
        return
            "\(missing.count) other \(missing.count == 1 ? "node has" : "nodes have") not answered yet: \(names.joined(separator: ", "))"
    }

    /// A reason, with what is behind it where the servers have no room: they may not say so again.
    func withRefusals(_ reason: String) -> String {
        refusals.words(isCurrent: false).map { $0 == reason ? reason : "\(reason); \($0)" } ?? reason
    }

    func report(_ reason: String) {
        if logged.reasons.count < Limits.clusterReasonsMax, logged.reasons.insert(reason).inserted { log(.warning, "\(reason).") }
    }

    func log(_ level: LogTopics, _ text: String) { loop.log.write(level, "Cluster \(plan.name): \(text)") }
}

/// The reasons why a node carries nothing, or not all; nil where there is none.
struct ClusterTroubles {
    /// Why there is no connection.
    var away: String? = "no server has answered yet"
    /// How often a connection was lost.
    private(set) var losses: UInt64 = 0
    /// Why the list of the other nodes cannot be read.
    var lease: String?
    /// Why the servers do not do what the configuration asks of them.
    var unsynced: String?
    /// The last complaint of the servers about something they did not understand, in their words, and when it came.
    private var complaint: (words: String, at: UInt64)?
    /// The last permission that this node lacked on this connection, in the servers' words, and when.
    private var refusal: (words: String, at: UInt64)?

    /// Takes note that the connection is gone, or has not come about.
    mutating func wentAway(_ reason: String) {
        if away == nil { losses += 1 }
        (away, refusal) = (reason, nil)
    }

    mutating func complained(_ words: String, isRefusal: Bool, now: UInt64) {
        if isRefusal { refusal = (words, now) } else { complaint = (words, now) }
    }

    /// The servers' complaint about something they did not understand, if it is recent.
    func recentComplaint(now: UInt64) -> String? {
        complaint.flatMap { now < $0.at + Limits.clusterComplaintMilliseconds ? $0.words : nil }
    }

    /// The permission that this node lacks, if that is recent. Servers say only what they refuse: what has not been
    /// refused for a while is allowed, or was not asked for again.
    func recentRefusal(now: UInt64) -> String? {
        refusal.flatMap { now < $0.at + Limits.clusterRefusalMilliseconds ? $0.words : nil }
    }
}

/// What was logged of the cluster, so that it is logged once.
struct LoggedOnce {
    /// The reasons since messages flowed last.
    var reasons: Set<String> = []
    /// The streams with another number of replicas than is wanted.
    var replicas: Set<String> = []
    /// The nodes, by store, that have a store where this one has none, or the other way round.
    var stores: Set<UInt32> = []
    /// When it was logged last that a message was too large for the servers.
    var tooLargeAt: UInt64?
}

/// What is looked at each time the node reports how the cluster is.
struct NodeWatches {
    var namesakes = NamesakeWatch()
    var awaiting = AwaitedReason()
    var silences = SilenceWatch()
}

/// SUBACKs of the shards that wait until all nodes know what was subscribed to before.
struct InterestBarriers {
    /// The ticket of the newest interest, by shard.
    private var tickets: [UInt64]
    private var waiting: [(ticket: UInt64, shard: Int, token: UInt64)] = []
    private var confirmed: UInt64 = 0

    init(shardCount: Int) { tickets = Array(repeating: 0, count: shardCount) }

    /// Takes note that a shard has interest that is in force with this ticket.
    mutating func record(_ ticket: UInt64, by shard: Int) { tickets[shard] = max(tickets[shard], ticket) }

    /// Lets a shard wait until all its interest so far is in force.
    mutating func begin(_ token: UInt64, by shard: Int) { waiting.append((tickets[shard], shard, token)) }

    /// Takes out those whose ticket may pass, in their order.
    mutating func take(where mayPass: (UInt64) -> Bool) -> [(shard: Int, token: UInt64)] {
        guard !waiting.isEmpty else { return [] }
        let passing = waiting.filter { mayPass($0.ticket) }
        waiting.removeAll { mayPass($0.ticket) }
        return passing.map { ($0.shard, $0.token) }
    }

    /// Takes note that everything up to a ticket is in force; returns whether that is another one than the last time.
    mutating func isNews(_ ticket: UInt64) -> Bool {
        defer { confirmed = ticket }
        return ticket != confirmed
    }
}

/// The reason for which a node does not carry messages yet. In most cases it is over in a moment; a reason that lasts
/// longer is logged.
struct AwaitedReason {
    /// Since when nothing is carried.
    private var since: UInt64?

    /// Returns the reason when no message has been carried for a while; to be called every second or so.
    ///
    /// - Parameters:
    ///   - reason: why nothing is carried now; nil if messages are.
    ///   - now: milliseconds of a clock that does not go back.
    mutating func look(_ reason: String?, now: UInt64) -> String? {
        guard let reason else {
            since = nil
            return nil
        }
        let first = since ?? now
        since = first
        return now - min(now, first) >= Limits.clusterAwaitedMilliseconds ? reason : nil
    }
}

/// What a node tells of its cluster below `$SYS/broker/cluster/`: each value when it has changed.
struct ClusterTopics {
    private var published: [String: String] = [:]
    private var publishedAt: UInt64?

    /// The topics whose value has changed; none before an interval has passed, in milliseconds.
    mutating func changes(_ status: ClusterStatus, now: UInt64, every interval: UInt64) -> [(topic: String, value: String)] {
        if let publishedAt, now < publishedAt + interval { return [] }
        publishedAt = now
        let totals = ClusterTotals(status.members)
        let values: [(String, String)] = [
            ("name", status.name), ("state", status.trouble == nil ? "ok" : "detached"), ("nodes/up", "\(totals.nodesUp)"),
            ("nodes/silent", "\(totals.nodesSilent)"), ("nodes/gone", "\(totals.nodesGone)"),
            ("nodes/draining", "\(totals.nodesDraining)"), ("clients/connected", "\(totals.clientsConnected)"),
            ("clients/total", "\(totals.sessions)"), ("subscriptions/count", "\(totals.subscriptions)"),
            ("messages/stored", "\(totals.storedMessages)"), ("messages/received/second", "\(totals.receivedRate)"),
            ("messages/sent/second", "\(totals.sentRate)"), ("messages/dropped", "\(totals.dropped)"),
        ]
        return values.compactMap { name, value in
            guard published.updateValue(value, forKey: name) != value else { return nil }
            return ("$SYS/broker/cluster/" + name, value)
        }
    }
}

extension Limits {
    /// How long a node of a cluster carries nothing until it is logged what it waits for, in milliseconds.
    static let clusterAwaitedMilliseconds: UInt64 = 5000

    /// How many different reasons why a cluster carries nothing are logged until it carries messages again. Bytes:
    /// 1,000 each at most.
    static let clusterReasonsMax = 100

    /// How many of the nodes that have not answered are named. Bytes: 255 each at most.
    static let namedNodesMax = 3

    /// How long a node shows what its servers have not understood, in milliseconds.
    static let clusterComplaintMilliseconds: UInt64 = 30_000

    /// How long a node is not ready after its servers have refused it something for want of a permission, in
    /// milliseconds: longer than it takes to ask again for what is asked for in any case, such as a subscription.
    static let clusterRefusalMilliseconds: UInt64 = 60_000
}
