import BrokerModel
import Bytes
import MQTTCodec
import NATSClient

@testable import BrokerCore
@testable import Cluster

/// Nodes with retained messages, the engine that has their stream and carries what they tell each other, and chance.
final class RetainedWorld: CustomStringConvertible {
    let seed: UInt64
    let clock: SimulatedClock
    let engine: EngineModel
    let stream: EngineStream
    let space = SubjectSpace(cluster: "c")
    private(set) var nodes: [RetainedNode] = []
    private(set) var failures: [String] = []
    private var lastNode: UInt64 = 0
    private var lastValue: UInt64 = 0
    /// Those whose time is over.
    private(set) var expired: Set<UInt64> = []
    let topics = ["a", "b", "c", "d"]

    init(seed: UInt64) {
        self.seed = seed
        clock = SimulatedClock(seed: seed)
        engine = EngineModel(clock: clock, serverCount: 3)
        stream = EngineStream(engine: engine, replicas: [0, 1, 2], keepsOneOfSubject: true)
        for index in 0..<3 {
            // One brings messages of its own from when it was alone.
            startNode(store: index == 0 ? ["a": 1_000_000, "own": 1_000_001] : [:], isMember: false)
        }
    }

    var description: String { "seed \(seed): \(failures.prefix(3).joined(separator: "; "))" }

    func fail(_ text: String) { failures.append("\(text) at \(clock.now)") }

    private func startNode(store: [String: UInt64], isMember: Bool) {
        lastNode += 1
        let node = RetainedNode(NodeID(lastNode), world: self, store: store, isMember: isMember)
        nodes.append(node)
        node.dial()
    }

    func peers(of node: RetainedNode) -> [RetainedNode] { nodes.filter { $0 !== node && $0.connection != nil } }

    // MARK: Chance

    func step() {
        switch clock.random.below(36) {
        case 0..<22: publish(at: nodes[clock.random.below(nodes.count)])
        case 22..<25: nodes[clock.random.below(nodes.count)].connection?.breakDown()
        case 25: engine.kill(clock.random.below(3))
        case 26: (0..<3).forEach { engine.start($0) }
        case 27: engine.cutAny()
        case 28: engine.mend()
        case 29: stream.stepDown()
        case 30:
            // It dies, and comes back with what its store has.
            let node = nodes.remove(at: clock.random.below(nodes.count))
            node.stop()
            startNode(store: node.values, isMember: node.isMember)
        case 31: stream.isFull.toggle()
        case 32: expire()
        case 33: loseMarks()
        case 34: if clock.random.oneIn(3) { purge() }
        default: clock.run(for: UInt64.random(in: 1...20, using: &clock.random) * 1_000_000)
        }
        stream.look()
        clock.run(for: clock.random.oneIn(10) ? 2_000_000 : UInt64(clock.random.below(4000)))
        stream.look()
    }

    private func publish(at node: RetainedNode) {
        lastValue += 1
        // One in four deletes.
        node.publish(topics[clock.random.below(topics.count)], lastValue, isDeletion: clock.random.oneIn(4))
    }

    /// The time of a message is over, on the servers as on all nodes.
    private func expire() {
        // A change that has gone before its node has read it would be awaited for as long as its topic does not change.
        guard nodes.allSatisfy({ $0.unsettled.count == 0 && $0.replica.waitingCount == 0 }) else { return }
        let there = stream.records.filter { stream.isThere($0) }
        guard let record = there.randomElement(using: &clock.random) else { return }
        let value = record.payload.withUnsafeBytes { RetainedRecord($0).map { RetainedNode.number($0.payload) } }
        guard let value, value > 0 else { return }
        stream.forget(record)
        expired.insert(value)
        for node in nodes { node.expire(value) }
    }

    /// Marks of deletions stay for longer than anybody is away who does not read all: they go when all have read them.
    private func loseMarks() {
        stream.heal()
        for record in stream.records where stream.isThere(record) {
            let isMark = record.payload.withUnsafeBytes { RetainedRecord($0)?.payload.isEmpty } ?? false
            if isMark { stream.forget(record) }
        }
    }

    /// Somebody purges the stream, and all nodes are started again: it is what counts.
    private func purge() {
        stream.heal()
        stream.purge()
        let before = nodes
        nodes = []
        for node in before {
            node.stop()
            startNode(store: node.values, isMember: node.isMember)
        }
    }

    // MARK: Promises

