public import BrokerModel
import Bytes
public import MQTTCodec

/// One shard of the broker: the connections, sessions, subscriptions and retained messages that belong to one event loop.
///
/// Pure: it reads no clock, opens no socket and starts no thread. What happens comes in as a call, what it wants done goes out as
/// an `Effect` or as bytes in a connection's output. Every call is total: it never throws, blocks or traps on what a peer sent. All
/// calls come from the thread of the shard's loop, each turn in this order:
///
///     advance(to:) ─► receivedShardMessages … ─► connected / received / closed … ─► endTurn(into:) ─► takeEffects
public final class BrokerShard {
    public let index: Int
    public let placement: ShardPlacement
    public internal(set) var settings: BrokerSettings {
        didSet { updateMayRefusePublishers() }
    }
    /// Whether publishers may be refused because of somebody's queue, on whichever shard that is.
    private(set) var mayRefusePublishers: Bool
    /// Milliseconds on the shell's monotonic clock, as `advance` was last told.
    public internal(set) var now: UInt64

    var connections = ConnectionTable()
    var tally = MemoryTally()
    var sessions: SessionTable
    /// The subscriptions of ended sessions that still stand in the tree.
    var endedSessions = EndedSessions()
    var tree: SubscriptionTree
    var matchCache: MatchCache
    var retained: RetainedStore
    var groups = ShareGroupTable()
    /// What new clients are told of the limits, by listener.
    var advertisedLimits: [AdvertisedLimits]
    var arena = Arena()
    var pool = BufferPool()
    var wheel: TimerWheel
    /// Random numbers that nobody else knows.
    private var random: any RandomNumberGenerator
    /// The sessions of all shards.
    let sessionCount: any SessionCount
    var statistics = ShardStatistics()
    var isStopping = false
    /// Sees every message that a client, a will or the broker itself publishes on this shard, when it is taken. In tests.
    package var watcher: ((PublishPacket) -> Void)?
    /// What the shard is asked about what it holds.
    var queries = QueryScheduler()
    /// What it is told to do.
    var orders = OrderScheduler()
    /// The clients that are sent away.
    var draining = Draining()
    /// What goes to other nodes; nil on a broker that is alone.
    var cluster: ClusterPort?
    /// The record of a cluster's log that is being read.
    var logPlace: (partition: Int, sequence: UInt64) = (0, 0)
    /// What the store has of a cluster.
    var clusterRows = ClusterRows()
    /// Who is not let in, and who may soon be.
    var banning = Banning()
    /// Changes of rights that sessions have not been given yet.
    var rights = RightsUpdates()
    /// Bytes of requests below `$CONTROL/` that the shell has not answered.
    var unansweredBytes = 0
    /// Events of clients that are still to be told.
    var presence: PresenceEvents
    /// Whether somebody wants to hear of it as effects.
    var isWatched = false
    /// The timer of what happens a second later.
    var secondTimer = TimerWheel.none
    /// The connections for which something waits, while slow clients matter.
    var suspects: [ConnectionID] = []
    /// The latencies that were measured.
    var latencies = ShardLatencies()
    /// When what is being worked off was read, here or on another shard, in microseconds.
    var readAt: UInt64 = 0
    /// The connections that have ended lately, for administrators.
    var closedConnections: ClosedConnections
    /// The messages that were dropped lately, for administrators.
    var dropLog: DropLog
    /// The traces that are being recorded; nil when there are none.
    var tracer: Tracer?
    /// The connection whose bytes are being worked off.
    var receivingFrom = ConnectionID(slot: .max, generation: 0)

