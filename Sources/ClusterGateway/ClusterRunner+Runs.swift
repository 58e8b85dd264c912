import BrokerModel
import Cluster
import NATSClient
import ServerLoops

/// A node whose lease has ended goes on as another one: see `NodeRuns`.
extension ClusterRunner {
    /// The lease has ended: others act for this node. It goes on as another one, when all loops have let go of what the last one had to do. Where
    /// nothing is logged, there is nothing that others would do.
    func endRun() {
        // Who does not stand in the next list may be about to get a lease, as this node is: nobody knows that it is gone.
        others = []
        guard dealing != nil else { return leases.beginAgain() }
        sessions?.leaseEnded()
        connection.abandon()
        wentAway(withRefusals("this node's lease has expired"))
        runs.begin()
        lane.begin(as: runs.current)
        leases.begin(as: runs.current)
        members.begin(as: runs.current, now: now)
        retained.begin(as: runs.current)
        change = RunChange(loops: loop.loops.count)
        log?.beginRun()
        for other in loop.loops { other.post(.endRun(next: runs.current), from: loop) }
    }

    func runBegun(by shard: Int, _ past: StoredDealing?) {
        guard let pasts = change?.begun(shard, past) else { return }
        change = nil
        dealing?.beginRun(pasts)
        connection.start()
    }
}
