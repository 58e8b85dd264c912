import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// A node whose lease has ended goes on as another one: see `NodeIncarnations`.
extension ClusterRunner {
    /// The lease has ended: others act for this node. It goes on as another one, when all loops have let go of what the last one had to do. Where
    /// nothing is logged, there is nothing that others would do.
    func endIncarnation() {
        // Who does not stand in the next list may be about to get a lease, as this node is: nobody knows that it is gone.
        others = []
        guard dealing != nil else { return leases.beginAgain() }
        sessions?.leaseEnded()
        connection.abandon()
        wentAway(withRefusals("this node's lease has expired"))
        incarnations.begin()
        lane.begin(as: incarnations.current)
        leases.begin(as: incarnations.current)
        members.begin(as: incarnations.current, now: now)
        retained.begin(as: incarnations.current)
        change = IncarnationChange(loops: loop.loops.count)
        log?.beginIncarnation()
        for other in loop.loops { other.post(.endIncarnation(next: incarnations.current), from: loop) }
    }

    func incarnationBegun(by shard: Int, _ past: StoredDealing?) {
        guard let pasts = change?.begun(shard, past) else { return }
        change = nil
        dealing?.beginIncarnation(pasts)
        connection.start()
    }
}