    /// Connections that are handed over when a turn ends and nothing is left to be sent here: their clients live on other shards.
    var leaving: [ConnectionID] = []
    /// Connections with output to flush at the end of the turn.
    var dirty: [Reference<Connection>] = []
    /// The connections being flushed; what becomes dirty by it waits for the next turn, so that a fast reader does not
    /// hold this one up.
    private var flushing: [Reference<Connection>] = []
    /// The matches of the message routed last: when the next one has the same, its receivers share batches of bytes.
    var lastMatches: Reference<Matches>?
    /// Messages that wait for those that follow them; empty between any two calls of the shell, and before any session ends.
    var frameBatch = FrameBatch()
    /// Whether a client's packets are worked off, one after the other.
    var isGathering = false
    /// The packets that take more than one turn.
    var openPackets = OpenPackets()
    var effects: [Effect] = []
    /// Local clients that have answered what they were sent.
    var replyingLocals: [ConnectionID] = []
    /// What the other shards get when the turn ends.
    var shardMessages: OutgoingShardMessages
    var scans = RetainedScans()
    /// The look for retained messages that have expired.
    var retainedSweep = RetainedSweep()
    let ledger = MessageLedger()
    /// The figures that are published below `$SYS`; by the first shard only.
    var systemReport = SystemReport()
    /// The changes that the store is to keep; nil without persistence.
    let journal: Journal?
    /// The acknowledgements that wait for the store, here and on other shards; nil without persistence.
    var durability: Durability?
    /// The QoS 2 messages that several shards have a part of.
    var receipts = RelayedReceipts()
    /// The share groups of which something is to be kept when the turn ends.
    var newlyLasting = NewlyLastingGroups()
    /// The connections that wait until there is room for their messages.
    var room = AwaitedRoom()
    var scratch = PublishScratch()
    /// What bridges of other brokers have retained of themselves.
    var bridgeStates = BridgeStates()
    /// Bounds the lines about what clients may not do.
    var deniedLines = RateGauge(perSecond: Limits.deniedLinesPerSecondMax, now: 0)
    var slices = UnsafeMutableBufferPointer<ByteSlice>.allocate(capacity: 256)

    /// - Parameters:
    ///   - index: which of `shardCount` shards this is, from 0.
    ///   - shardCount: 1 to 64.
    ///   - settings: what the operator has chosen.
    ///   - seed: must be the same for all shards of a broker: it decides which shard a client lives on.
    ///   - random: where assigned Client Identifiers come from, which let in whoever knows them: the kernel's random numbers, save in a
    ///     simulation. The shard's own.
    ///   - sessionCount: the same for all shards of a broker.
    ///   - now: milliseconds on a monotonic clock, the same for all shards.
    ///   - isPersistent: whether there is a store, which gets the batches of `Effect.store`.
    public init(
        index: Int, shardCount: Int, settings: BrokerSettings, seed: UInt64, random: any RandomNumberGenerator,
        sessionCount: any SessionCount, now: UInt64, isPersistent: Bool = false
    ) {
        Limits.check()
        let hashing = TopicHash(seed: seed)
        self.index = index
        self.settings = settings.withOwnPolicies()
        mayRefusePublishers = settings.mayRefusePublishers
        advertisedLimits = AdvertisedLimits.all(self.settings)
        self.now = now
        placement = ShardPlacement(shardCount: shardCount, hashing: hashing)
        sessions = SessionTable(shard: index)
        tree = SubscriptionTree(hashing: hashing)
        matchCache = MatchCache(hashing: hashing)
        retained = RetainedStore(hashing: hashing)
        closedConnections = ClosedConnections(shard: index, shardCount: shardCount, memoryMax: settings.keptBytesMax)
        presence = PresenceEvents(shardCount: shardCount, now: now)
        dropLog = DropLog(hashing: hashing)
        wheel = TimerWheel(now: now)
        self.random = random
        ledger.clockMicroseconds = now &* 1000
        self.sessionCount = sessionCount
        shardMessages = OutgoingShardMessages(from: index, shardCount: shardCount)
        journal = isPersistent ? Journal(shard: index) : nil
        durability = journal.map { Durability(shard: index, shardCount: shardCount, journal: $0) }
        if index == 0, settings.systemIntervalSeconds > 0 { beginSystemTopics() }
        armRetainedSweep()
    }

    deinit {
        for connection in connections.all { release(connection) }
        for session in sessions.all { session.outbox.removeAll(nil) }
        slices.deallocate()
    }

    var shardCount: Int { placement.shardCount }

    func updateMayRefusePublishers() {
        mayRefusePublishers = settings.mayRefusePublishers || cluster?.log?.refusesPublishers ?? false
    }

    func nextRandom() -> UInt64 { random.next() }

    /// The facts about a connection's other end; nil when it has ended.
    public func info(of id: ConnectionID) -> ConnectionInfo? { connections.find(id)?.info }

    /// What the log calls a connection whose layers below MQTT end it; nil before it has an identifier.
    public func name(of id: ConnectionID) -> String? { connections.find(id)?.knownName }

    /// Whether the transport has taken less than it was given, and `writable` is waited for.
    public func isBlocked(_ id: ConnectionID) -> Bool { connections.find(id)?.isBlocked ?? false }

