package import BrokerCore
package import BrokerModel
package import Cluster
import MQTTCodec
package import Persistence
package import Platform
package import Security
import Synchronization
package import Transports

/// What the loops of a broker have in common, and how they are made.
///
///     shards ─► [the store gives them what it kept] ─► loops
package struct LoopSetup {
    /// The settings that are in force at the start.
    package let settings: BrokerSettings
    /// Decides where clients live.
    package let seed: UInt64
    package let tables: SecurityTables
    /// By listener of the configuration.
    package let layers: [TransportLayers]
    package let throttle: LoginThrottle
    /// What keeps the shards' state; nil without persistence.
    package let store: (any InPlaceStore)?
    package let log: Log
    package let admission: ConnectionAdmission
    /// Where answers for administrators go; nil where nobody asks.
    package let control: Mailbox<ControlLoopMessage>?
    private let sessionCount = SharedSessionCount()

    package init(
        settings: BrokerSettings, seed: UInt64, tables: SecurityTables, layers: [TransportLayers], throttle: LoginThrottle,
        store: (any InPlaceStore)?, log: Log, control: Mailbox<ControlLoopMessage>? = nil
    ) {
        self.settings = settings
        self.seed = seed
        self.tables = tables
        self.layers = layers
        self.throttle = throttle
        self.store = store
        self.log = log
        self.control = control
        admission = ConnectionAdmission(listeners: layers.count)
    }

    /// Makes the shards, without clients.
    ///
    /// - Parameters:
    ///   - now: in milliseconds of the loops' clock.
    ///   - random: each shard's random numbers, by its index.
    package func shards(count: Int, now: UInt64, random: (Int) -> any RandomNumberGenerator) -> [BrokerShard] {
        (0..<count).map { index in
            BrokerShard(
                index: index, shardCount: count, settings: settings, seed: seed, random: random(index), sessionCount: sessionCount,
                now: now, isPersistent: store != nil)
        }
    }

    /// Makes a loop for each shard, and lets them know each other; nothing runs yet.
    ///
    /// - Parameters:
    ///   - listeners: by loop, each with its place in the configuration.
    ///   - makeEvents: what each loop turns on, by its index.
    package func loops(
        for shards: [BrokerShard], listeners: [[(listener: any Acceptor, policy: Int)]],
        makeEvents: (Int) throws(SystemError) -> EventLoop
    ) throws(SystemError) -> [ShardLoop] {
        let (backlog, heldMemory) = (ShardMessageBacklog(loops: shards.count), HeldMemory())
        var loops: [ShardLoop] = []
        for shard in shards {
            loops.append(
                ShardLoop(
                    shard: shard, listeners: listeners[shard.index], events: try makeEvents(shard.index), backlog: backlog,
                    heldMemory: heldMemory, setup: self))
        }
        for loop in loops { loop.loops = loops }
        return loops
    }
}

/// The sessions of all loops.
final class SharedSessionCount: SessionCount {
    private let value = Atomic<Int>(0)

    /// Never more than `max` at any time, and refuses only while there are as many: a count that is too high for a
    /// moment would send others away.
    func enter(max: Int?) -> Bool {
        var current = value.load(ordering: .relaxed)
        while current < max ?? .max {
            let (exchanged, original) = value.weakCompareExchange(expected: current, desired: current + 1, ordering: .relaxed)
            if exchanged { return true }
            current = original
        }
        return false
    }

    func leave() { value.subtract(1, ordering: .relaxed) }

    private let users = Locked(UserPlaces())

    func enter(_ bound: UserBound, of user: EncodedString, max: Int?) -> Bool {
        users.withLock { $0.enter(bound, of: user, max: max) }
    }

    func leave(_ bound: UserBound, of user: EncodedString, count: Int) {
        users.withLock { $0.leave(bound, of: user, count: count) }
    }
}

/// What a loop answers the control thread, which has asked it, or given it a command.
package enum LoopAnswer: Sendable {
    /// A page that was asked for.
    case reply(ShardReply)
    /// What has become of a command.
    case outcome(ShardCommandOutcome)
    /// A question or a command was not taken: too many wait there.
    case declined(token: UInt64)
    /// What has happened to a client, while somebody wants to know.
    case event(PresenceEvent)
    /// What a shard has counted.
    case statistics(token: UInt64, shard: Int, ShardStatistics)
}

/// What reaches the control thread's loop from other threads.
package enum ControlLoopMessage: Sendable {
    /// What a loop answers.
    case answer(LoopAnswer)
    /// What a shard has recorded for traces.
    case traced(TraceBatch)
    /// The store takes what it is given, or does not any more.
    case store(StoreReport)
    /// Every loop goes by the configuration that was read last.
    case reloaded
    /// Every loop goes by the list of bans that they were given, one after the other.
    case bansInForce
    /// Somebody has done what may end in a ban.
    case offence(Offence)
    /// How the bridges of a loop are.
    case bridges([BridgeStatus])
    /// How the cluster is.
    case cluster(ClusterStatus)
    /// What nodes of the cluster share has changed.
    case access(AccessNews)
    /// Dynamic security that another node has changed was read; nil with the reason for what cannot be.
    case securityRead(Result<SecurityModel, SecurityFile.Complaint>)
    /// One of the cluster's servers was reached.
    case clusterReached
    /// When the cluster's servers sync.
    case syncConducts([SyncConduct])
    /// An administrator of another node asks.
    case clusterAsked(number: UInt64, NodeQuestion)
    /// What the other nodes have answered.
    case clusterAnswered(token: UInt64, [NodeReport])
    /// A line was logged, while somebody reads the log over HTTP.
    case logged(LogLine)
    /// A client asks the broker for something.
    case control(ControlMessage)
    /// The hashes of passwords that commands on dynamic security set.
    case hashed([[UInt8]: StoredPassword])
    /// A password for a file is hashed; nil where there was no memory for it.
    case entryHashed(number: Int, String?)
    /// The sources of logins have said what they think of a login.
    case loginExplained(number: Int, LoginExplanation)
    /// A login over HTTP is decided.
    case decided(LoginService.Decision)
}
