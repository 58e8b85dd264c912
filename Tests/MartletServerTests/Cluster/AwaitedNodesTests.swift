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
