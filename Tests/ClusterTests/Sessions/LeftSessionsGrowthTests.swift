import BrokerModel
import MQTTCodec
import Testing

@testable import Cluster

/// What it costs to see to the sessions of a node that is gone, counted: the table of `Cluster.docc/Growth.md`.
struct LeftSessionsGrowthTests {
    /// Two writes and a record of the log for each, one question of whoever claims it and one of each other node that
    /// lives on; few are claimed at once, however many there are.
    @Test(arguments: [(1, 1000), (2, 1000), (8, 1000), (32, 1000), (2, 5000)])
    func `a session of a node that is gone costs two writes, its will one record, and each node that lives on a question`(
        nodes: Int, sessions: Int
    ) {
        let gone = SessionRecord.Owner(node: NodeID(store: 99, incarnation: 1), leaseSequence: 50)
        let engine = PromptEngine(sessions, of: gone, expiry: .max)
        let live = Set((1...nodes).map { NodeID(store: UInt32($0), incarnation: 1) })
        let all = (1...nodes).map { PromptNode(UInt32($0), engine, live: live) }
        for (rank, node) in all.enumerated() { node.scan(rank: UInt64(rank)) }
        for (rank, node) in all.enumerated() {
            node.step(at: PromptNode.now + UInt64(rank) * PromptNode.staggerMilliseconds + 1000)
        }
        #expect(engine.wills == sessions && engine.ends == 0 && engine.nodeMessages == 0)
        #expect(engine.writes == 2 * sessions && engine.questions == nodes * sessions)
        #expect(engine.bytes / engine.writes < 80)
        #expect(all.allSatisfy { $0.claimedMax <= Limits.leftSessionsHandledMax && $0.left.isEmpty && $0.owner.claims.isEmpty })
        // Nothing is due of them any more: who reads them again has nothing to ask.
        for node in all { node.scan(rank: 0) }
        let questions = engine.questions
        for node in all { node.step(at: PromptNode.now + 60_000) }
        #expect(engine.wills == sessions && engine.writes == 2 * sessions && engine.questions == questions)
    }

    @Test func `a session whose time is over costs a write and the mark of its end, and stays nobody's`() {
        let gone = SessionRecord.Owner(node: NodeID(store: 99, incarnation: 1), leaseSequence: 50)
        let engine = PromptEngine(1000, of: gone, expiry: 10)
        let node = PromptNode(1, engine, live: [NodeID(store: 1, incarnation: 1)])
        node.scan(rank: 0)
        node.step(at: PromptNode.now + 20_000)
        #expect(engine.wills == 1000 && engine.writes == 1000 && engine.ends == 1000 && engine.questions == 1000)
        #expect(engine.nodeMessages == 0 && engine.records.isEmpty && node.owner.claims.isEmpty && node.left.isEmpty)
    }
}

/// An engine that answers at once, and what is asked of it.
final class PromptEngine {
    var records: [[UInt8]: (record: SessionRecord, sequence: UInt64)] = [:]
    var sequence: UInt64 = 0
    var questions = 0
    var writes = 0
    var bytes = 0
    /// To other nodes, and their answers.
    var nodeMessages = 0
    var wills = 0
    var ends = 0

    init() {}

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
final class PromptNode: SessionOwnershipSink, LeftSessionsSink {
    let engine: PromptEngine
    var owner: SessionOwnership
    var left = LeftSessions()
    var answers: [(PromptNode) -> Void] = []
    /// The sessions that were restored for clients.
    private(set) var arrived = 0
    /// The most sessions that it had claimed at once.
    var claimedMax = 0
    static let now: UInt64 = 1_700_000_000_000
    /// How much later a node has its turn than the one before it.
    static let staggerMilliseconds: UInt64 = 5000

    init(_ number: UInt32, _ engine: PromptEngine, live: Set<NodeID>) {
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
            idle = settle() ? 0 : idle + 1
        }
    }

    /// Answers what was asked; returns whether anything was.
    @discardableResult
    func settle() -> Bool {
        let taken = answers
        answers = []
        for answer in taken { answer(self) }
        return !taken.isEmpty
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
            guard node.engine.records[session]?.sequence ?? 0 == sequence else {
                return node.owner.written(session, number: number, .conflict, now: 0, node)
            }
            node.engine.sequence += 1
            node.engine.records[session] = (record, node.engine.sequence)
            node.owner.written(session, number: number, .stored(at: node.engine.sequence), now: 0, node)
        }
    }

    func askToStop(_ session: [UInt8], from other: NodeID, epoch: UInt64) {
        engine.nodeMessages += 2
        answers.append { node in node.owner.hasStopped(other, session, epoch: epoch, node) }
    }

    func restored(_ session: [UInt8], _ record: SessionRecord, isAssumed: Bool) {
        if isAssumed { answers.append { $0.left.restored(session, record) } } else { arrived += 1 }
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
