import BrokerModel
import Bytes
import MQTTCodec
import NATSClient

@testable import Cluster

/// Nodes that write to the log and read it, publishers, the engine, and chance.
final class LogWorld: CustomStringConvertible {
    let seed: UInt64
    let clock: SimulatedClock
    let engine: EngineModel
    let stream: EngineStream
    private(set) var nodes: [LogNode] = []
    private(set) var failures: [String] = []
    private var lastPublisher = 0
    private var lastMessage: UInt64 = 0
    private var lastNode: UInt64 = 0
    /// What publishers were told.
    private(set) var acknowledged: Set<UInt64> = []
    private(set) var unknown: Set<UInt64> = []
    private(set) var refused: Set<UInt64> = []
    /// How many records there had been when they were too old.
    private var agedRecords = 0
    let topics = ["a", "b"]
    let outageMilliseconds: UInt64

    struct Published {
        let publisher: Int
        let topic: String
        let at: UInt64
    }

    private(set) var published: [UInt64: Published] = [:]

    /// - Parameters:
    ///   - seed: what happens.
    ///   - outageMilliseconds: how long a record is tried.
    init(seed: UInt64, outageMilliseconds: UInt64) {
        self.seed = seed
        self.outageMilliseconds = outageMilliseconds
        clock = SimulatedClock(seed: seed)
        engine = EngineModel(clock: clock, serverCount: 3)
        stream = EngineStream(engine: engine, replicas: [0, 1, 2], windowMicroseconds: outageMilliseconds * 2000)
        for _ in 0..<3 { startNode() }
    }

    var description: String { "seed \(seed): \(failures.prefix(3).joined(separator: "; "))" }

    func fail(_ text: String) { failures.append("\(text) at \(clock.now)") }

    private func startNode() {
        lastNode += 1
        let node = LogNode(NodeID(lastNode), world: self)
        nodes.append(node)
        node.dial()
        for _ in 0...clock.random.below(3) { node.publishers.append(nextPublisher()) }
    }

    func nextPublisher() -> Int {
        lastPublisher += 1
        return lastPublisher
    }

    // MARK: Chance

    func step(faults: Bool) {
        switch clock.random.below(faults ? 34 : 20) {
        case 0..<20:
            let node = nodes[clock.random.below(nodes.count)]
            for _ in 0...clock.random.below(6) { publish(at: node) }
        case 20..<23: nodes[clock.random.below(nodes.count)].connection?.breakDown()
        case 23: engine.kill(clock.random.below(3))
        case 24: (0..<3).forEach { engine.start($0) }
        case 25: engine.cutAny()
        case 26: engine.mend()
        case 27: stream.stepDown()
        case 28:
            let node = nodes.remove(at: clock.random.below(nodes.count))
            node.stop()
            startNode()
        case 29: stream.isFull.toggle()
        case 30: if clock.random.oneIn(3) { age() }
        default: clock.run(for: UInt64.random(in: 1...20, using: &clock.random) * 1_000_000)
        }
        stream.look()
        clock.run(for: clock.random.oneIn(10) ? 2_000_000 : UInt64(clock.random.below(4000)))
        stream.look()
    }

    /// Nothing happens for longer than the log keeps its records.
    private func age() {
        stream.heal()
        stream.purge()
        agedRecords = stream.records.count
    }

    // MARK: Messages

    private func publish(at node: LogNode) {
        guard !node.publishers.isEmpty else { return }
        lastMessage += 1
        let publisher = node.publishers[clock.random.below(node.publishers.count)]
        let topic = topics[clock.random.below(topics.count)]
        published[lastMessage] = Published(publisher: publisher, topic: topic, at: clock.now)
        node.publish(lastMessage, topic, publisher, size: clock.random.below(400))
    }

    func stored(_ number: UInt64) {
        if !acknowledged.insert(number).inserted { fail("message \(number) is acknowledged twice") }
        if unknown.contains(number) { fail("message \(number) is acknowledged after its publisher was closed") }
    }

    func unknown(_ number: UInt64) {
        if !unknown.insert(number).inserted || acknowledged.contains(number) { fail("message \(number) has two fates") }
    }

    /// It is not there, and its publisher knows.
    func refused(_ number: UInt64) {
        refused.insert(number)
        if acknowledged.contains(number) { fail("message \(number) is acknowledged and refused") }
    }

    // MARK: Promises

    func check() {
        stream.heal()
        let longest = LogNode.messages(in: stream.records)
        let newest = LogNode.messages(in: stream.records, behind: agedRecords)
        for node in nodes {
            if !node.hasCaughtUp { fail("node \(node.id) has not come to the log's end with all well") }
            if node.writer.lacksRoom { fail("node \(node.id) does not know that there is room") }
            if node.writer.recordCount > 0 { fail("node \(node.id) has something under way with all well") }
            if node.writer.waitingBytes != 0 { fail("node \(node.id) counts \(node.writer.waitingBytes) bytes that wait") }
        }
        for node in nodes where node.read.count < newest.count || !longest.suffix(node.read.count).elementsEqual(node.read) {
            fail("node \(node.id) has read something else, or less")
        }
        let all = Set(longest)
        if all.count != longest.count { fail("a message is in the log twice") }
        for number in acknowledged.subtracting(all).sorted() { fail("message \(number) is acknowledged and not in the log") }
        for number in refused.intersection(all).sorted() { fail("message \(number) is refused and in the log") }
        var last: [String: UInt64] = [:]
        for number in longest {
            guard let message = published[number] else { return fail("nobody has published \(number)") }
            let key = "\(message.publisher) \(message.topic)"
            if number < last[key] ?? 0 { fail("message \(number) of \(key) is behind \(last[key] ?? 0)") }
            last[key] = number
        }
    }
}