    /// Ends the turn: hands out the shard messages, so that the other shards work meanwhile, and gives every
    /// connection's output to its transport.
    ///
    /// - Parameters:
    ///   - sink: the connections' transports.
    ///   - post: takes a batch to the shard with this index, behind all that went there before.
    public func endTurn(into sink: any OutputSink, post: (_ shard: Int, ShardMessageBatch) -> Void) {
        assert(frameBatch.isEmpty)
        stepBeforeFlush()
        if shardCount > 1 { postShardMessages(post) }
        swap(&dirty, &flushing)
        for position in flushing.indices {
            // The table or the graveyard keeps a dirty connection alive until the end of the turn.
            flushing[position].with { connection in
                connection.isDirty = false
                flush(connection, into: sink)
            }
        }
        flushing.removeAll(keepingCapacity: true)
        stepBehindFlush()
        arena.rewind()
        if shardCount > 1 { postShardMessages(post) }
    }

    /// The transport takes bytes again after it had taken less than it was given.
    public func writable(_ id: ConnectionID, sink: any OutputSink) {
        guard let connection = connections.find(id) else { return }
        connection.isBlocked = false
        flush(connection, into: sink)
    }

    /// Calls `body` with each effect since the last call, in order. Connections and sessions that ended are forgotten afterwards.
    public func takeEffects(_ body: (Effect) -> Void) {
        if !effects.isEmpty {
            var taken: [Effect] = []
            swap(&taken, &effects)
            for effect in taken { body(effect) }
            taken.removeAll(keepingCapacity: true)
            if effects.isEmpty { swap(&taken, &effects) }
        }
        connections.endTurn()
        sessions.endTurn()
    }

    /// When `advance` must next be called, in milliseconds; nil for never; not after `now` when work is left for another turn.
    public var nextDeadline: UInt64? {
        if wheel.isBehind || !dirty.isEmpty || !effects.isEmpty || !shardMessages.isEmpty { return now }
        guard let deadline = featureDeadline else { return wheel.nextDeadline }
        return wheel.nextDeadline.map { min($0, deadline) } ?? deadline
    }


    /// How many packets the shard has taken in and messages it has sent out so far: by how much they grow tells how busy a turn is.
    public var workDone: (packetsReceived: UInt64, messagesSent: UInt64) { (statistics.messagesReceived, statistics.messagesSent) }

    /// Bytes of shard messages for other shards that wait for the end of the turn.
    public var outgoingBytes: Int { shardMessages.byteCount }

    /// Whether a connection has more to be sent than it may: a client that asks and does not read the answers. Nothing more is to
    /// be read from it until it does; messages are dropped before they come to this.
    public func isFlooded(_ id: ConnectionID) -> Bool {
        (connections.find(id)?.output.pendingBytes ?? 0) > settings.outputBytesMax
    }

    /// Whether no connection is left.
    public var isIdle: Bool { connections.count == 0 && endedSessions.isEmpty && isPersisted }

    /// Whether a packet of any client is still being worked off.
    public var hasOpenPackets: Bool { !openPackets.isEmpty }

    /// Whether a packet of this client is: nothing more is to be read from it until the next turn.
    public func hasOpenPacket(_ id: ConnectionID) -> Bool { connections.find(id)?.hasOpenPacket ?? false }

    private func flush(_ connection: Connection, into sink: any OutputSink) {
        if connection.isLocal { return flushLocal(connection) }
        guard !connection.isBlocked, !connection.isAwaitingStore, !connection.output.isEmpty else {
            if !connection.output.isEmpty {
                connection.output.settle(arena: &arena, pool: &pool)
                if connection.isBlocked { recordLag(of: connection) }
            } else if connection.state == .closing {
                end(connection)
            }
            return
        }
        repeat {
            let count = connection.output.gather(into: slices)
            var offered = 0
            for position in 0..<count { offered &+= slices[position].count }
            let taken = sink.send(UnsafeBufferPointer(start: slices.baseAddress, count: count), to: connection.id)
            statistics.bytesSent &+= UInt64(taken)
            connection.traffic.sentBytes &+= UInt64(taken)
            if connection.isTraced { traceSent(taken, connection) }
            connection.output.consume(taken, arena: &arena, pool: &pool)
            if taken < offered { connection.isBlocked = true }
        } while !connection.isBlocked && !connection.output.isEmpty
        guard connection.output.isEmpty else {
            connection.output.settle(arena: &arena, pool: &pool)
            recordLag(of: connection)
            return
        }
        if connection.isLagging { endLag(of: connection) }
        if connection.state == .closing {
            end(connection)
        } else if let session = connection.session, session.outbox.waiting > 0 {
            pump(session, on: connection)
        }
    }
}

