package import BrokerCore
import BrokerModel
import MQTTCodec
import Persistence
package import Platform
import Security
package import Synchronization
package import Transports

/// One thread of the broker: an event loop, the shard of the core that lives on it, and the transports of its
/// connections.
///
/// Made on the control thread; from `run` on it belongs to its own thread, except for `mailbox`.
package final class ShardLoop: LoopTurn, OutputSink, @unchecked Sendable {
    package let index: Int
    package let events: EventLoop
    package let mailbox: Mailbox<LoopMessage>
    package let shard: BrokerShard
    package let log: Log
    package private(set) var admission: ConnectionAdmission
    /// Where answers for administrators go; nil where nobody asks.
    package let control: Mailbox<ControlLoopMessage>?
    private var listeners: [(listener: any Acceptor, policy: Int)]
    /// Whether nobody gets in, because clients are sent away.
    private var isShut = false
    /// What keeps the shard's state; nil without persistence.
    private let store: (any InPlaceStore)?
    /// By policy.
    package private(set) var layers: [TransportLayers]
    package lazy var workspace = FilterWorkspace()
    /// Links whose channel has more to say while its socket is silent.
    package var again: [Link] = []
    /// What this round has read.
    var arrivals: Arrivals<Link>
    /// By slot of the core's connection table.
    var links: [Link?] = []
    package var brokerClient: LoginService
    package var draining: [(link: Link, deadline: UInt64)] = []
    /// All loops of the broker, by index; set before any runs.
    package var loops: [ShardLoop] = []
    /// How the loops end together; nil until they are told to.
    private var shutdownBarrier: ShutdownBarrier?
    private var hasParted = false
    /// Where the shard's counts stood when the turn or its last round began.
    private var receivedBefore: UInt64 = 0
    private var sentBefore: UInt64 = 0
    private var rounds = 0
    package var turn: UInt32 = 0
    /// The shard messages that are on their way between the loops.
    package let backlog: ShardMessageBacklog
    private var heldMemory: HeldMemoryPart
    /// Bytes of shard messages that this turn works off, by sender, and whose they are: a bit for each sender.
    private var taken: [Int]
    private var takenSenders: UInt64 = 0
    /// Whether another loop is so far behind that this one must not bring it more.
    var isHeldUp = false
    /// Whether another loop is still at work on what this one brought it, which was much.
    package var isAhead = false
    /// Links that have much to say, and wait until this is not so, or that time has come.
    var parked: [Link] = []
    var parkedUntil: UInt64 = 0
    /// Links whose peers have gone, which the core does not know yet, and of how many it may still hear in this turn.
    package var ending: [Link] = []
    var endsLeft = 0
    /// Whether the core has packets that are not worked off yet: nothing more is read from the clients who sent them.
    private(set) var hasOpenPackets = false
    /// Links in whose TLS handshake there is something to compute, in the order in which they came.
    var handshaking: [Link] = []
    /// How many steps of handshakes this turn may still make.
    var handshakesLeft = 0
    /// The bridges whose session is here.
    package var bridges = LoopBridges()
    /// Speaks to a cluster's servers; on the first loop of a node, else nil.
    package var cluster: (any ClusterParticipant)?
    /// Whether so much waits for the cluster's log that nothing more is read.
    var isLogBehind = false
    /// What of the log the shard has worked off since it has told of it.
    package var recordsTaken = (byteCount: 0, illegible: 0)
    /// What the shard knows of other nodes' share groups, and has not said yet.
    package var groupsTaken: [UInt64] = []
    /// What the end of the turn tells the loop that speaks to the servers of this node's runs.
    var incarnationNews: ToGateway?
    /// How many bytes of records it has worked off that it was given again.
    package var recordsReplayed = 0
    /// The last heartbeat that the loop was asked for. For any thread.
    package let heartbeat = Atomic<UInt64>(0)
    /// When this turn began, in microseconds.
    private(set) var turnBeganAt: UInt64 = 0
    var latencies = LoopLatencies()
    /// Whether the control thread wants to hear of events.
    private var isWatched = false
    private var measuredAt: UInt64?
    /// When a line last told that somebody banned was turned away: it is told of once a second.
    var bannedToldAt: UInt64?
    private var blockingTask: BlockingTask?
    /// Whether the loop took its last batch to the store itself.
    private var hasCommittedHere = false
    /// Whether that is committed and has left something to do, once those who wait for it have been told.
    private var isStoreUntidy = false
    /// The shard's counts when it gave the store its last batch.
    private var workBeforeBatch: (packetsReceived: UInt64, messagesSent: UInt64) = (0, 0)

    package init(
        shard: BrokerShard, listeners: [(listener: any Acceptor, policy: Int)], events: EventLoop, backlog: ShardMessageBacklog,
        heldMemory: HeldMemory, setup: LoopSetup
    ) {
        index = shard.index
        self.shard = shard
        self.listeners = listeners
        self.events = events
        self.backlog = backlog
        self.heldMemory = HeldMemoryPart(of: heldMemory)
        layers = setup.layers
        log = setup.log
        admission = setup.admission
        control = setup.control
        store = setup.store
        taken = Array(repeating: 0, count: shard.placement.shardCount)
        mailbox = Mailbox(loop: events)
        arrivals = Arrivals(in: events.scratch)
        brokerClient = LoginService(tables: setup.tables, throttle: setup.throttle, log: setup.log) { [mailbox] in
            mailbox.post(.decided($0))
        }
    }

    /// Works until the broker is told to stop and every connection has ended.
    package func run() {
        startListeners()
        cluster?.start()
        events.run(self)
    }

    /// Lets connections come in, from the first turn on.
    func startListeners() {
        for (listener, policy) in listeners { start(listener, policy) }
    }

    /// Goes on whenever the loop's thread waits for the disk for too long, until the loop has ended.
    package func standIn() { events.standIn(self) }

    // MARK: Turns

    package func beginTurn(now: UInt64) {
        (receivedBefore, sentBefore) = shard.workDone
        rounds = 0
        turn &+= 1
        if index == 0 { measure(now: now) }
        turnBeganAt = events.clockMicroseconds
        shard.advance(to: now, microseconds: turnBeganAt)
        heldMemory.beginTurn(of: shard)
        brokerClient.nowMicroseconds = turnBeganAt
        brokerClient.advance(to: now) { shard.authenticated($0, $1) }
        mailbox.drain { message in
            switch message {
            case .shardMessages(let sender, let batch):
                shard.receivedShardMessages(batch, from: sender)
                taken[sender] += batch.byteCount
                takenSenders |= 1 << UInt64(sender)
            case .handOver(let handOver, let channel, let security): adopt(handOver, channel, decidedBy: security)
            case .page(let channel, let info): open(channel, info)
            case .logLine(let topic, let text): shard.publishLogLine(topic: topic, text: text)
            case .systemTopic(let topic, let value):
                if shard.settings.systemIntervalSeconds > 0 { shard.publishSystemTopic(topic, value) }
            case .decided(let decision): decided(decision, now: now)
            case .listeners(let layers, let admission, let closed):
                (self.layers, self.admission) = (layers, admission)
                stopListeners { closed.contains($0) }
            case .open(let listeners): open(listeners)
            case .settings(let settings, let tables, let countdown):
                let before = brokerClient.tables
                brokerClient.tables = tables
                shard.apply(settings)
                shard.dismissClients { tables.keeps($0, of: before) }
                countdown.count()
            case .bans(let bans, let countdown):
                shard.apply(bans)
                countdown.count()
            case .drain(let notice): drain(notice)
            case .sendAway(let count): shard.sendAway(count)
            case .stored(let report): received(report)
            case .save: shard.save()
            case .listSubscriptions: shard.listSubscriptions()
            case .ask(let query): if !shard.ask(query) { control?.post(.answer(.declined(token: query.token))) }
            case .order(let order): if !shard.order(order) { control?.post(.answer(.declined(token: order.token))) }
            case .rights(let change): shard.change(change)
            case .answered(let byteCount): shard.answered(byteCount)
            case .statistics(let token):
                control?.post(.answer(.statistics(token: token, shard: index, measuredStatistics())))
            case .watchEvents(let isWatched):
                self.isWatched = isWatched
                shard.watchPresence(isWatched)
            case .tracesTaken: shard.tracesTaken()
            case .bridge(let message): received(message)
            case .cluster(let message): received(message)
            case .gateway(let message):
                if case .shard(let sender, let message) = message, let batch = message.batch {
                    taken[sender] += batch.byteCount
                    takenSenders |= 1 << UInt64(sender)
                }
                cluster?.received(message)
            case .remembered(let byteCount): shard.recordRemembered(byteCount)
            case .heartbeat(let number): heartbeat.store(number, ordering: .releasing)
            case .stop(let shutdownBarrier): stop(shutdownBarrier)
            }
        }
        if !bridges.isEmpty { advanceBridges(now: now) }
        cluster?.advance(now: now)
        reportEnds()
        handshakesLeft = Limits.handshakesPerTurn
        isHeldUp = backlog.isHeldUp(index) || isLogBehind
        isAhead = backlog.isAhead(index)
        if !parked.isEmpty, !isAhead || now >= parkedUntil { readParked() }
        if !again.isEmpty { readAgain() }
        shakeHands()
        // The round that follows may read from them again.
        workOff()
    }

    /// Works off what the round has read. A busy turn then takes in what has come meanwhile before it flushes: each
    /// receiver gets more with one write. A turn that has done enough, or found little to do, ends, so that nobody
    /// waits for long.
    package func endRound() -> Bool {
        workOff()
        let (received, sent) = shard.workDone
        defer { (receivedBefore, rounds) = (received, rounds + 1) }
        return !isHeldUp && rounds < Limits.roundsPerTurn && received - receivedBefore >= Self.packetsOfBusyRound
            && sent - sentBefore < Limits.messagesPerTurn
    }

    package func endOfTurn(now: UInt64) -> UInt64? {
        shard.endTurn(into: self) { receiver, batch in
            backlog.add(batch.byteCount, from: index, to: receiver)
            loops[receiver].mailbox.post(.shardMessages(from: index, batch))
        }
        heldMemory.endTurn(of: shard)
        hasOpenPackets = shard.hasOpenPackets
        let ended = events.clockMicroseconds
        shard.turnEnded(began: turnBeganAt, ended: ended)
        latencies.turnEnded(microseconds: ended &- turnBeganAt)
        shard.takeEffects { effect in
            switch effect {
            case .close(let id): close(id, now: now)
            case .handOver(let id, let handOver): send(id, handOver)
            case .authenticate(let id, let request): brokerClient.request(request, from: id)
            case .store(let batch): keep(batch)
            case .read(let request): store?.read(request, for: index)
            case .reply(let reply): control?.post(.answer(.reply(reply)))
            case .outcome(let outcome): control?.post(.answer(.outcome(outcome)))
            case .control(let message): control?.post(.control(message))
            case .presence(let event): if isWatched { control?.post(.answer(.event(event))) }
            case .offence(let offence): control?.post(.offence(offence))
            case .traced(let batch): control?.post(.traced(batch))
            case .local(let id, let event): received(event, of: id)
            case .cluster(let message): postToGateway(.shard(index, message))
            case .log(let topic, let text, let fields): log.write(topic, text, fields)
            }
        }
        reportGroupsTaken()
        reportRecordsTaken()
        postIncarnationNews()
        cluster?.endTurn()
        notifySenders()
        closeDrained(now: now)
        if let shutdownBarrier, mayEnd(shutdownBarrier) {
            cluster?.stop()
            events.stop()
        }
        // What is not read stays ready, so the loop would only spin.
        if isHeldUp { events.pause(microseconds: Self.heldUpMicroseconds) }
        if !again.isEmpty || !handshaking.isEmpty || !ending.isEmpty || incarnationNews != nil { return now }
        var deadlines = [shard.nextDeadline, brokerClient.nextDeadline, draining.first?.deadline]
        if !bridges.isEmpty { deadlines.append(bridges.nextDeadline) }
        if let cluster { deadlines.append(cluster.nextDeadline) }
        if !parked.isEmpty {
            guard backlog.askToHear(index) else { return now }
            deadlines.append(parkedUntil)
        }
        return deadlines.compactMap { $0 }.min()
    }

    /// Lets go of the shard messages that this turn has worked off. Only now: what others bring next is then ready for
    /// one write to each receiver.
    private func notifySenders() {
        while takenSenders != 0 {
            let sender = takenSenders.trailingZeroBitCount
            takenSenders &= takenSenders - 1
            if backlog.remove(taken[sender], from: sender, to: index) { loops[sender].events.wake() }
            taken[sender] = 0
        }
    }

    package func takeBlockingTask() -> BlockingTask? {
        if let blockingTask {
            self.blockingTask = nil
            hasCommittedHere = true
            return blockingTask
        }
        guard isStoreUntidy else { return nil }
        isStoreUntidy = false
        return { [store] in store?.tidyUp() }
    }

    private func decided(_ decision: LoginService.Decision, now: UInt64) {
        latencies.loginDecided(by: decision.backend, microseconds: turnBeganAt &- min(turnBeganAt, decision.askedAt))
        brokerClient.decided(decision, now: now) { shard.authenticated($0, $1) }
    }

    private func measuredStatistics() -> ShardStatistics {
        var statistics = shard.measuredStatistics()
        latencies.add(to: &statistics.latencies)
        return statistics
    }

    private func received(_ report: StoreReport) {
        if case .committed(let sequence) = report { latencies.committed(through: sequence, at: turnBeganAt) }
        if case .committed = report, hasCommittedHere {
            hasCommittedHere = false
            isStoreUntidy = true
        }
        shard.received(report)
    }

    /// Gives the store a batch; or, when the loop has little else to do, takes it there itself: two threads need not be
    /// woken then.
    private func keep(_ batch: JournalBatch) {
        guard let store else { return }
        latencies.gave(batch, at: events.clockMicroseconds)
        let work = shard.workDone
        defer { workBeforeBatch = work }
        let isQuiet =
            work.packetsReceived - workBeforeBatch.packetsReceived <= Self.packetsOfQuietTurn
            && work.messagesSent - workBeforeBatch.messagesSent <= Self.messagesOfQuietTurn
            && batch.byteCount <= Self.bytesOfQuietTurn
        guard isQuiet, again.isEmpty, !isStopping, store.isQuick else {
            return store.commit(batch, of: index)
        }
        blockingTask = { [store, index] in store.commitHere(batch, of: index) }
    }

    /// Tells the core, which knows no allocator and no file, for `$SYS`: at most once a second, since it takes the
    /// allocator's locks.
    private func measure(now: UInt64) {
        if let measuredAt, now < measuredAt + 1000 { return }
        measuredAt = now
        shard.recordHeap(byteCount: ProcessMemory.heapBytes())
        if let store { shard.recordStore(store.figures) }
    }

    package var isStopping: Bool { shutdownBarrier != nil }

    private func stop(_ shutdownBarrier: ShutdownBarrier) {
        self.shutdownBarrier = shutdownBarrier
        stopListeners { _ in true }
        stopBridges()
        shard.stop()
    }

    private func stopListeners(_ isMeant: (Int) -> Bool) {
        for (listener, policy) in listeners where isMeant(policy) { listener.stop() }
        listeners.removeAll { isMeant($0.policy) }
    }

    /// Lets clients in by listeners that a reload has opened.
    private func open(_ opened: [(listener: Listener, policy: Int)]) {
        for (listener, policy) in opened {
            guard !isStopping else {
                listener.stop()
                continue
            }
            start(listener, policy)
            if isShut { listener.suspend() }
            listeners.append((listener, policy))
        }
    }

    /// Closes the door, so that clients can be sent away, or opens it again. It stays open where those who come can be
    /// told where to go.
    private func drain(_ notice: DrainNotice?) {
        shard.drain(notice)
        isShut = notice.map { !$0.answersNewcomers } ?? false
        for (listener, _) in listeners {
            guard !isShut else {
                listener.suspend()
                continue
            }
            do throws(SystemError) {
                try listener.resume()
            } catch {
                log.write(.error, "Error: \(error). Nobody can connect there until the broker is started again.")
            }
        }
    }

    /// Whether nothing is left to do, here and among the shard messages of the others. A loop that is done stays until
    /// all are: what they had on its way to it, connections and messages, is looked after.
    private func mayEnd(_ shutdownBarrier: ShutdownBarrier) -> Bool {
        guard shard.isIdle, draining.isEmpty else { return false }
        if !hasParted {
            hasParted = true
            if shutdownBarrier.part() { for loop in loops where loop !== self { loop.events.wake() } }
        }
        // In this order: what others sent before they parted is in the mailbox by then.
        return shutdownBarrier.isComplete && mailbox.isEmpty
    }

    private static let packetsOfQuietTurn: UInt64 = 2
    private static let messagesOfQuietTurn: UInt64 = 50
    private static let bytesOfQuietTurn = 4096
    private static let heldUpMicroseconds: UInt32 = 200
    private static let packetsOfBusyRound: UInt64 = 64
}

