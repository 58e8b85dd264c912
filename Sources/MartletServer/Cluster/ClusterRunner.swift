import BrokerCore
import Cluster
import Configuration
import EpollLoop
import MQTTCodec
import NATSClient
import Platform
import Transports

/// One node's part in its cluster: brings together the shards, the bus lane's decisions, the leases and the connection to the servers.
///
///     shards ── ClusterNote ──► ClusterRunner ──► BusLane ──► ClusterSink ──► NATSConnection
///     shard ◄── ClusterSink ◄── BusLane ◄── ClusterRunner ◄── NATSConnection
///
/// Belongs to the thread of the first loop.
final class ClusterRunner: NATSListener {
    private let plan: ClusterPlan
    private unowned let loop: ShardLoop
    private let runs: NodeRuns
    private lazy var space = SubjectSpace(cluster: plan.name)
    private lazy var lane = BusLane(
        node: runs.current, space: space, worksDetached: plan.detached == .local, readsLog: log != nil)
    private lazy var leases = NodeLeases(plan, node: runs.current)
    private lazy var connection = NATSConnection(
        plan.settings, tls: plan.tls, on: loop.events, workspace: loop.workspace, resolver: NameResolver(), listener: self,
        post: { [mailbox = loop.mailbox] in mailbox.post(.cluster(.nats($0))) })
    /// nil where nothing is logged.
    private var log: LogLane?
    /// nil where sessions do not move: without a store.
    private var sessions: SessionDesk?
    /// nil where nothing is logged.
    private var dealing: DealingDesk?
    private lazy var access = AccessBucket(
        plan, node: runs.current, connection, tell: { [control = loop.control] in control?.post(.access($0)) },
        complain: { [unowned self] in tell($0) })
    private lazy var members = ClusterMembers(node: runs.current, space: space, connection: connection)
    private var topics = ClusterTopics()
    private var topicsToldAt: UInt64?
    private lazy var sink = ClusterSink(connection, shard: loop.shard, runs)
    private lazy var retained = RetainedRunner(
        plan, node: runs.current, space: SubjectSpace(cluster: plan.name), on: loop, connection,
        tell: { [unowned self] in tell($0) })
    /// By shard: the ticket of the newest interest that it has told of.
    private var tickets: [UInt64]
    /// The barriers of SUBACKs that wait for a ticket.
    private var waiting: [(ticket: UInt64, shard: Int, token: UInt64)] = []
    /// What to say when so many more loops know of other nodes' members of share groups.
    private var learning: [UInt64: (receipt: GroupReceipt, missing: Int)] = [:]
    private var lastGroups: UInt64 = 0
    private var others: Set<NodeID> = []
    /// While another run begins.
    private var change: RunChange?
    /// Why there is no connection; nil if there is one.
    private var awayReason: String?
    /// Why the other nodes cannot be found out.
    private var leaseTrouble: String?
    /// What was logged since messages flowed last: what goes on is told once.
    private var toldReasons: Set<String> = []
    /// Why the servers do not do what the configuration asks of them.
    private var unsynced: String?
    private var losses: UInt64 = 0
    /// What the shards were told last.
    private var isAway = true
    private var tooLargeToldAt: UInt64?
    /// Up to which ticket it was looked which nodes may forget sessions that are here.
    private var dropsLookedAt: UInt64 = 0

    init(_ plan: ClusterPlan, node: NodeID, on loop: ShardLoop) {
        (self.plan, runs, self.loop) = (plan, NodeRuns(node), loop)
        tickets = Array(repeating: 0, count: loop.shard.placement.shardCount)
        awayReason = "no server has answered yet"
        if plan.logPartitions > 0 { log = LogLane(plan, runs, on: loop, connection: connection) }
        if plan.movesSessions { sessions = SessionDesk(plan, runs, on: loop, connection) }
        sessions?.lastTicket = { [unowned self] in lane.lastTicket }
        sessions?.isInForce = { [unowned self] in lane.isInForce($0) }
        guard let log, let sessions else { return }
        dealing = DealingDesk(runs, on: loop, log: log, replay: sessions.replay)
        sessions.readAhead = { [unowned self] will in
            will.withMessage { message in
                let changes = message.retain ? retained.changes(of: message.topic) : []
                return WillAhead(
                    log: log.place(of: message.publisher, message.topic),
                    retained: changes.isEmpty ? nil : (Array(message.topic), changes))
            } ?? WillAhead()
        }
        sessions.isAhead = { [unowned self] ahead in
            if let place = ahead.log, !log.hasPassed(place) { return true }
            return ahead.retained.map { retained.isOpen($0.changes, of: $0.topic) } ?? false
        }
    }