/// What a shard wants done that it cannot do itself. Effects are to be carried out in order.
///
/// What is large is indirect, so that the lines of the log, which are the most, are not carried about in its size.
public enum Effect: Sendable {
    /// The connection has ended: close its transport. Its output is drained, or was given up.
    case close(ConnectionID)
    /// The connection's client lives on another shard: move the transport there and call `adopt` on that shard.
    indirect case handOver(ConnectionID, HandOver)
    /// Decide whether the client may connect, and answer with `authenticated`.
    indirect case authenticate(ConnectionID, AuthenticationRequest)
    /// Make a batch of changes durable, and report it.
    case store(JournalBatch)
    /// Read rows from the store, and report them.
    indirect case read(StoreRequest)
    /// Tell a local client's party.
    case local(ConnectionID, LocalEvent)
    /// Give whoever asked a page of the answer.
    indirect case reply(ShardReply)
    /// Tell whoever gave an order what has become of it.
    indirect case outcome(ShardOrderOutcome)
    /// Do what a client asks the broker for.
    indirect case control(ControlMessage)
    /// Tell who wants to know who is there.
    indirect case presence(PresenceEvent)
    /// Somebody has done what may end in a ban.
    indirect case offence(Offence)
    /// Write down what was recorded for traces, and say so with `tracesTaken`.
    indirect case traced(TraceBatch)
    /// Tell the cluster.
    indirect case cluster(ToCluster)
    /// Write a line to the log; the fields tell programs what it is about.
    case log(LogTopics, String, LogFields?)
}

/// What clients are told while the broker sends them away.
public struct DrainNotice: Hashable, Sendable {
    /// Where they are to go instead, as 5.0's Server Reference: `broker-2.example:1883`, or several of them with blanks between. One client is
    /// told the first of these, the next one the second and so on, so that not all go the same way; empty for nowhere in particular.
    public var serverReferences: [EncodedString]
    /// Whether those who come are answered, because they can be told where to go; else the door is shut.
    public var answersNewcomers: Bool

    public init(serverReference: EncodedString? = nil) {
        self.init(serverReferences: serverReference.map { [$0] } ?? [], answersNewcomers: false)
    }

    public init(serverReferences: [EncodedString], answersNewcomers: Bool) {
        (self.serverReferences, self.answersNewcomers) = (serverReferences, answersNewcomers)
    }

    /// For whoever is connected.
    var reason: ReasonCode { serverReferences.isEmpty ? .serverShuttingDown : .useAnotherServer }
    /// For whoever comes.
    var connackReason: ReasonCode { serverReferences.isEmpty ? .serverUnavailable : .useAnotherServer }
}

/// How far the clients of a shard are sent away.
struct Draining {
    /// What they are told; nil while nobody is sent away.
    var notice: DrainNotice?
    /// The slot of connections at which the next ones are looked for.
    var slot = 0
    /// How many clients were told where to go, so that each next one is told the next place.
    var toldCount = 0
}

/// Sending all clients away, some at a time, so that they do not all come to the next broker at once. Their sessions stay.
extension BrokerShard {
    /// Lets nobody in any more; nil: everybody again.
    public func drain(_ notice: DrainNotice?) {
        if draining.notice == nil || notice == nil { draining.slot = 0 }
        draining.notice = notice
    }

    /// Sends some clients away.
    ///
    /// - Parameter countMax: how many at most; connections that are not logged in go with them, unless they are to be answered.
    public func sendAway(_ countMax: Int) {
        guard let drain = draining.notice else { return }
        var (left, looks) = (countMax, min(connections.slotCount, Limits.drainConnectionsPerStep))
        while left > 0, looks > 0 {
            looks -= 1
            if draining.slot >= connections.slotCount { draining.slot = 0 }
            let connection = connections.connection(inSlot: draining.slot)
            draining.slot += 1
            guard let connection, !connection.isLocal, connection.state != .closing,
                connection.state == .connected || !drain.answersNewcomers
            else { continue }
            left -= 1
            if connection.state == .connected {
                dismiss(
                    connection, drain.reason, telling: Self.drainWords, reference: nextServerReference(drain),
                    "the broker is being drained", will: willFate(ofSentAway: connection))
            } else {
                close(connection)
            }
        }
    }

    /// Refuses a client while others are sent away.
    func checkDraining(_ connection: Connection) throws(ConnectRefusal) {
        guard let drain = draining.notice, !connection.isLocal else { return }
        throw ConnectRefusal(drain.connackReason, Self.drainWords, reference: nextServerReference(drain))
    }

    private func nextServerReference(_ drain: DrainNotice) -> EncodedString? {
        guard !drain.serverReferences.isEmpty else { return nil }
        draining.toldCount &+= 1
        return drain.serverReferences[draining.toldCount % drain.serverReferences.count]
    }

    private static let drainWords = "this broker is being drained."
}
