import Testing

@testable import Cluster

/// Who is a node of the cluster, as one of them sees it.
@Suite struct MemberTableTests {
    private let me = NodeID(1 << 32 | 1)

    /// A node with a store of its own.
    private func id(_ number: UInt64) -> NodeID { NodeID(number << 32 | 1) }

    private func summary(_ node: UInt64, _ name: String, _ change: (inout NodeSummary) -> Void = { _ in }) -> NodeSummary {
        var summary = summary(id(node), name)
        change(&summary)
        return summary
    }

    private func summary(_ node: NodeID, _ name: String) -> NodeSummary {
        var summary = NodeSummary(node: node)
        summary.name = name
        return summary
    }

    private func states(_ table: MemberTable) -> [String: ClusterMember.State] {
        Dictionary(table.members.map { ($0.summary?.name ?? "\($0.node.store)", $0.state) }) { first, _ in first }
    }

    @Test func `a node is silent by its lease, up by its word, and silent again without`() {
        var table = MemberTable(node: me)
        table.heard(summary(1, "a"), now: 0)
        table.listed([me, id(2)], now: 0)
        #expect(states(table) == ["a": .up, "2": .silent])
        table.heard(summary(2, "b"), now: 1000)
        #expect(states(table) == ["a": .up, "b": .up])
        table.heard(summary(1, "a"), now: 7999)
        #expect(states(table) == ["a": .up, "b": .up])
        table.settle(now: 8000)
        #expect(states(table) == ["a": .up, "b": .silent])
        #expect(table.members.map(\.since) == [0, 8000] && table.members.map(\.isSelf) == [true, false])
    }

    @Test func `a node that goes on as another one is shown once`() {
        var table = MemberTable(node: me)
        table.listed([me, id(2)], now: 0)
        table.heard(summary(1, "a"), now: 0)
        table.begin(as: id(3), now: 15_000)
        table.heard(summary(3, "a"), now: 20_000)
        table.listed([id(2), id(3)], now: 20_000)
        #expect(table.members.filter { $0.summary?.name == "a" }.map(\.node) == [id(3)])
        #expect(table.members.filter(\.isSelf).map(\.node) == [id(3)])
    }

    /// An incarnation of a node with a store of its own.
    private func run(_ incarnation: UInt32, _ store: UInt32) -> NodeID { NodeID(store: store, incarnation: incarnation) }

    @Test func `an earlier incarnation of a node, or of this one, is no other node`() {
        var table = MemberTable(node: run(1, 1))
        let names: [UInt32: String] = [1: "a", 2: "b", 3: "c"]
        for (store, name) in names { table.heard(summary(run(1, store), name), now: 1000) }
        table.listed((1...3).map { run(1, $0) }, now: 1000)
        #expect(table.othersCount(among: (2...3).map { run(1, $0) }) == 2)
        // All leases have ended, and those of the incarnations that begin stand beside them for a while.
        table.begin(as: run(2, 1), now: 5000)
        #expect(table.members.filter(\.isSelf).map(\.node) == [run(2, 1)])
        for (store, name) in names { table.heard(summary(run(2, store), name), now: 6000) }
        // What was on its way from the last ones.
        for (store, name) in names { table.heard(summary(run(1, store), name), now: 6100) }
        let leases = (1...3).flatMap { [run(1, $0), run(2, $0)] }
        table.listed(leases, now: 6200)
        for now in [6200, 8000] as [UInt64] {
            table.settle(now: now)
            #expect(table.members.map(\.node) == [run(2, 1), run(2, 2), run(2, 3)])
            #expect(table.namesakes.isEmpty && table.members.allSatisfy { $0.state == .up })
        }
        #expect(table.othersCount(among: leases.filter { $0 != run(2, 1) }) == 2)
    }

    @Test func `two processes with a copy of one store are two nodes`() {
        var table = MemberTable(node: me)
        for second in stride(from: 0, to: 20_000, by: 2000) as StrideTo<UInt64> {
            table.heard(summary(run(1, 2), "b"), now: second)
            table.heard(summary(run(2, 2), "b"), now: second)
        }
        #expect(table.namesakes.map(\.nodes) == [[run(1, 2), run(2, 2)]])
    }

    @Test func `a node without a store that was started again counts once`() {
        var table = MemberTable(node: me)
        table.heard(summary(2, "b"), now: 0)
        table.listed([me, id(2)], now: 0)
        table.heard(summary(3, "b"), now: 8000)
        table.listed([me, id(2), id(3)], now: 8000)
        #expect(table.othersCount(among: [id(2), id(3)]) == 1)
    }

    @Test func `a lease that is over makes a node gone, for a minute`() {
        var table = MemberTable(node: me)
        table.listed([me, id(2)], now: 0)
        table.heard(summary(2, "b"), now: 0)
        table.settle(now: 9000)
        table.listed([me], now: 12_000)
        #expect(states(table)["b"] == .gone && table.others.isEmpty)
        table.settle(now: 71_999)
        #expect(states(table)["b"] == .gone)
        table.settle(now: 72_000)
        #expect(states(table)["b"] == nil)
    }

