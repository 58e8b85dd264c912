import BrokerModel
import Cluster
import Testing

@testable import ClusterGateway
@testable import MartletServer

/// A node that goes on as another one.
@Suite struct IncarnationChangeTests {
    @Test func `the next incarnation begins when all loops have ended the last one, with what all say of it`() {
        var change = IncarnationChange(loops: 2)
        let parts = [
            StoredDealing(parts: [.init(incarnation: 1, done: [5, 9])]),
            StoredDealing(parts: [.init(incarnation: 1, done: [6, 8])]),
        ]
        #expect(!change.ended(parts[0]) && change.isWaiting(for: 0) && change.isWaiting(for: 1))
        #expect(change.ended(parts[1]) && change.stored == StoredDealing(parts: [.init(incarnation: 1, done: [5, 8])]))
        #expect(change.begun(1, parts[0]) == nil)
        #expect(change.isWaiting(for: 0) && !change.isWaiting(for: 1))
        #expect(change.begun(0, nil) == [parts[0]])
    }

    @Test func `without a log there is nothing to settle`() {
        var change = IncarnationChange(loops: 1)
        #expect(change.ended(nil) && change.stored == nil && change.begun(0, nil)?.isEmpty == true)
    }

    @Test func `a process knows all its runs, each of the same store`() {
        let incarnations = NodeIncarnations(NodeIncarnations.first(storeSeed: 7 << 32 | 2))
        #expect(incarnations.current.store == 5)
        let first = incarnations.current
        incarnations.begin()
        #expect(
            incarnations.current != first && incarnations.current.store == 5 && incarnations.contains(first)
                && incarnations.contains(incarnations.current))
        #expect(!incarnations.contains(NodeID(store: 6, incarnation: 1)))
    }
}
