import BrokerModel
import Bytes
import MQTTCodec

/// Clients that come to a node that has just started and has not found its cluster yet: they wait for it a moment,
/// instead of being refused by a port that is open.
///
///     CONNECT ─► awaitsCluster ─► clusterIsAway(false) ─► ClusterArrivals ─► the login, and so on
///                      └── too long: timedOut ────────► Server unavailable
struct ClusterStart {
    /// When nobody waits any more, in milliseconds.
    let endsAt: UInt64
    /// The connections that wait, and in which order they came.
    private var newcomers: [ConnectionID: Int] = [:]
    private var count = 0

    init(endsAt: UInt64) { self.endsAt = endsAt }

    mutating func add(_ connection: ConnectionID) {
        count += 1
        newcomers[connection] = count
    }

    /// Returns whether it has waited.
    mutating func remove(_ connection: ConnectionID) -> Bool { newcomers.removeValue(forKey: connection) != nil }

    /// All who wait, in their order.
    var inOrder: [ConnectionID] { newcomers.sorted { $0.value < $1.value }.map(\.key) }
}

/// The clients that have waited for the cluster, when it has been found: some of them go on in each turn, so that
/// nobody else waits for all.
struct ClusterArrivals {
    private var waiting = Deque<ConnectionID>()

    var isEmpty: Bool { waiting.isEmpty }

    mutating func append(_ connection: ConnectionID) { waiting.append(connection) }

    /// The next of them, no more than so many.
    mutating func take(_ count: Int) -> [ConnectionID] {
        let taken = Array(waiting.prefix(count))
        waiting.removeFirst(taken.count)
        return taken
    }
}

extension ClusterMessaging {
    /// Whether a client waits until its node has found the cluster. Whoever has logged in already goes on behind that.
    func awaitsCluster(_ connection: Connection) -> Bool {
        guard let cluster = shard.cluster, cluster.isAway, let start = cluster.start, shard.now < start.endsAt,
            shard.settings.refusesWithoutCluster,
            shard.policy.draining.notice == nil, !connection.client.isLocal
        else { return false }
        cluster.start?.add(connection.id)
        shard.rearm(connection, at: min(shard.now + shard.settings.connectTimeoutMilliseconds, start.endsAt))
        shard.log(.debug) { "Client \(connection.name) waits until this node has found its cluster." }
        return true
    }

    /// The cluster is reached for the first time: who waits for it goes on, in this turn and the next ones.
    func beginCluster(_ start: ClusterStart) {
        for id in start.inOrder {
            if let connection = shard.connections.find(id) { shard.connecting.advance(connection, .clusterFound) }
        }
    }

    /// Whether a client that comes has to stand behind those who have waited: it may be one of them, come once more.
    func hasToQueue(_ connection: Connection) -> Bool {
        guard let cluster = shard.cluster else { return false }
        return !cluster.arrivals.isEmpty && !cluster.isAway && !connection.client.isLocal
    }

    /// Has a client wait behind the others.
    func lineUp(_ connection: Connection) {
        // Its turn comes, however many there are.
        shard.wheel.disarm(connection.timer)
        connection.timer = TimerWheel.none
        shard.cluster?.arrivals.append(connection.id)
    }

    /// The next of those who have waited go on.
    func stepArrivals(_ cluster: ClusterPort) {
        for id in cluster.arrivals.take(Limits.newcomersPerTurn) {
            guard let connection = shard.connections.find(id), connection.state == .authenticating else { continue }
            shard.rearm(connection, at: shard.now + shard.settings.connectTimeoutMilliseconds)
            shard.connecting.advance(connection, .turnCame)
            shard.memoryBound.recount(connection)
        }
    }

    /// Refuses a client while the cluster cannot be reached, where that matters.
    func checkCluster(_ connection: Connection) throws(ConnectRefusal) {
        if let cluster = shard.cluster, cluster.isAway, shard.settings.refusesWithoutCluster, !connection.client.isLocal {
            throw Self.withoutCluster
        }
    }

    static let withoutCluster = ConnectRefusal(
        .serverUnavailable, "the cluster cannot be reached (martlet_cluster_detached refuse).")
}

extension ClusterArrivals: TurnFeature {
    static func hasWork(_ shard: BrokerShard) -> Bool { shard.cluster.map { !$0.arrivals.isEmpty } ?? false }
    static func step(_ shard: BrokerShard) { if let cluster = shard.cluster { shard.clusterMessaging.stepArrivals(cluster) } }
}

extension Limits {
    /// Clients that waited until their node had found the cluster, and go on in a turn; the others wait for the next.
    /// Each is some 15 µs.
    static let newcomersPerTurn = 128
}
