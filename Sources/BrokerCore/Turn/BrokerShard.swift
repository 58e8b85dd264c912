public import BrokerModel
import Bytes
import MQTTCodec

/// One shard of the broker: the connections, sessions, subscriptions and retained messages that belong to one event
/// loop.
///
/// Pure: it reads no clock, opens no socket and starts no thread. What happens comes in as a call, what it wants done
/// goes out as an `Effect` or as bytes in a connection's output. Every call is total: it never throws, blocks or traps
/// on what a peer sent. All calls come from the thread of the shard's loop, each turn in this order:
///
///     advance(to:) ─► receivedShardMessages … ─► connected / received / closed … ─► endTurn(into:) ─► takeEffects
public final class BrokerShard {
    public let index: Int
    public let placement: ShardPlacement
    public internal(set) var settings: BrokerSettings {
        didSet { updateMayRefusePublishers() }
    }
    /// Milliseconds on the shell's monotonic clock, as `advance` was last told.
    public internal(set) var now: UInt64

    var connections = ConnectionTable()
    var sessions: SessionTable
    var tree: SubscriptionTree
    var matchCache: MatchCache
    var retained: RetainedStore
    var groups = ShareGroupTable()
    var arena = Arena()
    var pool = BufferPool()
    var wheel: TimerWheel
    /// Random numbers that nobody else knows.
    private var random: any RandomNumberGenerator
    var statistics = ShardStatistics()
    /// Which clients may be here, and how much each may have.
    var policy: ShardPolicy
    /// What administrators see and have done.
    var inspection: Inspection
    /// What goes to other nodes; nil on a broker that is alone.
    var cluster: ClusterPort?
    /// What the store has of a cluster.
    var clusterRows = ClusterRows()

    /// The connections whose output is written when the turn ends.
    var output = FlushQueue()
    /// What stays from one message to the next while they are dispatched.
    var dispatchState = DispatchState()
    var effects: [Effect] = []
    /// What the other shards get when the turn ends.
    var shardMessages: OutgoingShardMessages
    var scans = RetainedScans()
    let ledger = MessageLedger()
    /// The changes that the store is to keep; nil without persistence.
    let journal: Journal?
    /// The acknowledgements that wait for the store, here and on other shards; nil without persistence.
    var durability: Durability?
    /// The QoS 2 messages that several shards have a part of.
    var receipts = RelayedReceipts()
    /// The connections that wait until there is room for their messages.
    var room = AwaitedRoom()
    var scratch = PublishScratch()