    private var now: UInt64 { loop.events.nowMilliseconds }

    // MARK: The loop

    func start() {
        loop.log.write(.notice, plan.line)
        connection.start()
    }

    /// Says goodbye to the other nodes, and sends what is to be sent.
    func stop() {
        members.sayGoodbye()
        // The lease of a node with sessions ends by itself: until then others wait for it to be back with them.
        if sessions == nil, let request = leases.farewell {
            try? connection.publish(request.subject, payload: request.payload)
        }
        connection.stop()
    }

    var nextDeadline: UInt64? {
        [
            connection.nextDeadline, lane.wakesAt, leases.dueAt, leases.endsAt, log?.nextDeadline, access.nextDeadline,
            retained.nextDeadline, sessions?.nextDeadline,
        ].compactMap { $0 }.min()
    }

    func advance(now: UInt64) {
        guard let nextDeadline, nextDeadline <= now else { return }
        if leases.hasEnded(now: now) || log?.isOver == true { endRun() }
        connection.advance(now: now)
        lane.tick(now: now, sink)
        log?.advance(now: now)
        access.advance(now: now)
        retained.advance()
        sessions?.advance(now: now)
        renew()
        settle()
    }

    /// Sends what the turn has brought.
    func endTurn() {
        connection.flush()
        guard let (byteCount, bytesMax) = sink.tooLarge else { return }
        sink.tooLarge = nil
        if let tooLargeToldAt, now < tooLargeToldAt + Self.tooLargeMilliseconds { return }
        tooLargeToldAt = now
        log(
            .warning,
            "a message of \(byteCount) bytes is larger than the servers take (max_payload \(bytesMax)): it is not carried to other nodes."
        )
    }

    func received(_ letter: ClusterLetter) {
        switch letter {
        case .nats(let letter): connection.received(letter)
        case .note(let shard, let note): received(note, from: shard)
        case .access(let order): access.received(order, now: now)
        case .report:
            report()
            sessions?.savePlaces()
            dealing?.ask()
        case .summary(let figures): note(figures)
        case .unsynced(let reason):
            unsynced = reason
            if let reason { tell(reason) }
            settle()
        case .ask(let token, let question):
            if let reports = members.ask(token, question) { loop.control?.post(.clusterAnswered(token: token, reports)) }
        case .answer(let number, let answer): members.answer(number, answer)
        case .groupsTaken(let token): groupsTaken(token)
        case .dealt(let shard, let dealt): dealing?.received(dealt, from: shard)
        case .recordsTaken(let byteCount, let illegible):
            log?.noteIllegible(illegible)
            log?.taken(byteCount)
        case .spans(let shard, let session, let spans): sessions?.replay.add(session, shard: shard, spans)
        case .recordsReplayed(let byteCount): sessions?.replay.taken(byteCount)
        case .runEnded(let stored):
            guard change?.ended(stored) == true else { return }
            for other in loop.loops { other.post(.beginRun(after: change?.stored), from: loop) }
        case .runBegun(let shard, let past): runBegun(by: shard, past)
        case .endRun, .beginRun, .isAway, .groups, .dealsFor, .dealAgain, .learnDealt, .forgetDealt, .past, .tellDealt, .logged,
            .logIsFull, .logBegins,
            .logIsCurrent, .record,
            .retainedBytes,
            .retainedIsFull, .retainedIsSafe, .lookForStaleChanges, .session:
            return
        }
    }

    // MARK: The shards

