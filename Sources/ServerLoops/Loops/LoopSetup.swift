package import BrokerCore
package import BrokerModel
package import EpollLoop
package import Persistence
package import Platform
package import Security
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
