import BrokerModel
import MQTTCodec
import Testing

@testable import Cluster

/// What it costs to see to the sessions of a node that is gone, counted: the table of `Cluster.docc/Growth.md`.
struct LeftSessionsGrowthTests {
    /// An engine that answers at once, and what is asked of it.
    private final class Engine {
        var records: [[UInt8]: (record: SessionRecord, sequence: UInt64)] = [:]
        var sequence: UInt64 = 0
        var questions = 0
        var writes = 0
        var bytes = 0
        var wills = 0
        var ends = 0

        /// So many sessions of a node, each with a will.
        init(_ count: Int, of owner: SessionRecord.Owner, expiry: UInt32) {
            for number in 0..<count {
                var record = SessionRecord(
                    epoch: 1, owners: [owner], identifier: Array("client-\(number)".utf8), expiryInterval: expiry)
                record.wills = [
                    SavedWill(name: WillName(epoch: 1, number: 1), delayInterval: 0, message: Array("12345678".utf8))
                ]
                sequence += 1
                records[record.identifier] = (record, sequence)
            }
        }
    }

    /// A node that lives on.
    private final class Node: SessionOwnershipSink, LeftSessionsSink {
        let engine: Engine
        var owner: SessionOwnership
        var left = LeftSessions()
        var answers: [(Node) -> Void] = []
        /// The most sessions that it had claimed at once.
        var claimedMax = 0
        static let now: UInt64 = 1_700_000_000_000
        /// How much later a node has its turn than the one before it.
        static let staggerMilliseconds: UInt64 = 5000

        init(_ number: UInt32, _ engine: Engine, live: Set<NodeID>) {
            self.engine = engine
            owner = SessionOwnership(
                SessionRecord.Owner(node: NodeID(store: number, incarnation: 1), leaseSequence: UInt64(number)))
            owner.live(live, through: 100, self)
        }

        /// Reads all records, as each node does now and then, and has its turn after so many others.
        func scan(rank: UInt64) {
            for (session, entry) in engine.records.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) })
            where owner.isLeft(session, entry.record) {
                left.record(session, dutyAt: entry.record.dutyAt.map { max($0, Self.now) + rank * Self.staggerMilliseconds })
            }
        }

        /// Steps, and is answered, until there is nothing to do.
        func step(at wallClock: UInt64) {
            var idle = 0
            while idle < 2 {
                left.step(wallClock: wallClock, self)
                claimedMax = max(claimedMax, owner.claims.count)
                let taken = answers
                answers = []
                for answer in taken { answer(self) }
                idle = taken.isEmpty ? idle + 1 : 0
            }
        }

        func read(_ session: [UInt8]) {
            engine.questions += 1
            answers.append { node in
                let known = node.engine.records[session]
                node.owner.found(session, known?.record, at: known?.sequence ?? 0, now: 0, node)
            }
        }

        func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64) {
            engine.writes += 1
            engine.bytes += record.encoded.count
            answers.append { node in
                guard node.engine.records[session]?.sequence == sequence else {
                    return node.owner.written(session, number: number, .conflict, now: 0, node)
                }
                node.engine.sequence += 1
                node.engine.records[session] = (record, node.engine.sequence)
                node.owner.written(session, number: number, .stored(at: node.engine.sequence), now: 0, node)
            }
        }

        func askToStop(_ session: [UInt8], from node: NodeID, epoch: UInt64) { Issue.record("nobody is there to be asked") }

        func restored(_ session: [UInt8], _ record: SessionRecord, isAssumed: Bool) {
            answers.append { $0.left.restored(session, record) }
        }

        func notAssumed(_ session: [UInt8], _ record: SessionRecord?) { answers.append { $0.left.notTaken(session) } }

        func saved(_ session: [UInt8], _ record: SessionRecord) { answers.append { $0.left.saved(session, record) } }

        func stop(_ session: [UInt8]) {}

        func adopt(_ session: [UInt8]) { owner.adopt(session, wallClock: Self.now, now: 0, self) }

        func publish(_ will: SavedWill, of session: [UInt8]) {
            engine.wills += 1
            answers.append { $0.left.published(session, will.name) }
        }

        func remove(_ wills: Set<WillName>, of session: [UInt8]) {
            _ = owner.save(session, now: 0, self) { $0.wills.removeAll { wills.contains($0.name) } }
        }

        func end(_ session: [UInt8]) {
            engine.ends += 1
            engine.records[session] = nil
            owner.release(session)
        }

        func letGo(_ session: [UInt8]) { owner.release(session) }
    }

    /// Two writes and a record of the log for each, one question of whoever claims it and one of each other node that
    /// lives on; few are claimed at once, however many there are.
    @Test(arguments: [(1, 1000), (2, 1000), (8, 1000), (32, 1000), (2, 5000)])
    func `a session of a node that is gone costs two writes, its will one record, and each node that lives on a question`(
        nodes: Int, sessions: Int
    ) {
        let gone = SessionRecord.Owner(node: NodeID(store: 99, incarnation: 1), leaseSequence: 50)
        let engine = Engine(sessions, of: gone, expiry: .max)
        let live = Set((1...nodes).map { NodeID(store: UInt32($0), incarnation: 1) })
        let all = (1...nodes).map { Node(UInt32($0), engine, live: live) }
        for (rank, node) in all.enumerated() { node.scan(rank: UInt64(rank)) }
        for (rank, node) in all.enumerated() {
            node.step(at: Node.now + UInt64(rank) * Node.staggerMilliseconds + 1000)
        }
        #expect(engine.wills == sessions && engine.ends == 0)
        #expect(engine.writes == 2 * sessions && engine.questions == nodes * sessions)
        #expect(engine.bytes / engine.writes < 80)
        #expect(all.allSatisfy { $0.claimedMax <= Limits.leftSessionsHandledMax && $0.left.isEmpty && $0.owner.claims.count == 0 })
        // Nothing is due of them any more: who reads them again has nothing to ask.
        for node in all { node.scan(rank: 0) }
        let questions = engine.questions
        for node in all { node.step(at: Node.now + 60_000) }
        #expect(engine.wills == sessions && engine.writes == 2 * sessions && engine.questions == questions)
    }

    @Test func `a session whose time is over costs a write and the mark of its end, and stays nobody's`() {
        let gone = SessionRecord.Owner(node: NodeID(store: 99, incarnation: 1), leaseSequence: 50)
        let engine = Engine(1000, of: gone, expiry: 10)
        let node = Node(1, engine, live: [NodeID(store: 1, incarnation: 1)])
        node.scan(rank: 0)
        node.step(at: Node.now + 20_000)
        #expect(engine.wills == 1000 && engine.writes == 1000 && engine.ends == 1000 && engine.questions == 1000)
        #expect(engine.records.isEmpty && node.owner.claims.count == 0 && node.left.isEmpty)
    }
}
