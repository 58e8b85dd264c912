import BrokerModel
import MQTTCodec
import Testing

@testable import Cluster

/// What sessions cost as there are more of them, counted: the table of `Cluster.docc/Growth.md`.
struct SessionGrowthTests {
    private func name(_ number: Int) -> [UInt8] { Array("client-\(number)".utf8) }

    /// So many sessions that a node keeps cost nothing in time, and nothing when the list of nodes changes; each
    /// CONNECT costs the same however many there are.
    @Test(arguments: [1000, 10_000, 100_000])
    func `what a CONNECT costs does not depend on how many sessions there are`(count: Int) {
        let engine = PromptEngine()
        let nodes = [NodeID(store: 1, incarnation: 1), NodeID(store: 2, incarnation: 1)]
        let (here, there) = (PromptNode(1, engine, live: Set(nodes)), PromptNode(2, engine, live: Set(nodes)))
        let terms = SessionOwnership.Terms(expiryInterval: 3600)
        func cost(at node: PromptNode? = nil, _ body: (PromptNode) -> Void) -> [Int] {
            let node = node ?? here
            let before = [engine.questions, engine.writes, engine.nodeMessages]
            body(node)
            while node.settle() {}
            return zip([engine.questions, engine.writes, engine.nodeMessages], before).map { $0 - $1 }
        }
        let all = cost { for number in 0..<count { $0.owner.connect(name(number), terms, now: 0, $0) } }
        #expect(all == [count, count, 0] && here.arrived == count)
        // Here, where it is kept: one write. On another node: a question, a write, and two messages.
        #expect(cost { $0.owner.connect(name(7), terms, now: 0, $0) } == [0, 1, 0])
        #expect(cost(at: there) { $0.owner.connect(name(8), terms, now: 0, $0) } == [1, 1, 2])
        // What is saved of a session: one write, and one for all that changes while it is under way.
        let change = { (record: inout SessionRecord) in record.awaySince = 1_700_000_000_000 }
        var isOnItsWay: [Bool] = []
        let once = cost { isOnItsWay.append($0.owner.save(name(9), now: 0, $0, change)) }
        let twice = cost { for _ in 0..<2 { isOnItsWay.append($0.owner.save(name(10), now: 0, $0, change)) } }
        #expect(once == [0, 1, 0] && twice == [0, 1, 0] && isOnItsWay == [true, true, false])
        // Time, and a change of the nodes.
        #expect(cost { for second in 1...100 { $0.owner.tick(now: UInt64(second) * 1000, wallClock: 6000, $0) } } == [0, 0, 0])
        #expect(cost { $0.owner.live([nodes[0]], through: 101, $0) } == [0, 0, 0])
        // A record is as large as what is in it.
        #expect(engine.bytes / engine.writes < 60)
    }
}