    func received(_ note: ClusterNote, from shard: Int) {
        switch note {
        case .interest(let filter, true):
            if let ticket = lane.want(filter, now: now, sink) { tickets[shard] = max(tickets[shard], ticket) }
        case .interest(let filter, false): lane.release(filter, sink)
        case .group(let shareName, let filter, let connected, let away, let isSubscribed):
            let ticket = lane.members(
                of: ShareGroupName(shareName: shareName, filter: filter), part: shard,
                GroupSize(connected: connected, away: away), now: now, sink)
            if isSubscribed, let ticket { tickets[shard] = max(tickets[shard], ticket) }
        case .fence(let token):
            let ticket = tickets[shard]
            if isPassing(ticket) { pass(token, to: shard) } else { waiting.append((ticket, shard, token)) }
        case .messages(let batch):
            let now = loop.shard.now
            if batch.logSerial != 0, change?.isWaiting(for: shard) == true {
                log?.refuse(batch.logSerial, of: shard)
                break
            }
            let token = batch.logSerial == 0 ? nil : log?.begin(batch.logSerial, of: shard)
            batch.forEachMessage { message in
                if let expiresAt = message.expiresAt, expiresAt <= now { return }
                var carried = BusMessage(
                    topic: message.topic, properties: message.properties, payload: message.payload, qos: message.qos,
                    retain: message.retain, millisecondsLeft: message.expiresAt.map { $0 - now })
                carried.isLogged = message.isLogged
                carried.publisher = message.publisher
                (carried.change, carried.origin) = (message.change.number, message.origin)
                if let dealing = message.dealing {
                    carried.shares = dealing.shares.map { GroupShare(node: NodeID($0.node), number: $0.number) }
                    carried.logShares = dealing.logged.map { LogShare(node: NodeID($0.node), group: $0.group, member: $0.member) }
                    (carried.hops, carried.nameBefore) = (dealing.hops, dealing.before.rawValue)
                }
                // What is passed on by way of the log alone is nobody's on the bus.
                if carried.hops == 0 || carried.logShares.isEmpty { _ = lane.publish(carried, sink) }
                if message.isLogged, let token { log?.append(carried, message.step, token: token) }
            }
            if let token { batch.forEachLoneStep { log?.append($0, token: token) } }
            if let token { log?.end(token) }
        case .retained(let batch, let serial): retained.received(batch, serial: serial, from: shard)
        case .swept(let batch, let next, let round): retained.swept(batch, next: next, round: round)
        case .staleChanges: retained.foundStale()
        case .claim, .leaving, .arrived, .illegible, .lacksLog, .restored, .sessionEnded, .saves, .will, .willEnds, .adopted,
            .wakes:
            sessions?.received(note, from: shard)
        }
        settle()
    }

    /// Whether what waits for a ticket may go on: all nodes know of the interest, and what is retained is here. Without a connection nobody
    /// can say what is.
    private func isPassing(_ ticket: UInt64) -> Bool { ticket <= sink.confirmed && (isCurrent || awayReason != nil) }

    /// Whether what is retained is here, and it is known from where on the log is read.
    private var isCurrent: Bool { retained.isCurrent && log?.trouble == nil }

    private var isCarrying: Bool { lane.state == .open && isCurrent && unsynced == nil }

    /// Tells all loops of other nodes' members of share groups. The node that has told of them is answered when all know.
    private func tellGroups() {
        while !sink.learned.isEmpty {
            let news = sink.learned.removeFirst()
            lastGroups += 1
            if let receipt = news.receipt { learning[lastGroups] = (receipt, loop.loops.count) }
            let token = lastGroups
            for other in loop.loops { other.post(.groups(news.change, token: token), from: loop) }
        }
    }

    /// A loop knows.
    private func groupsTaken(_ token: UInt64) {
        guard let (receipt, missing) = learning[token] else { return }
        learning[token] = missing > 1 ? (receipt, missing - 1) : nil
        if missing == 1 { lane.learned(receipt, sink) }
    }

    /// Lets go what waits for what has come about.
    private func settle() {
        tellGroups()
        if !waiting.isEmpty {
            let passing = waiting.filter { isPassing($0.ticket) }
            waiting.removeAll { isPassing($0.ticket) }
            for entry in passing { pass(entry.token, to: entry.shard) }
        }
        if sink.confirmed != dropsLookedAt {
            dropsLookedAt = sink.confirmed
            sessions?.sendDrops()
        }
        guard isAway == isCarrying else { return }
        isAway.toggle()
        if !isAway {
            log(.notice, "messages are carried, with \(others.count) other \(others.count == 1 ? "node" : "nodes").")
            toldReasons = []
        }
        for other in loop.loops { other.post(.isAway(isAway), from: loop) }
        report()
    }

