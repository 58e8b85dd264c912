import Administration
import BrokerCore
import BrokerModel
import Cluster
import NATSClient

/// What the log tells of nodes that are away, and of the clients that wait for them.
extension SessionCoordinator {
    /// What becomes of the clients of a node whose lease has ended, in words.
    func prospect(of gone: NodeID) -> String {
        let until = awaitedUntil(gone.store)
        guard until > now else {
            return "sessions of its clients that connect here are restored from the cluster's copy"
        }
        return
            "clients that connect here and have their session there are refused until \(clockTime(until)) "
            + "(martlet_cluster_session_wait); if it is not back by then, their sessions are restored from the cluster's copy"
    }

    /// When clients wait no more for a node that is missed.
    private func awaitedUntil(_ store: UInt32) -> UInt64 { (missedSince[store] ?? now) + plan.sessionWaitMilliseconds }

    private func clockTime(_ time: UInt64) -> String { Timestamp.text(wallClock &+ time &- now) }

    /// Tells by their number of clients that have been refused meanwhile.
    func logAwaited() {
        for (node, count) in awaited.due(now: now) {
            let until = awaitedUntil(node.store)
            let end = until > now ? "; it is waited for until \(clockTime(until))" : ""
            log(
                .warning,
                "\(count) more \(count == 1 ? "client was" : "clients were") refused: the node that has their sessions, \(shownName(node)), was not there\(end)."
            )
        }
    }
}
