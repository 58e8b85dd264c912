import BrokerModel
import Cluster
import Testing

@testable import ClusterGateway
@testable import MartletServer

@Suite struct AwaitedNodesTests {
    private let node = NodeID(store: 2, incarnation: 1)

    @Test func `the first is told at once, the others by their number from time to time, and then the first one again`() {
        var awaited = AwaitedNodes()
        let told = (0...300).map { awaited.refuses(for: node, now: $0 == 0 ? 1000 : 5000) }
        #expect(told == [true] + Array(repeating: false, count: 300))
        let times: [UInt64] = [5000, 10_999, 11_000, 20_999, 21_000]
        let due = times.map { now in awaited.due(now: now).map(\.count) }
        #expect(due == [[], [], [300], [], []])
        // Nobody has come since.
        #expect(awaited.isEmpty)
        let again = awaited.refuses(for: node, now: 22_000)
        #expect(again)
    }
}

/// What a node waits for, told when it takes long.
@Suite struct AwaitedReasonTests {
    @Test func `a reason is given when nothing has been carried for a while, and begins anew when messages were`() {
        var awaited = AwaitedReason()
        let looks: [(String?, UInt64, String?)] = [
            ("a", 1000, nil), ("b", 5999, nil), ("b", 6000, "b"), ("c", 7000, "c"), (nil, 8000, nil), ("c", 9000, nil),
            ("c", 14_000, "c"),
        ]
        for (reason, now, given) in looks { #expect(awaited.look(reason, now: now) == given) }
    }
}

/// A node that goes on as another one.
@Suite struct IncarnationChangeTests {
    @Test func `the next incarnation begins when all loops have ended the last one, with what all say of it`() {
        var change = IncarnationChange(loops: 2)
        let parts = [
            StoredDispatches(parts: [.init(incarnation: 1, done: [5, 9])]),
            StoredDispatches(parts: [.init(incarnation: 1, done: [6, 8])]),
        ]
        #expect(!change.ended(parts[0]) && change.isWaiting(for: 0) && change.isWaiting(for: 1))
        #expect(change.ended(parts[1]) && change.stored == StoredDispatches(parts: [.init(incarnation: 1, done: [5, 8])]))
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