    private func pass(_ token: UInt64, to shard: Int) { loop.shard.passedFence(token, of: shard) }

    // MARK: The servers

    func received(_ message: MessageView) {
        if log?.received(message) ?? false { return settle() }
        if let sessions, sessions.received(message) || sessions.replay.received(message) { return }
        if access.received(message, now: now) { return }
        let isTaken = members.take(message, now: now) { loop.control?.post(.clusterAsked(number: $0, $1)) }
        guard !isTaken else { return }
        if retained.received(message) { return settle() }
        var isNobodyThere = false
        if !message.headers.isEmpty, let headers = try? MessageHeaders(reading: message.headers) {
            isNobodyThere = headers.status == 503
        }
        lane.received(
            subject: message.subject, reply: message.reply, isNobodyThere: isNobodyThere, payload: message.payload, now: now, sink)
        settle()
    }

    func becameReady(_ info: ServerInfo) {
        awayReason = nil
        log(.notice, "connected to nats-server \(info.version) (\(info.serverName)).")
        lane.attached(now: now, sink)
        members.attached()
        retained.attached(info)
        leases.begin(now: now)
        log?.attached(info)
        sessions?.attached()
        renew()
        access.begin(now: now)
        settle()
    }

    func wentAway(_ reason: String) {
        if awayReason == nil { losses += 1 }
        awayReason = reason
        tell(reason)
        lane.detached(sink)
        log?.detached()
        sessions?.detached()
        retained.detached()
        sink.forgetSubscriptions()
        members.detached()
        leases.end()
        access.end(reason)
        settle()
    }

    func complained(_ words: String) { tell(words) }

    func answered(_ token: UInt64, _ answer: NATSAnswer) {
        guard !ClusterMembers.isToken(token) else {
            if let (token, reports) = members.answered(token, answer) {
                loop.control?.post(.clusterAnswered(token: token, reports))
            }
            return
        }
        if RetainedRunner.isToken(token) {
            retained.answered(token, answer)
            sessions?.goOnWithWills()
            return settle()
        }
        if log?.answered(token, answer) ?? false {
            sessions?.goOnWithWills()
            return
        }
        if access.answered(token, answer, now: now) { return }
        if sessions?.answered(token, answer) ?? false { return }
        guard let info = connection.session.info else { return }
        switch leases.answered(answer, now: now, info: info) {
        case .goesOn: break
        case .failed(let reason):
            leaseTrouble = reason
            tell(reason)
        case .nodes(let nodes, let sequence):
            // What the list says is for the next run.
            guard !leases.hasEnded(now: now) else { break }
            leaseTrouble = nil
            sessions?.live(nodes, through: sequence, me: leases.holder(now: now))
            members.list(nodes, now: now)
            // Who has said goodbye listens no more, though its lease lasts.
            let there = nodes.filter { !members.table.hasLeft($0) }
            others = Set(there).subtracting([runs.current])
            lane.live(there, now: now, sink)
            dealing?.live(others)
        }
        renew()
        settle()
    }

    /// What has been said leaves only while the lease lasts, so that nothing of this run comes into the log behind what others have read of it.
    var maySend: Bool { !leases.hasEnded(now: loop.events.clockMicroseconds / 1000) }

    // MARK: Runs

    /// The lease has ended: others act for this node. It goes on as another one, when all loops have let go of what the last one had to do.
    private func endRun() {
        sessions?.leaseEnded()
        connection.abandon()
        wentAway("this node's lease has ended")
        runs.begin()
        lane.begin(as: runs.current)
        leases.begin(as: runs.current)
        members.begin(as: runs.current)
        retained.begin(as: runs.current)
        change = RunChange(loops: loop.loops.count)
        log?.beginRun()
        for other in loop.loops { other.post(.endRun(next: runs.current), from: loop) }
    }

    private func runBegun(by shard: Int, _ past: (runs: [UInt64], after: [UInt64])?) {
        guard let pasts = change?.begun(shard, past) else { return }
        change = nil
        dealing?.beginRun(pasts)
        connection.start()
    }

