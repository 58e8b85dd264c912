import Cluster
import ServerLoops

/// What a node tells of its cluster below `$SYS/broker/cluster/`: each value when it has changed.
struct ClusterTopics {
    private var published: [String: String] = [:]

    /// The topics whose value has changed.
    mutating func changes(_ status: ClusterStatus, name: String) -> [(topic: String, value: String)] {
        let totals = ClusterTotals(status.members)
        let values: [(String, String)] = [
            ("name", name), ("state", status.trouble == nil ? "ok" : "detached"), ("nodes/up", "\(totals.nodesUp)"),
            ("nodes/silent", "\(totals.nodesSilent)"), ("nodes/gone", "\(totals.nodesGone)"),
            ("nodes/draining", "\(totals.nodesDraining)"), ("clients/connected", "\(totals.clientsConnected)"),
            ("clients/total", "\(totals.sessions)"), ("subscriptions/count", "\(totals.subscriptions)"),
            ("messages/stored", "\(totals.storedMessages)"), ("messages/received/second", "\(totals.receivedRate)"),
            ("messages/sent/second", "\(totals.sentRate)"), ("messages/dropped", "\(totals.dropped)"),
        ]
        return values.compactMap { name, value in
            guard published.updateValue(value, forKey: name) != value else { return nil }
            return ("$SYS/broker/cluster/" + name, value)
        }
    }
}
