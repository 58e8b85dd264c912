import Administration
import BrokerCore
import Cluster
import NATSClient

/// What the log tells of nodes that are away, and of the clients that wait for them.
extension SessionDesk {
    /// What becomes of the clients of a node whose lease has ended, in words.
    func prospect(of gone: NodeID) -> String {
        let until = awaitedUntil(gone.store)
        guard until > now else {
            return "sessions of its clients that come here are taken up from what the cluster has of them"
        }
        return
            "clients that come here for sessions which it has are refused until \(clockTime(until)) (martlet_cluster_session_wait); "
            + "if it is not back by then, the sessions are taken up from what the cluster has of them"
    }

    /// When clients wait no more for a node that is missed.
    private func awaitedUntil(_ store: UInt32) -> UInt64 { (missedSince[store] ?? now) + plan.sessionWaitMilliseconds }

    private func clockTime(_ time: UInt64) -> String { Timestamp.text(wallClock &+ time &- now) }

    /// Tells by their number of clients that have been refused meanwhile.
    func tellAwaited() {
        for (node, count) in awaited.due(now: now) {
            let until = awaitedUntil(node.store)
            let end = until > now ? ", and is waited for until \(clockTime(until))" : ""
            log(
                .warning,
                "\(count) more \(count == 1 ? "client was" : "clients were") refused: the node that has their sessions, \(shownName(node)), was away\(end)."
            )
        }
    }
}
