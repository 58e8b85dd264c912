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
    /// Where answers for administrators go; nil where nobody asks.
    package let control: Mailbox<ControlLoopMessage>?
    /// Whether the control thread wants to hear of events.
    private var isWatched = false
    var doors: LoopDoors
    private var store: LoopStore
    package lazy var workspace = FilterWorkspace()
    /// What this round has read.
    var arrivals: Arrivals<Link>
    /// By slot of the core's connection table.
    var links: [Link?] = []
    var queues = LinkQueues()
    package var logins: LoginService
    /// All loops of the broker, by index; set before any runs.
    package var loops: [ShardLoop] = []
    /// How the loops end together; nil until they are told to.
    private var shutdown: LoopShutdown?
    var turn = TurnProgress()
    /// The shard messages that are on their way between the loops.
    package let backlog: ShardMessageBacklog
    private var incoming: IncomingShardMessages
    var pressure: LoopPressure
    /// The bridges whose session is here.
    package var bridges = LoopBridges()
    package var cluster = LoopCluster()
    /// The last heartbeat that the loop was asked for. For any thread.
    package let heartbeat = Atomic<UInt64>(0)
    var measurements = LoopMeasurements()

    package init(
        shard: BrokerShard, listeners: [(listener: any Acceptor, policy: Int)], events: EventLoop, backlog: ShardMessageBacklog,
        heldMemory: HeldMemory, setup: LoopSetup
    ) {
        index = shard.index
        self.shard = shard
        self.events = events
        self.backlog = backlog
        pressure = LoopPressure(HeldMemoryPart(of: heldMemory))
        log = setup.log
        doors = LoopDoors(listeners, layers: setup.layers, admission: setup.admission)
        control = setup.control
        store = LoopStore(setup.store, of: shard.index)
        incoming = IncomingShardMessages(loops: shard.placement.shardCount)
        mailbox = Mailbox(loop: events)
        arrivals = Arrivals(in: events.scratch)
        logins = LoginService(tables: setup.tables, throttle: setup.throttle, log: setup.log) { [mailbox] in
            mailbox.post(.decided($0))
        }
    }

    /// Works until the broker is told to stop and every connection has ended.
    package func run() {
        startListeners()
        cluster.participant?.start()
        events.run(self)
    }

    /// Lets connections come in, from the first turn on.
    func startListeners() {
        for (listener, policy) in doors.listeners { start(listener, policy) }
    }

    /// Goes on whenever the loop's thread waits for the disk for too long, until the loop has ended.
    package func standIn() { events.standIn(self) }

    // MARK: Turns

    package func beginTurn(now: UInt64) {
        if index == 0 { measure(now: now) }
        turn.begin(at: events.clockMicroseconds, work: shard.workDone)
        shard.advance(to: now, microseconds: turn.beganAt)
        pressure.heldMemory.beginTurn(of: shard)
        logins.nowMicroseconds = turn.beganAt
        logins.advance(to: now) { shard.authenticated($0, $1) }
        mailbox.drain { message in
            switch message {
            case .shardMessages(let sender, let batch):
                shard.receivedShardMessages(batch, from: sender)
                incoming.add(batch.cost, from: sender)
            case .handOver(let handOver, let channel, let addressSlot, let security):
                adopt(handOver, channel, addressSlot: addressSlot, decidedBy: security)
            case .page(let channel, let info): open(channel, info)
            case .logLine(let topic, let text): shard.publishLogLine(topic: topic, text: text)
            case .systemTopic(let topic, let value):
                if shard.settings.systemIntervalSeconds > 0 { shard.publishSystemTopic(topic, value) }
            case .decided(let decision): decided(decision, now: now)
            case .topicDecided(let id, let question, let decision): shard.decided(id, question, decision)
            case .listeners(let layers, let admission, let closed):
                doors.exchange(layers, admission, closed: closed)
            case .open(let listeners): open(listeners)
            case .settings(let settings, let tables, let countdown):
                let before = logins.tables
                logins.tables = tables
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
            case .command(let command): if !shard.perform(command) { control?.post(.answer(.declined(token: command.token))) }
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
                    incoming.add(batch.cost, from: sender)
                }
                cluster.participant?.received(message)
            case .remembered(let byteCount): shard.recordRemembered(byteCount)
            case .heartbeat(let number): heartbeat.store(number, ordering: .releasing)
            case .stop(let shutdownBarrier): stop(shutdownBarrier)
            }
        }
        if !bridges.isEmpty { advanceBridges(now: now) }
        cluster.participant?.advance(now: now)
        reportEnds()
        queues.handshakes.beginTurn(now: now, slotsMax: handshakesMax)
        pressure.isHeldUp = backlog.isHeldUp(index) || cluster.isLogBehind
        pressure.isAhead = backlog.isAhead(index)
        if !queues.parked.isEmpty, !pressure.isAhead || now >= queues.parkedUntil { readParked() }
        if !queues.again.isEmpty { readAgain() }
        shakeHands()
        // The round that follows may read from them again.
        workOff()
    }

    /// Works off what the round has read. A busy turn then takes in what has come meanwhile before it flushes: each
    /// receiver gets more with one write. A turn that has done enough, or found little to do, ends, so that nobody
    /// waits for long.
    package func endRound() -> Bool {
        workOff()
        return turn.endRound(work: shard.workDone) && !pressure.isHeldUp
    }

    package func endOfTurn(now: UInt64) -> UInt64? {
        shard.endTurn(into: self) { receiver, batch in
            backlog.add(batch.cost, from: index, to: receiver)
            loops[receiver].mailbox.post(.shardMessages(from: index, batch))
        }
        pressure.heldMemory.endTurn(of: shard)
        pressure.hasOpenPackets = shard.hasOpenPackets
        let ended = events.clockMicroseconds
        shard.turnEnded(began: turn.beganAt, ended: ended)
        measurements.turnEnded(microseconds: ended &- turn.beganAt)
        shard.takeEffects { effect in
            switch effect {
            case .close(let id): close(id, now: now)
            case .handOver(let id, let handOver): send(id, handOver)
            case .authenticate(let id, let request): logins.request(request, from: id)
            case .authorize(let id, let question, let authority):
                authority.decide(question) { [mailbox] decision in mailbox.post(.topicDecided(id, question, decision)) }
            case .store(let batch): keep(batch)
            case .read(let request): store.read(request)
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
        cluster.participant?.endTurn()
        notifySenders()
        closeDrained(now: now)
        if isStopping, mayEnd() {
            cluster.participant?.stop()
            events.stop()
        }
        // What is not read stays ready, so the loop would only spin.
        if pressure.isHeldUp { events.pause(microseconds: Self.heldUpMicroseconds) }
        if queues.areUrgent || cluster.incarnationNews != nil { return now }
        // No array: each message of a client that sends one at a time ends a turn.
        var earliest = UInt64.max
        func heed(_ deadline: UInt64?) { if let deadline { earliest = min(earliest, deadline) } }
        heed(shard.nextDeadline)
        heed(logins.nextDeadline)
        heed(queues.draining.first?.deadline)
        heed(queues.handshakes.nextDeadline)
        if !bridges.isEmpty { heed(bridges.nextDeadline) }
        if let participant = cluster.participant { heed(participant.nextDeadline) }
        if !queues.parked.isEmpty {
            guard backlog.askToHear(index) else { return now }
            heed(queues.parkedUntil)
        }
        return earliest == .max ? nil : earliest
    }

    /// Lets go of the shard messages that this turn has worked off. Only now: what others bring next is then ready for
    /// one write to each receiver.
    private func notifySenders() {
        while let (sender, byteCount) = incoming.takeNext() {
            if backlog.remove(byteCount, from: sender, to: index) { loops[sender].events.wake() }
        }
    }

    package func takeBlockingTask() -> BlockingTask? { store.takeTask() }

    private func decided(_ decision: LoginService.Decision, now: UInt64) {
        measurements.loginDecided(by: decision.backend, microseconds: turn.beganAt &- min(turn.beganAt, decision.askedAt))
        logins.decided(decision, now: now) { shard.authenticated($0, $1) }
    }

    private func measuredStatistics() -> ShardStatistics {
        var statistics = shard.measuredStatistics()
        measurements.add(to: &statistics.latencies)
        statistics.handshakes = queues.handshakes.activeCount
        statistics.handshakesWaiting = queues.handshakes.waitingCount
        return statistics
    }

    private func received(_ report: StoreReport) {
        if case .committed(let sequence) = report {
            measurements.committed(through: sequence, at: turn.beganAt)
            store.committed()
        }
        shard.received(report)
    }

    private func keep(_ batch: JournalBatch) {
        guard store.isThere else { return }
        measurements.gave(batch, at: events.clockMicroseconds)
        store.give(batch, work: shard.workDone, isFree: queues.again.isEmpty && !isStopping)
    }

    /// Tells the core, which knows no allocator and no file, for `$SYS`: at most once a second, since it takes the
    /// allocator's locks.
    private func measure(now: UInt64) {
        guard measurements.isProcessDue(now: now) else { return }
        shard.recordHeap(byteCount: ProcessMemory.heapBytes())
        if let figures = store.figures { shard.recordStore(figures) }
    }

    package var isStopping: Bool { shutdown != nil }

    private func stop(_ barrier: ShutdownBarrier) {
        shutdown = LoopShutdown(barrier)
        doors.stop { _ in true }
        stopBridges()
        shard.stop()
    }

    /// Lets clients in by listeners that a reload has opened.
    private func open(_ opened: [(listener: Listener, policy: Int)]) {
        for (listener, policy) in opened {
            guard !isStopping else {
                listener.stop()
                continue
            }
            start(listener, policy)
            doors.add(listener, policy)
        }
    }

    /// Closes the door, so that clients can be sent away, or opens it again. It stays open where those who come can be
    /// told where to go.
    private func drain(_ notice: DrainNotice?) {
        shard.drain(notice)
        doors.shut(notice.map { !$0.answersNewcomers } ?? false, log: log)
    }

    /// Whether nothing is left to do, here and among the shard messages of the others. A loop that is done stays until
    /// all are: what they had on its way to it, connections and messages, is looked after.
    private func mayEnd() -> Bool {
        guard shard.isIdle, queues.draining.isEmpty else { return false }
        if shutdown?.part() == true { for loop in loops where loop !== self { loop.events.wake() } }
        // In this order: what others sent before they parted is in the mailbox by then.
        return shutdown?.isComplete == true && mailbox.isEmpty
    }

    private static let heldUpMicroseconds: UInt32 = 200
}

/// How far a loop's turn is.
struct TurnProgress {
    /// Counts the turns, round and round.
    private(set) var number: UInt32 = 0
    /// When it began, in microseconds.
    private(set) var beganAt: UInt64 = 0
    private var rounds = 0
    /// What the shard had received when the last round began.
    private var receivedBefore: UInt64 = 0
    /// What the shard had sent when the turn began.
    private var sentBefore: UInt64 = 0

    /// - Parameter work: what the shard has done so far.
    mutating func begin(at now: UInt64, work: (packetsReceived: UInt64, messagesSent: UInt64)) {
        number &+= 1
        (beganAt, rounds) = (now, 0)
        (receivedBefore, sentBefore) = work
    }

    /// A round is over.
    ///
    /// - Returns: whether it has brought so much that another one is worth while before the turn ends.
    mutating func endRound(work: (packetsReceived: UInt64, messagesSent: UInt64)) -> Bool {
        defer { (receivedBefore, rounds) = (work.packetsReceived, rounds + 1) }
        return rounds < Limits.roundsPerTurn && work.packetsReceived - receivedBefore >= Self.packetsOfBusyRound
            && work.messagesSent - sentBefore < Limits.messagesPerTurn
    }

    private static let packetsOfBusyRound: UInt64 = 64
}

/// What keeps a loop from reading for now.
struct LoopPressure {
    /// Whether another loop, or the cluster's log, is so far behind that this one must not bring it more.
    var isHeldUp = false
    /// Whether another loop is still at work on what this one brought it, which was much.
    var isAhead = false
    /// Whether the core has packets that are not worked off yet: nothing more is read from the clients who sent them.
    var hasOpenPackets = false
    var heldMemory: HeldMemoryPart

    init(_ heldMemory: HeldMemoryPart) { self.heldMemory = heldMemory }
}

/// The bytes of shard messages that a turn works off, by sender.
struct IncomingShardMessages {
    private var byteCounts: [Int]
    /// Whose they are: a bit for each sender.
    private var senders: UInt64 = 0

    init(loops: Int) { byteCounts = Array(repeating: 0, count: loops) }

    mutating func add(_ byteCount: Int, from sender: Int) {
        byteCounts[sender] += byteCount
        senders |= 1 << UInt64(sender)
    }

    /// Takes out what came from one of the senders; nil when there is nothing left.
    mutating func takeNext() -> (sender: Int, byteCount: Int)? {
        guard senders != 0 else { return nil }
        let sender = senders.trailingZeroBitCount
        senders &= senders - 1
        defer { byteCounts[sender] = 0 }
        return (sender, byteCounts[sender])
    }
}

/// One loop's way through the end that all of them have together.
struct LoopShutdown {
    private let barrier: ShutdownBarrier
    private var hasParted = false

    init(_ barrier: ShutdownBarrier) { self.barrier = barrier }

    /// Whether all loops have parted.
    var isComplete: Bool { barrier.isComplete }

    /// The loop has nothing left to do. More than once it counts as once.
    ///
    /// - Returns: whether it was the last of all.
    mutating func part() -> Bool {
        guard !hasParted else { return false }
        hasParted = true
        return barrier.part()
    }
}

/// What keeps a shard's state, as the shard's loop uses it: gives it the batches, or, while the loop has little else to
/// do, commits them on the loop's own thread.
///
///     give ─► the store's thread commits ─► committed
///       └───► task: commitHere ─► committed ─► task: tidyUp
struct LoopStore {
    private let store: (any InPlaceStore)?
    private let shard: Int
    /// What the loop's thread is to do behind the turn.
    private var task: ShardLoop.BlockingTask?
    /// Whether the loop took its last batch to the store itself.
    private var hasCommittedHere = false
    /// Whether that is committed and has left something to do, once those who wait for it have been told.
    private var isUntidy = false
    /// What the shard had done when it gave its last batch.
    private var workBefore: (packetsReceived: UInt64, messagesSent: UInt64) = (0, 0)

    /// - Parameter store: nil without persistence.
    init(_ store: (any InPlaceStore)?, of shard: Int) { (self.store, self.shard) = (store, shard) }

    var isThere: Bool { store != nil }

    /// What the store holds; nil without one.
    var figures: StoreFigures? { store?.figures }

    func read(_ request: StoreRequest) { store?.read(request, for: shard) }

    /// Gives the store a batch; or, when the loop has little else to do, has it taken there by the loop's thread: two
    /// threads need not be woken then.
    ///
    /// - Parameters:
    ///   - work: what the shard has done so far.
    ///   - isFree: whether nothing waits for the loop, so that it may wait for the disk.
    mutating func give(_ batch: JournalBatch, work: (packetsReceived: UInt64, messagesSent: UInt64), isFree: Bool) {
        guard let store else { return }
        defer { workBefore = work }
        let isQuiet =
            work.packetsReceived - workBefore.packetsReceived <= Self.packetsOfQuietTurn
            && work.messagesSent - workBefore.messagesSent <= Self.messagesOfQuietTurn
            && batch.byteCount <= Self.bytesOfQuietTurn
        guard isQuiet, isFree, store.isQuick else { return store.commit(batch, of: shard) }
        task = { [store, shard] in store.commitHere(batch, of: shard) }
    }

    /// A batch is committed.
    mutating func committed() {
        guard hasCommittedHere else { return }
        hasCommittedHere = false
        isUntidy = true
    }

    /// Takes what the loop's thread is to do now; nil for nothing.
    mutating func takeTask() -> ShardLoop.BlockingTask? {
        if let task {
            self.task = nil
            hasCommittedHere = true
            return task
        }
        guard isUntidy else { return nil }
        isUntidy = false
        return { [store] in store?.tidyUp() }
    }

    private static let packetsOfQuietTurn: UInt64 = 2
    private static let messagesOfQuietTurn: UInt64 = 50
    private static let bytesOfQuietTurn = 4096
}

/// What a loop measures besides its shard, with the turn's clock. Belongs to the loop.
struct LoopMeasurements {
    private var turns = Histogram()
    private var commits = Histogram()
    private var handshakes = Histogram()
    /// By who decides.
    private var logins: [String: Histogram] = [:]
    /// The batches that the store has and has not committed, oldest first: their last change, and when it got them.
    private var batches: [(lastSequence: UInt64, givenAt: UInt64)] = []
    /// When the process was measured last, in milliseconds.
    private var processMeasuredAt: UInt64?

    /// Whether the process is to be measured now, which it is at most once a second.
    mutating func isProcessDue(now: UInt64) -> Bool {
        if let processMeasuredAt, now < processMeasuredAt + 1000 { return false }
        processMeasuredAt = now
        return true
    }

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
}