    @Test func `a node that says goodbye has left, whatever the list still says`() {
        var table = MemberTable(node: me)
        table.listed([me, id(2)], now: 0)
        table.heard(summary(2, "b") { $0.isLeaving = true }, now: 10)
        table.listed([me, id(2)], now: 20)
        #expect(states(table)["b"] == .left)
        // What was on its way comes behind.
        table.heard(summary(2, "b"), now: 30)
        #expect(states(table)["b"] == .left)
        table.settle(now: 60_010)
        #expect(states(table)["b"] == nil)
    }

    @Test func `the lease of an incarnation that is over is nobody's, when another one of its store is there`() {
        var table = MemberTable(node: me)
        let again = NodeID(2 << 32 | 9)
        for isLeaving in [true, false] {
            table = MemberTable(node: me)
            table.listed([me, id(2)], now: 0)
            table.heard(summary(2, "b") { $0.isLeaving = isLeaving }, now: 10)
            #expect(table.hasLeft(id(2)) == isLeaving)
            for now in [3000, 9000] as [UInt64] {
                table.heard(summary(again, "b"), now: now)
                table.listed([me, id(2), again], now: now)
            }
            #expect(table.members.filter { !$0.isSelf }.map(\.node) == [again])
            // As long as its lease lasts.
            #expect(table.hasLeft(id(2)) == isLeaving)
            table.listed([me, again], now: 13_000)
            #expect(!table.hasLeft(id(2)))
        }
    }

    @Test func `a node that was started again takes the place of its earlier incarnation`() {
        var table = MemberTable(node: me)
        table.listed([id(2)], now: 0)
        table.heard(summary(2, "b"), now: 0)
        table.listed([id(3)], now: 10_000)
        #expect(table.members.filter { $0.state == .gone }.count == 1)
        table.heard(summary(3, "b"), now: 10_100)
        #expect(states(table)["b"] == .up && table.members.filter { $0.node == id(2) }.isEmpty)
    }

    @Test func `who asks is answered, and one's own question is not`() {
        var table = MemberTable(node: me)
        let asked = [summary(2, "b") { $0.asks = true }, summary(2, "b"), summary(1, "a") { $0.asks = true }].map {
            table.heard($0, now: 0)
        }
        #expect(asked == [true, false, false])
    }

    @Test func `two nodes of one name are told of`() {
        var table = MemberTable(node: me)
        for (node, name) in [(1, "a"), (2, "b"), (3, "b")] as [(UInt64, String)] { table.heard(summary(node, name), now: 0) }
        #expect(table.namesakes.map(\.name) == ["b"] && table.namesakes.first?.nodes == [id(2), id(3)])
    }

    @Test func `two nodes of one name are a warning once, and a node that was started again is none`() {
        var (table, watch) = (MemberTable(node: me), NamesakeWatch())
        var told: [[NodeID]] = []
        for second in 0..<60 as Range<UInt64> {
            table.heard(summary(1, "a"), now: second * 1000)
            // Its first incarnation is silent from then on.
            if second == 0 { table.heard(summary(2, "b"), now: 0) } else { table.heard(summary(3, "b"), now: second * 1000) }
            if second > 20 { table.heard(summary(4, "a"), now: second * 1000) }
            table.settle(now: second * 1000)
            told += watch.look(table.namesakes, now: second * 1000).map(\.nodes)
        }
        #expect(told == [[id(1), id(4)]])
    }

    @Test func `a log calls a node by its name as long as anything is known of it`() {
        var table = MemberTable(node: me)
        table.heard(summary(2, "b"), now: 0)
        #expect(table.shownName(of: id(2)) == "b (0000000200000001)" && table.shownName(of: id(3)) == "0000000300000001")
        // Another incarnation of it, when the first has been forgotten.
        table.settle(now: 1_000_000)
        table.settle(now: 2_000_000)
        #expect(table.members.isEmpty && table.shownName(of: NodeID(2 << 32 | 7)) == "b (0000000200000007)")
    }

    @Test func `no more nodes are kept than may be`() {
        var table = MemberTable(node: me)
        for node in 1...1200 as ClosedRange<UInt64> { table.heard(summary(node, "n\(node)"), now: 0) }
        table.listed((1...1500 as ClosedRange<UInt64>).map { NodeID($0) }, now: 0)
        #expect(table.members.count == 1000)
    }

    @Test func `totals are of those who are up`() {
        var table = MemberTable(node: me)
        table.heard(summary(1, "a") { ($0.clientsConnected, $0.receivedRate) = (3, 10) }, now: 0)
        table.heard(summary(2, "b") { ($0.clientsConnected, $0.isDraining) = (4, true) }, now: 0)
        table.listed([me, id(2), id(3), id(4)], now: 0)
        table.heard(summary(4, "d") { ($0.clientsConnected, $0.isLeaving) = (100, true) }, now: 0)
        let totals = ClusterTotals(table.members)
        #expect((totals.nodesUp, totals.nodesSilent, totals.nodesGone, totals.nodesDraining) == (2, 1, 0, 1))
        #expect(totals.clientsConnected == 7 && totals.receivedRate == 10)
    }

    @Test func `the order is the same however they came`() {
        for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] as [[UInt64]] {
            var table = MemberTable(node: me)
            for node in order { table.heard(summary(node, node == 3 ? "a" : "b"), now: 0) }
            #expect(table.members.map(\.node) == [id(3), id(1), id(2)])
        }
    }
}