    /// Takes the next step of the leases, if it is time for one.
    private func renew() {
        guard let info = connection.session.info, let request = leases.next(now: now, info: info) else { return }
        do throws(NATSRefusal) {
            try connection.request(
                request.subject, headers: request.headers, payload: request.payload, token: 0,
                within: Limits.leaseAnswerMillisecondsMax)
        } catch {
            _ = leases.answered(.late, now: now, info: info)
        }
    }

    // MARK: Telling

    /// Tells the control thread how the cluster is, and who subscribes to that.
    private func report() {
        members.settle(now: now)
        let status = status
        loop.control?.post(.cluster(status))
        guard let interval = plan.systemTopicMilliseconds, now >= topicsToldAt.map({ $0 + interval }) ?? 0 else { return }
        topicsToldAt = now
        for (topic, value) in topics.changes(status, name: plan.name) { loop.shard.publishSystemTopic(topic, value) }
    }

    /// This node is like this: adds what is known here, and says so.
    private func note(_ figures: NodeFigures) {
        var summary = NodeSummary(node: runs.current)
        (summary.name, summary.version, summary.address) = (plan.nodeName, ProductVersion.text, plan.address ?? "")
        (summary.startedAt, summary.clientsConnected, summary.sessions) = (
            figures.startedAt, figures.clientsConnected, figures.sessions
        )
        (summary.subscriptions, summary.retainedMessages) = (figures.subscriptions, figures.retainedMessages)
        (summary.storedMessages, summary.dropped) = (figures.storedMessages, figures.dropped)
        (summary.receivedRate, summary.sentRate) = (figures.receivedRate, figures.sentRate)
        (summary.residentBytes, summary.processorLoad) = (figures.residentBytes, figures.processorLoad)
        (summary.isDraining, summary.dashboard) = (figures.isDraining, figures.dashboard)
        summary.trouble = trouble ?? figures.trouble
        summary.server = connection.session.info.map { "\($0.serverName) \($0.version)" } ?? ""
        members.note(summary, now: now)
        report()
    }

    private var status: ClusterStatus {
        var status = ClusterStatus()
        status.trouble = trouble
        status.server = connection.session.info.map { "\($0.serverName) \($0.version)" }
        status.others = others.count
        let counters = lane.counters
        (status.messagesOut, status.messagesIn, status.copies) = (counters.sent, counters.received, counters.copies)
        status.dropped = counters.dropped + sink.refused + retained.refused
        status.illegible = counters.illegible + sink.illegible + members.illegible + retained.illegible
        (status.members, status.sharedNames) = (members.table.members, members.table.sharedNames)
        status.retainedWaiting = retained.waitingCount
        status.losses = losses
        if let counters = sessions?.counters {
            (status.sessionsTaken, status.sessionsGiven) = (counters.taken, counters.given)
            (status.sessionsLost, status.claimsRefused) = (counters.lost, counters.refused)
            (status.sessionsRestored, status.sessionsExpired) = (counters.restored, counters.leftEnded)
            status.willsOfOthers = counters.leftWills
        }
        if let counters = log?.counters {
            (status.logWritten, status.logFailed) = (counters.written, counters.failed)
            (status.logRead, status.logLost) = (counters.records, counters.lost)
            status.illegible += counters.illegible
        }
        return status
    }

    /// Why nothing is carried; nil if it is.
    private var trouble: String? {
        if isCarrying { return nil }
        if let awayReason { return awayReason }
        if let leaseTrouble { return leaseTrouble }
        if let unsynced { return unsynced }
        if let trouble = retained.trouble ?? log?.trouble { return trouble }
        if lane.state == .open { return "the retained messages are being read" }
        let missing = lane.waitingFor
        return missing.isEmpty ? "the other nodes are being found out" : "\(missing.count) other nodes have not answered yet"
    }

    private func tell(_ reason: String) {
        if toldReasons.count < Limits.clusterReasonsMax, toldReasons.insert(reason).inserted { log(.warning, "\(reason).") }
    }

    private func log(_ level: LogTopics, _ text: String) { loop.log.write(level, "Cluster \(plan.name): \(text)") }

    private static let tooLargeMilliseconds: UInt64 = 60_000
}
