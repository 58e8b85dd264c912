import BrokerModel
import Cluster
import Testing

@testable import ClusterGateway
@testable import MartletServer

/// A node that goes on as another one.
@Suite struct RunChangeTests {
    @Test func `the next run begins when all loops have ended the last one, with what all say of it`() {
        var change = RunChange(loops: 2)
        let parts = [StoredDealing(parts: [.init(run: 1, done: [5, 9])]), StoredDealing(parts: [.init(run: 1, done: [6, 8])])]
        #expect(!change.ended(parts[0]) && change.isWaiting(for: 0) && change.isWaiting(for: 1))
        #expect(change.ended(parts[1]) && change.stored == StoredDealing(parts: [.init(run: 1, done: [5, 8])]))
        #expect(change.begun(1, parts[0]) == nil)
        #expect(change.isWaiting(for: 0) && !change.isWaiting(for: 1))
        #expect(change.begun(0, nil) == [parts[0]])
    }

    @Test func `without a log there is nothing to settle`() {
        var change = RunChange(loops: 1)
        #expect(change.ended(nil) && change.stored == nil && change.begun(0, nil)?.isEmpty == true)
    }

    @Test func `a process knows all its runs, each of the same store`() {
        let runs = NodeRuns(NodeRuns.first(storeSeed: 7 << 32 | 2))
        #expect(runs.current.store == 5)
        let first = runs.current
        runs.begin()
        #expect(runs.current != first && runs.current.store == 5 && runs.contains(first) && runs.contains(runs.current))
        #expect(!runs.contains(NodeID(store: 6, run: 1)))
    }
}