    func check() {
        // Nothing follows it that would help.
        if clock.random.oneIn(3) { purge() }
        stream.heal()
        // Long enough for what dead nodes have told of and not stored.
        stream.run(seconds: 150)
        let last = newestInStream()
        for node in nodes {
            if !node.replica.isCurrent { fail("node \(node.id) is not current with all well: \(node.replica.state)") }
            if node.replica.waitingCount > 0 { fail("node \(node.id) has something under way with all well") }
            if node.unsettled.count > 0 { fail("node \(node.id) awaits something with all well") }
            if node.values != last { fail("node \(node.id) has \(node.values), and the stream \(last)") }
        }
    }

    /// What the stream has last of each topic; without what is deleted.
    private func newestInStream() -> [String: UInt64] {
        var found: [String: UInt64] = [:]
        for record in stream.records where stream.isThere(record) {
            record.payload.withUnsafeBytes { bytes in
                guard let record = RetainedRecord(bytes) else { return fail("a record cannot be read") }
                let topic = String(decoding: record.topic, as: UTF8.self)
                found[topic] = record.payload.isEmpty ? nil : RetainedNode.number(record.payload)
            }
        }
        return found
    }

    /// A change is safe: it, or one after it of its topic, has to be in the stream.
    func isSafe(_ number: UInt64, _ topic: String, by node: NodeID) {
        let isThere = stream.records.contains { record in
            record.payload.withUnsafeBytes { bytes in
                guard let record = RetainedRecord(bytes), String(decoding: record.topic, as: UTF8.self) == topic else {
                    return false
                }
                return record.node == node && record.number >= number
            }
        }
        if !isThere { fail("change \(number) of \(topic) is acknowledged and not in the stream") }
    }
}

/// A node of one shard, as a broker has it, with a store that outlives it.
final class RetainedNode: EngineClient, RetainedSink {
    let id: NodeID
    private unowned let world: RetainedWorld
    private(set) var replica: RetainedReplica
    private(set) var unsettled = UnsettledChanges<(topic: String, value: UInt64?)>()
    private(set) var values: [String: UInt64]
    private(set) var isMember: Bool
    private(set) var connection: EngineConnection?
    private var isRunning = true
    private var ticking: UInt64?
    private var lastChange: UInt64 = 0
    private var lastSerial: UInt64 = 0
    private var serials: [(serial: UInt64, number: UInt64, topic: String)] = []
    /// The topics that the stream has, or that have changed, while all of it is read.
    private var marks: Set<String>?
    /// What the replica wants, done when its call is over.
    private var wantedSequence: UInt64?
    private var wantedSweep: (place: Int, offers: Bool, round: UInt64)?
    private var follower: EngineFollower?
    private var following = 0

    init(_ id: NodeID, world: RetainedWorld, store: [String: UInt64], isMember: Bool) {
        (self.id, self.world, values, self.isMember) = (id, world, store, isMember)
        replica = RetainedReplica(node: id, space: world.space, shardCount: 1, isMember: isMember)
    }

    private var clock: SimulatedClock { world.clock }

    // MARK: Life

    func stop() {
        isRunning = false
        follower?.end()
        connection?.close()
    }

    func dial() {
        if follower == nil { follow(1) }
        world.engine.dial(self, while: { [self] in isRunning && connection == nil }) { [self] made in
            connection = made
            follower?.attached(made)
            settle()
        }
    }

    func closed() {
        connection = nil
        follower?.detached()
        replica.detached(now: clock.milliseconds)
        settle()
        dial()
    }

    func received(subject: String, reply: String, isNobodyThere: Bool, payload: [UInt8]) {}

    /// Does what the replica wants.
    private func settle() {
        while wantedSequence != nil || wantedSweep != nil {
            if let sequence = wantedSequence {
                wantedSequence = nil
                follow(sequence)
            }
            if let sweep = wantedSweep {
                wantedSweep = nil
                self.sweep(sweep.place, sweep.offers, sweep.round)
            }
        }
        guard let at = replica.wakesAt, ticking != at else { return }
        ticking = at
        clock.at(at * 1000) { [self] in
            guard isRunning else { return }
            if ticking == at { ticking = nil }
            if replica.tick(now: clock.milliseconds, self) { look() }
            settle()
        }
    }

    private func look() {
        for (topic, value) in unsettled.takeOverdue(now: clock.milliseconds) {
            values[topic] = living(value)
            marks?.insert(topic)
        }
        if unsettled.hasStale(now: clock.milliseconds) { replica.foundStale(self) }
    }

    /// As `RetainedRunner` does it.
    private func follow(_ sequence: UInt64) {
        guard follower?.next != sequence else { return }
        follower?.end()
        following += 1
        let made = EngineFollower("n\(id)r\(following)", from: sequence, of: world.stream) { [unowned self] sequence, payload in
            replica.received(payload, sequence: sequence, self)
            settle()
        } report: { [unowned self] effect in
            switch effect {
            case .found(_, let last): replica.found(lastSequence: last, now: clock.milliseconds, self)
            case .caughtUp: replica.caughtUp(self)
            case .failed: return
            }
            settle()
        }
        follower = made
        if let connection { made.attached(connection) }
    }