/// A node that writes what its publishers send, and reads all.
final class LogNode: EngineClient, LogSink {
    let id: NodeID
    private unowned let world: LogWorld
    private(set) var writer: LogWriter
    private(set) var connection: EngineConnection?
    var publishers: [Int] = []
    private(set) var read: [UInt64] = []
    private var order = LogOrder()
    private lazy var follower = EngineFollower("n\(id)", from: 1, of: world.stream) { [unowned self] in
        receive($0, $1)
    } report: { [unowned self] in
        switch $0 {
        case .found: hasCaughtUp = false
        case .caughtUp: hasCaughtUp = true
        case .failed: return
        }
    }
    private(set) var hasCaughtUp = false
    private var isRunning = true
    private var ticking: UInt64?
    /// Who has published what was not answered, in order.
    private var owed: [Int: [UInt64]] = [:]

    init(_ id: NodeID, world: LogWorld) {
        self.id = id
        self.world = world
        writer = LogWriter(node: id, partition: 0, recordBytesMax: 1000, outageMilliseconds: world.outageMilliseconds)
    }

    private var clock: SimulatedClock { world.clock }

    // MARK: Life

    func stop() {
        isRunning = false
        follower.end()
        connection?.close()
    }

    func dial() {
        world.engine.dial(self, while: { [self] in isRunning && connection == nil }) { [self] made in
            connection = made
            follower.attached(made)
            writer.attached(now: clock.milliseconds, self)
            schedule()
        }
    }

    func closed() {
        connection = nil
        follower.detached()
        writer.detached()
        dial()
    }

    private func schedule() {
        guard let at = writer.wakesAt, ticking != at else { return }
        ticking = at
        clock.at(at * 1000) { [self] in
            guard isRunning else { return }
            if ticking == at { ticking = nil }
            writer.tick(now: clock.milliseconds, self)
            schedule()
        }
    }

    func received(subject: String, reply: String, isNobodyThere: Bool, payload: [UInt8]) {}

    // MARK: Messages

    func publish(_ number: UInt64, _ topic: String, _ publisher: Int, size: Int) {
        owed[publisher, default: []].append(number)
        let payload = withUnsafeBytes(of: number.bigEndian) { Array($0) } + Array(repeating: 0, count: size)
        let entry = Bundle.message(topic, payload: payload)
        writer.append(entry[...], publisher: UInt64(publisher), for: .message(batch: number), now: clock.milliseconds, self)
        schedule()
    }

    private func receive(_ sequence: UInt64, _ bytes: UnsafeRawBufferPointer) {
        guard isRunning else { return }
        Self.take(bytes, sequence, &order, &read) { world.fail($0) }
    }

    private static func take(
        _ bytes: UnsafeRawBufferPointer, _ sequence: UInt64, _ order: inout LogOrder, _ read: inout [UInt64],
        _ fail: (String) -> Void
    ) {
        guard let bundle = Bundle(bytes) else { return fail("a record cannot be read") }
        guard order.counts(bundle, at: sequence) else { return }
        for message in bundle.entries.messages {
            if message.isWill { fail("an entry that nobody has written") }
            read.append(bytes[message.payload].prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
        }
        if !bundle.gone.isEmpty || bundle.dispatchedThrough != nil
            || bundle.entries.steps.contains(where: { $0.step.place.epoch > 0 })
        {
            fail("an entry that nobody has written")
        }
        if !bundle.entries.isWhole { fail("a record cannot be read to its end") }
    }

    /// What whoever has read all of these has read behind so many of them.
    static func messages(in records: [EngineStream.Record], behind count: Int = 0) -> [UInt64] {
        var (order, read) = (LogOrder(), [UInt64]())
        for record in records {
            if Int(record.sequence) == count + 1 { read = [] }
            record.payload.withUnsafeBytes { take($0, record.sequence, &order, &read) { _ in } }
        }
        return records.count <= count ? [] : read
    }

    // MARK: LogSink

    func store(_ record: [UInt8], messageID: String, partition: Int, queue: Int, number: UInt64) {
        guard let connection else { return }
        world.stream.publish(record, to: "log", messageID: messageID, by: connection) { [self] answer in
            guard isRunning else { return }
            writer.answered(queue: queue, number: number, answer, now: clock.milliseconds, self)
            schedule()
        }
    }

    func stored(_ waiter: LogWaiter, at sequence: UInt64, partition: Int) {
        guard case .message(let token) = waiter else { return }
        guard let publisher = world.published[token]?.publisher, owed[publisher]?.first == token else {
            return world.fail("message \(token) is confirmed before what its publisher has sent earlier")
        }
        owed[publisher]?.removeFirst()
        world.stored(token)
    }

    /// The publisher is closed; another takes its place.
    func failed(_ waiter: LogWaiter, _ failure: LogFailure, partition: Int) {
        guard case .message(let token) = waiter, let publisher = world.published[token]?.publisher else { return }
        owed[publisher]?.removeAll { $0 == token }
        if failure == .noRoom { world.refused(token) } else { world.unknown(token) }
        if let index = publishers.firstIndex(of: publisher) { publishers[index] = world.nextPublisher() }
    }
}
