public import BrokerCore
public import BrokerModel
package import Bytes
public import MQTTCodec

/// A broker of some shards in one thread, on a simulated clock and network: one seed is one run.
///
/// Nothing happens by itself: what clients send waits until `settle()`, and time stands still until `advance`. Mail
/// between two shards keeps its order; between pairs of shards, and between shards' turns, the seed decides.
public final class SimulatedBroker {
    public let seed: UInt64
    /// Milliseconds.
    public package(set) var now: UInt64
    /// What the broker has logged, in order.
    public package(set) var logLines: [String] = []
    /// The clients that came and went, in order.
    public package(set) var presence: [PresenceEvent] = []
    /// What may end in a ban, in order.
    public package(set) var offences: [Offence] = []
    /// What the shards had to tell a cluster that they have joined, in order.
    public package(set) var clusterNotes: [(shard: Int, note: ToCluster)] = []
    /// What the traces have recorded, in order.
    public package(set) var traces: [TraceBatch] = []
    /// Gets each batch of it, if somebody wants them at once.
    public var traced: (TraceBatch) -> Void = { _ in }
    /// Decides on logins at once, or later with `answer` when it returns nil. Without it all are accepted.
    public var authenticate: ((AuthenticationRequest) -> AuthenticationOutcome?)?
    /// The logins that wait for `answer`.
    public package(set) var pendingAuthentications: [PendingAuthentication] = []
    /// How many turns all shards have made.
    public package(set) var turnCount = 0
    /// Whether the shards are looked through after each turn, which takes as long as they have much.
    public var checksInvariants = true
    /// Where connections come from that are opened next.
    public var address = "192.0.2.1"
    /// How many turns one `settle()` may take before the process ends.
    public var settleTurnsMax = 2_000_000

    /// What outlives the broker; nil without persistence.
    public let store: SimulatedStore?
    /// What it gave back at the start.
    public let recovered: RecoverySummary
    let settings: BrokerSettings

    /// What all shards count together.
    public let sessionCount = SimulatedSessionCount()
    package var shards: [SimulatedShard]
    package var random: SeededGenerator
    private var nextShard = 0

    /// Makes a broker that has just started.
    ///
    /// - Parameters:
    ///   - shards: 1 to 64.
    ///   - settings: `testSettings` are mosquitto's defaults without `$SYS`, so that a test counts only what it did
    ///     itself.
    ///   - seed: decides everything that is random.
    ///   - store: what is kept and what was kept; its seed places clients on shards.
    ///   - start: the simulated clock's first time, in milliseconds.
    public init(
        shards: Int = 1, settings: BrokerSettings = SimulatedBroker.testSettings, seed: UInt64 = 1, store: SimulatedStore? = nil,
        start: UInt64 = 1_000_000
    ) {
        self.seed = seed
        self.store = store
        self.settings = settings
        now = start
        random = SeededGenerator(seed: seed)
        let cores = (0..<shards).map { [sessionCount] index in
            BrokerShard(
                index: index, shardCount: shards, settings: settings, seed: store?.seed ?? seed,
                random: SeededGenerator(seed: seed &* 0x9e37_79b9_7f4a_7c15 &+ UInt64(index)), sessionCount: sessionCount,
                now: start, isPersistent: store != nil)
        }
        recovered = store?.load(into: cores) ?? RecoverySummary()
        self.shards = cores.map { SimulatedShard(index: $0.index, core: $0, shardCount: shards) }
    }

    /// Ends without a word, as a power cut does, and starts again on what the store has.
    ///
    /// - `committing`: how many of the batches that the store has not reported yet reach the disk all the same.
    /// - `shards`: how many there are from now on.
    /// - `settings`: those from now on; as they were if it is nil.
    public func crashed(
        committing: Int = 0, afterMilliseconds downtime: UInt64 = 0, shards: Int? = nil, settings: BrokerSettings? = nil,
        seed: UInt64? = nil
    ) -> SimulatedBroker {
        store?.crash(committing: committing)
        powerOff()
        return SimulatedBroker(
            shards: shards ?? shardCount, settings: settings ?? self.settings, seed: seed ?? self.seed &+ 1, store: store,
            start: now + downtime)
    }

    /// Lets go of the network. A broker and its connections hold each other, so that one that is not to be used any
    /// more, and is not powered off, stays in memory for as long as the tests run.
    public func powerOff() {
        for shard in shards { shard.powerOff() }
        pendingAuthentications = []
    }

    /// The default settings, without messages of the broker's own.
    public static var testSettings: BrokerSettings {
        var settings = BrokerSettings()
        settings.systemIntervalSeconds = 0
        return settings
    }

    /// The default settings, without messages of the broker's own, and with what `change` makes of them.
    public static func testSettings(_ change: (inout BrokerSettings) -> Void) -> BrokerSettings {
        var settings = testSettings
        change(&settings)
        return settings
    }

    public var shardCount: Int { shards.count }

    /// The shards themselves, for tests that look inside.
    public var cores: [BrokerShard] { shards.map(\.core) }

    /// Opens a connection; shards accept in rotation.
    ///
    /// - Parameter listener: which of the settings' listeners it comes through.
    public func open(listener: Int = 0) -> SimulatedConnection {
        let shard = nextShard
        nextShard = (nextShard + 1) % shards.count
        let connection = SimulatedConnection(broker: self, peer: SimulatedPeer(shard: shard))
        let info = ConnectionInfo(address: address, port: UInt16(truncatingIfNeeded: 40_000 + turnCount), listener: listener)
        shards[shard].arrivals.append(SimulatedShard.Arrival(connection: connection, info: info, handOver: nil))
        return connection
    }

    /// The shard that a client of this identifier lives on.
    public func shard(of identifier: EncodedString) -> Int { shards[0].core.placement.shard(of: identifier) }

    /// Lets the store commit what it has, and settles.
    public func commit() {
        store?.commit(shards)
        settle()
    }

    /// Answers a login that waited, and settles.
    public func answer(_ pending: PendingAuthentication, _ outcome: AuthenticationOutcome) {
        pendingAuthentications.removeAll { $0.connection === pending.connection }
        shards[pending.connection.peer.shard].answers.append((pending.connection, outcome))
        settle()
    }

    /// The sum of what all shards count.
    public func statistics() -> ShardStatistics {
        var sum = ShardStatistics()
        for shard in shards { sum.add(shard.core.currentStatistics()) }
        return sum
    }

    /// Stops all shards, and settles.
    public func stop() {
        for shard in shards { shard.core.stop() }
        for shard in shards { turn(shard) }
        settle()
        store?.end(cores)
    }

    /// Whether no connection is left.
    public var isIdle: Bool { shards.allSatisfy { $0.core.isIdle } }
}

/// The simulated clock.
extension SimulatedBroker {
    /// Lets time pass, stopping at every deadline of a shard and settling there, so that timers fire in their exact
    /// order.
    public func advance(milliseconds: UInt64) {
        let end = now + milliseconds
        settle()
        while let next = shards.compactMap({ $0.core.nextDeadline }).min(), next <= end {
            now = max(now, next)
            for shard in shards where shard.core.nextDeadline.map({ $0 <= now }) ?? false { turn(shard) }
            settle()
        }
        now = end
        for shard in shards { turn(shard) }
        settle()
    }

    /// The clock goes on while no shard has a turn, as that of a process that is stopped: what was due comes late.
    package func stall(until time: UInt64) { now = max(now, time) }

    public func advance(seconds: UInt64) { advance(milliseconds: seconds * 1000) }
}