    /// A message's time is over.
    func expire(_ value: UInt64) { for (topic, other) in values where other == value { values[topic] = nil } }

    private func living(_ value: UInt64?) -> UInt64? { value.flatMap { world.expired.contains($0) ? nil : $0 } }

    // MARK: Messages

    static func number(_ payload: UnsafeRawBufferPointer) -> UInt64 { payload.reduce(0) { $0 << 8 | UInt64($1) } }

    func publish(_ topic: String, _ value: UInt64, isDeletion: Bool) {
        guard !replica.isFull else { return }
        lastChange += 1
        let number = lastChange << 8
        let change = RetainedChange(node: 0, number: number)
        set(topic, isDeletion ? nil : value, change)
        // The others hear of it at once, late, or never.
        for peer in world.peers(of: self) where connection != nil && !clock.random.oneIn(10) {
            clock.after(clock.delay(100...2000, rareFactor: 30)) { [self] in
                peer.heard(topic, isDeletion ? nil : value, RetainedChange(node: id.rawValue, number: number))
            }
        }
        lastSerial += 1
        serials.append((lastSerial, number, topic))
        let ticket = replica.begin(1, of: 0, serial: lastSerial)
        give(topic, isDeletion ? nil : value, number, ticket, isOffer: false)
        settle()
    }

    private func give(_ topic: String, _ value: UInt64?, _ number: UInt64, _ ticket: UInt64?, isOffer: Bool) {
        let payload = value.map { withUnsafeBytes(of: $0.bigEndian) { Array($0) } } ?? []
        Array(topic.utf8).withUnsafeBytes { topic in
            payload.withUnsafeBytes { payload in
                let none = UnsafeRawBufferPointer(start: nil, count: 0)
                let record = RetainedRecord(
                    node: id, number: number, topic: topic, origin: none, properties: none, payload: payload, qos: .atLeastOnce)
                replica.change(record, millisecondsLeft: nil, ticket, isOffer: isOffer, now: clock.milliseconds, self)
            }
        }
    }

    private func set(_ topic: String, _ value: UInt64?, _ change: RetainedChange) {
        values[topic] = living(value)
        marks?.insert(topic)
        unsettled.record(Array(topic.utf8), change, now: clock.milliseconds)
    }

    private func heard(_ topic: String, _ value: UInt64?, _ change: RetainedChange) {
        guard isRunning, unsettled.isNews(change) else { return }
        set(topic, value, change)
    }

    // MARK: RetainedSink

    func store(_ change: RetainedChangeToStore) {
        guard let connection else { return }
        world.stream.publish(
            change.record, to: String(decoding: change.subject, as: UTF8.self), messageID: "\(id)-\(change.number)",
            expected: change.isOffer ? 0 : nil, by: connection
        ) { [self] answer in
            guard isRunning else { return }
            replica.answered(change.number, answer, now: clock.milliseconds, self)
            settle()
        }
    }

    func isSafe(_ serial: UInt64, of shard: Int) {
        while let first = serials.first, first.serial <= serial {
            serials.removeFirst()
            world.isSafe(first.number, first.topic, by: id)
        }
    }

    func follow(from sequence: UInt64) { wantedSequence = sequence }

    func settle(_ record: RetainedRecord) {
        let topic = String(decoding: record.topic, as: UTF8.self)
        marks?.insert(topic)
        let value = record.payload.isEmpty ? nil : Self.number(record.payload)
        let change = RetainedChange(node: record.node.rawValue, number: record.number)
        if unsettled.settle(Array(record.topic), change, (topic, value)) { values[topic] = living(value) }
    }

    func beginReading() {
        marks = []
        unsettled.forgetOthers()
    }

    func sweep(_ shard: Int, from place: Int, offers: Bool, round: UInt64) { wantedSweep = (place, offers, round) }

    private func sweep(_ place: Int, _ offers: Bool, _ round: UInt64) {
        guard place != .max else { return replica.swept(next: nil, round: round, self) }
        for topic in values.keys.sorted() where marks?.contains(topic) == false && !unsettled.isAwaited(Array(topic.utf8)) {
            if offers {
                lastChange += 1
                give(topic, values[topic], lastChange << 8, nil, isOffer: true)
            } else {
                values[topic] = nil
            }
        }
        marks = nil
        replica.swept(next: nil, round: round, self)
    }

    func becameMember() { isMember = true }
}
