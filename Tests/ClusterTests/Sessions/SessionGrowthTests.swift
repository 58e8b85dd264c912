import BrokerModel
import MQTTCodec
import Testing

@testable import Cluster

/// What sessions cost as there are more of them, counted: the table of `Cluster.docc/Growth.md`.
struct SessionGrowthTests {
    /// An engine that answers at once, and other nodes that hand over at once.
    private final class Engine: SessionOwnershipSink {
        private(set) var records: [[UInt8]: (record: SessionRecord, sequence: UInt64)] = [:]
        private var sequence: UInt64 = 0
        private(set) var questions = 0
        private(set) var writes = 0
        private(set) var nodeMessages = 0
        private(set) var restored = 0
        private(set) var bytes = 0
        /// What is answered when the owner is done.
        var answers: [(inout SessionOwnership, Engine) -> Void] = []

        func read(_ session: [UInt8]) {
            questions += 1
            answers.append { owner, engine in
                let known = engine.records[session]
                owner.found(session, known?.record, at: known?.sequence ?? 0, now: 0, engine)
            }
        }

        func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64) {
            writes += 1
            bytes += record.encoded.count
            answers.append { owner, engine in
                engine.sequence += 1
                engine.records[session] = (record, engine.sequence)
                owner.written(session, number: number, .stored(at: engine.sequence), now: 0, engine)
            }
        }

        func askToStop(_ session: [UInt8], from node: NodeID, epoch: UInt64) {
            nodeMessages += 2
            answers.append { owner, engine in owner.hasStopped(node, session, epoch: epoch, engine) }
        }

        func restored(_ session: [UInt8], _ record: SessionRecord, isAssumed: Bool) { restored += 1 }

        func notAssumed(_ session: [UInt8], _ record: SessionRecord?) {}

        func saved(_ session: [UInt8], _ record: SessionRecord) {}

        func stop(_ session: [UInt8]) {}

        /// Answers until nothing is asked any more.
        func settle(_ owner: inout SessionOwnership) {
            while !answers.isEmpty {
                let taken = answers
                answers = []
                for answer in taken { answer(&owner, self) }
            }
        }

        var count: [Int] { [questions, writes, nodeMessages] }
    }

    private static let here = SessionRecord.Owner(node: NodeID(1 << 32 | 1), leaseSequence: 1)
    private static let there = SessionRecord.Owner(node: NodeID(2 << 32 | 1), leaseSequence: 2)

    private func name(_ number: Int) -> [UInt8] { Array("client-\(number)".utf8) }

    /// So many sessions that a node keeps cost nothing in time, and nothing when the list of nodes changes; each
    /// CONNECT costs the same however many there are.
    @Test(arguments: [1000, 10_000, 100_000])
    func `what a CONNECT costs does not depend on how many sessions there are`(count: Int) {
        let engine = Engine()
        var owner = SessionOwnership(Self.here)
        owner.live([Self.here.node, Self.there.node], through: 10, engine)
        let terms = SessionOwnership.Terms(expiryInterval: 3600)
        func cost(_ body: () -> Void) -> [Int] {
            let before = engine.count
            body()
            engine.settle(&owner)
            return zip(engine.count, before).map { $0 - $1 }
        }
        let all = cost { for number in 0..<count { owner.connect(name(number), terms, now: 0, engine) } }
        #expect(all == [count, count, 0] && engine.restored == count)
        // Here, where it is kept: one write. On another node: a question, a write, and two messages.
        #expect(cost { owner.connect(name(7), terms, now: 0, engine) } == [0, 1, 0])
        var other = SessionOwnership(Self.there)
        other.live([Self.here.node, Self.there.node], through: 10, engine)
        let before = engine.count
        other.connect(name(8), terms, now: 0, engine)
        engine.settle(&other)
        #expect(zip(engine.count, before).map { $0 - $1 } == [1, 1, 2])
        // What is saved of a session: one write, and one for all that changes while it is under way.
        let change = { (record: inout SessionRecord) in record.awaySince = 1_700_000_000_000 }
        var isOnItsWay: [Bool] = []
        let once = cost { isOnItsWay.append(owner.save(name(9), now: 0, engine, change)) }
        let twice = cost { for _ in 0..<2 { isOnItsWay.append(owner.save(name(10), now: 0, engine, change)) } }
        #expect(once == [0, 1, 0] && twice == [0, 1, 0] && isOnItsWay == [true, true, false])
        // Time, and a change of the nodes.
        #expect(cost { for second in 1...100 { owner.tick(now: UInt64(second) * 1000, wallClock: 6000, engine) } } == [0, 0, 0])
        #expect(cost { owner.live([Self.here.node], through: 11, engine) } == [0, 0, 0])
        // A record is as large as what is in it.
        #expect(engine.bytes / engine.count[1] < 60)
    }
}