/// What a loop measures besides its shard, with the turn's clock. Belongs to the loop.
struct LoopLatencies {
    private var turns = Histogram()
    private var commits = Histogram()
    private var handshakes = Histogram()
    /// By who decides.
    private var logins: [String: Histogram] = [:]
    /// The batches that the store has and has not committed, oldest first: their last change, and when it got them.
    private var batches: [(lastSequence: UInt64, givenAt: UInt64)] = []

    mutating func turnEnded(microseconds: UInt64) { turns.record(microseconds) }

    mutating func handshakeEnded(microseconds: UInt64) { handshakes.record(microseconds) }

    mutating func loginDecided(by backend: String, microseconds: UInt64) {
        logins[backend, default: Histogram()].record(microseconds)
    }

    /// The store gets a batch.
    mutating func gave(_ batch: JournalBatch, at now: UInt64) { batches.append((batch.lastSequence, now)) }

    /// The store has committed all changes up to this one.
    mutating func committed(through sequence: UInt64, at now: UInt64) {
        let count = batches.prefix { $0.lastSequence <= sequence }.count
        for batch in batches[..<count] { commits.record(now &- min(now, batch.givenAt)) }
        batches.removeFirst(count)
    }

    /// Adds what was measured so far.
    func add(to report: inout LatencyReport) {
        report.add(turns, as: .loopTurn)
        report.add(commits, as: .storeCommit)
        report.add(handshakes, as: .tlsHandshake)
        for (backend, histogram) in logins { report.add(histogram, as: .login(backend: backend)) }
    }
}

