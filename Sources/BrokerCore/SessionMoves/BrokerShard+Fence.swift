import MQTTCodec

/// A node that must not act for its sessions any more.
extension BrokerShard {
    /// Disconnects all clients whose sessions are the cluster's, with Server shutting down (0x8B): other nodes may
    /// serve them from now on.
    func fenceClients(_ explanation: String) {
        guard clusterLog != nil else { return }
        // What becomes of their wills is for whoever keeps them next.
        for session in sessions.all { session.isClaimed = false }
        if let moves = cluster?.moves {
            let waiting = moves.awaitingLog.keys.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
            for name in waiting { endWaitInVain(name, moves, "\(explanation).") }
        }
        for connection in Array(connections.all) where connection.state == .connected && !connection.isLocal {
            refuse(connection, .serverShuttingDown, because: "\(explanation).")
        }
    }
}