    /// - Parameters:
    ///   - index: which of `shardCount` shards this is, from 0.
    ///   - shardCount: 1 to 64.
    ///   - settings: what the operator has chosen.
    ///   - seed: must be the same for all shards of a broker: it decides which shard a client lives on.
    ///   - random: where assigned Client Identifiers come from, which let in whoever knows them: the kernel's random
    ///     numbers, save in a simulation. The shard's own.
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
        room.mayRefusePublishers = settings.mayRefusePublishers
        policy = ShardPolicy(self.settings)
        self.now = now
        placement = ShardPlacement(shardCount: shardCount, hashing: hashing)
        sessions = SessionTable(shard: index, ofBroker: sessionCount)
        tree = SubscriptionTree(hashing: hashing)
        matchCache = MatchCache(hashing: hashing)
        retained = RetainedStore(hashing: hashing)
        inspection = Inspection(of: placement, shard: index, keptBytesMax: settings.keptBytesMax, now: now)
        wheel = TimerWheel(now: now)
        self.random = random
        ledger.clockMicroseconds = now &* 1000
        shardMessages = OutgoingShardMessages(from: index, shardCount: shardCount)
        journal = isPersistent ? Journal(shard: index) : nil
        durability = journal.map { Durability(shard: index, shardCount: shardCount, journal: $0) }
        if index == 0, settings.systemIntervalSeconds > 0 { figures.beginSystemTopics() }
        retainedMessages.armRetainedSweep()
    }

    deinit {
        for connection in connections.all { disconnecting.release(connection) }
        for session in sessions.all { session.queue.removeAll(nil) }
    }

    var shardCount: Int { placement.shardCount }

    /// The shard's part in the log; nil where there is none.
    var clusterLog: ShardLog? { cluster?.log }

    func updateMayRefusePublishers() {
        room.mayRefusePublishers = settings.mayRefusePublishers || cluster?.log?.refusesPublishers ?? false
    }

    func nextRandom() -> UInt64 { random.next() }

    /// The facts about a connection's other end; nil when it has ended.
    public func info(of id: ConnectionID) -> ConnectionInfo? { connections.find(id)?.info }

    /// What the log calls a connection whose layers below MQTT end it; nil before it has an identifier.
    public func name(of id: ConnectionID) -> String? { connections.find(id)?.knownName }

    /// Whether the transport has taken less than it was given, and `writable` is waited for.
    public func isBlocked(_ id: ConnectionID) -> Bool { connections.find(id)?.pace.isBlocked ?? false }

    /// Ends the turn: hands out the shard messages, so that the other shards work meanwhile, and gives every
    /// connection's output to its transport.
    ///
    /// - Parameters:
    ///   - sink: the connections' transports.
    ///   - post: takes a batch to the shard with this index, behind all that went there before.
    public func endTurn(into sink: any OutputSink, post: (_ shard: Int, ShardMessageBatch) -> Void) {
        assert(dispatchState.batch.isEmpty)
        stepBeforeFlush()
        if shardCount > 1 { messaging.postShardMessages(post) }
        flush(into: sink)
        stepBehindFlush()
        arena.rewind()
        if shardCount > 1 { messaging.postShardMessages(post) }
    }

    /// The transport takes bytes again after it had taken less than it was given.
    public func writable(_ id: ConnectionID, sink: any OutputSink) {
        guard let connection = connections.find(id) else { return }
        connection.pace.isBlocked = false
        flush(connection, into: sink)
    }

    /// Calls `body` with each effect since the last call, in order. Connections and sessions that ended are forgotten
    /// afterwards.
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

    /// When `advance` must next be called, in milliseconds; nil for never; not after `now` when work is left for
    /// another turn.
    public var nextDeadline: UInt64? {
        if wheel.isBehind || !output.isEmpty || !effects.isEmpty || !shardMessages.isEmpty { return now }
        guard let deadline = featureDeadline else { return wheel.nextDeadline }
        return wheel.nextDeadline.map { min($0, deadline) } ?? deadline
    }

    /// How many packets the shard has taken in and messages it has sent out so far: by how much they grow tells how
    /// busy a turn is.
    public var workDone: (packetsReceived: UInt64, messagesSent: UInt64) { (statistics.messagesReceived, statistics.messagesSent) }

    /// Bytes of shard messages for other shards that wait for the end of the turn.
    public var outgoingBytes: Int { shardMessages.byteCount }

    /// Whether a connection has more to be sent than it may: a client that asks and does not read the answers. Nothing
    /// more is to be read from it until it does; messages are dropped before they come to this.
    public func isFlooded(_ id: ConnectionID) -> Bool {
        (connections.find(id)?.output.pendingBytes ?? 0) > settings.outputBytesMax
    }

    /// Whether no connection is left.
    public var isIdle: Bool { connections.count == 0 && sessions.ended.isEmpty && isPersisted }

    /// Whether a packet of any client is still being worked off.
    public var hasOpenPackets: Bool { !connections.openPackets.isEmpty }

    /// Whether a packet of this client is: nothing more is to be read from it until the next turn.
    public func hasOpenPacket(_ id: ConnectionID) -> Bool {
        // What waits for a decision about its topic goes on in no turn of its own: what comes behind it is kept, within
        // bounds.
        connections.find(id).map { $0.hasOpenPacket && $0.extras?.awaitsDecision != true } ?? false
    }
}

/// What a shard wants done that it cannot do itself. Effects are to be carried out in order.
///
/// Large cases are indirect, so that log lines, which are the most effects, are not as large as they.
public enum Effect: Sendable {
    /// The connection has ended: close its transport. Its output is drained, or was given up.
    case close(ConnectionID)
    /// The connection's client lives on another shard: move the transport there and call `adopt` on that shard.
    indirect case handOver(ConnectionID, HandOver)
    /// Decide whether the client may connect, and answer with `authenticated`.
    indirect case authenticate(ConnectionID, AuthenticationRequest)
    /// Have the authority decide about a topic, and answer with `decided`.
    indirect case authorize(ConnectionID, TopicQuestion, any TopicAuthority)
    /// Make a batch of changes durable, and report it.
    case store(JournalBatch)
    /// Read rows from the store, and report them.
    indirect case read(StoreRequest)
    /// Tell a local client's party.
    case local(ConnectionID, LocalEvent)
    /// Give whoever asked a page of the answer.
    indirect case reply(ShardReply)
    /// Tell whoever gave a command what has become of it.
    indirect case outcome(ShardCommandOutcome)
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