/// What has been read and not worked off yet: the bytes of many connections, side by side in the loop's scratch memory.
///
/// A round reads from all who have something to say before it looks at any of it. The kernel's way of a read and the
/// broker's own code would else drive each other out of the processor's nearest caches, connection by connection.
///
/// Nobody stands here twice, or a piece might follow one that has made its connection leave.
package struct Arrivals<Source: AnyObject> {
    private struct Piece {
        /// Not retained: the loop keeps a link until the turn ends.
        package let source: Unmanaged<Source>
        package let range: Range<Int>
    }

    private let memory: UnsafeMutableRawBufferPointer
    private var pieces: [Piece] = []
    private var end = 0

    /// - Parameter memory: where the bytes stand; it must outlive this.
    init(in memory: UnsafeMutableRawBufferPointer) {
        self.memory = memory
    }

    /// Where the next read goes.
    package var room: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(rebasing: memory[end...]) }

    /// The first `count` bytes of `room` were read from `source`.
    package mutating func add(_ count: Int, from source: Source) {
        pieces.append(Piece(source: .passUnretained(source), range: end..<end + count))
        end += count
    }

    /// Gives what has been read, in that order, and makes all the room free. `body` must neither read nor add.
    mutating func takeAll(_ body: (UnsafeRawBufferPointer, Source) -> Void) {
        for piece in pieces {
            piece.source._withUnsafeGuaranteedRef { body(UnsafeRawBufferPointer(rebasing: memory[piece.range]), $0) }
        }
        pieces.removeAll(keepingCapacity: true)
        end = 0
    }
}

extension Limits {
    /// How often a loop reads from those who have something to say before it writes.
    static let roundsPerTurn = 3

    /// Messages sent after which a loop reads no more before it writes.
    static let messagesPerTurn: UInt64 = 20_000

    /// Steps of TLS handshakes, each up to a millisecond of work, that a loop makes in a turn; others wait for the next
    /// one, after everybody else.
    static let handshakesPerTurn = 4
}
