import MQTTCodec

/// Clients that come to a node that has just started and has not found its cluster yet: they wait for it a moment, instead of being refused by a
/// port that is open.
///
///     CONNECT ─► awaitsCluster ─► clusterIsAway(false) ─► the login, and so on
///                      └── too long ──────────────────► Server unavailable
struct ClusterStart {
    /// When nobody waits any more, in milliseconds.
    let endsAt: UInt64
    /// Who waits, and in which order they came.
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

extension BrokerShard {
    /// Whether a client waits until its node has found the cluster. Whoever has logged in already goes on behind that.
    func awaitsCluster(_ connection: Connection, login: VerifiedLogin? = nil) -> Bool {
        guard let cluster, cluster.isAway, let start = cluster.start, now < start.endsAt, settings.refusesWithoutCluster,
            drain == nil, !connection.isLocal
        else { return false }
        cluster.start?.add(connection.id)
        if let login { connection.makeExtras().login = login }
        rearm(connection, at: min(now + settings.connectTimeoutMilliseconds, start.endsAt))
        log(.debug) { "Client \(connection.name) waits until this node has found its cluster." }
        return true
    }

    /// The cluster is reached for the first time: who waits for it goes on.
    func beginCluster(_ start: ClusterStart) {
        for id in start.inOrder {
            guard let connection = connections.find(id), connection.state == .authenticating,
                let packet = connection.extras?.pendingConnect
            else { continue }
            rearm(connection, at: now + settings.connectTimeoutMilliseconds)
            if let login = connection.extras?.login {
                admit(connection, packet, userName: login.userName, authenticationData: login.authenticationData)
            } else {
                decide(connection, packet, settings.listeners[connection.info.listener])
            }
            recount(connection)
        }
    }

    /// A client has waited long enough; false if it does not wait for the cluster.
    func refusesUnstarted(_ connection: Connection) -> Bool {
        guard cluster?.start?.remove(connection.id) == true else { return false }
        refuseConnect(connection, .serverUnavailable, Self.withoutClusterWords)
        return true
    }

    static let withoutClusterWords = "the cluster cannot be reached (martlet_cluster_detached refuse)."
}
