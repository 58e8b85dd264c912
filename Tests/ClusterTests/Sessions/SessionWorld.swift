import SeededRandom

@testable import Cluster

/// Nodes with leases and sessions, clients that connect anywhere, the engine, and chance; each node's clock goes a little wrong.
final class SessionWorld: CustomStringConvertible {
    let seed: UInt64
    let clock: SimulatedClock
    let engine: EngineModel
    /// Leases and records in one stream, each subject's last entry kept.
    let stream: EngineStream
    /// One partition of the log, in which each message is for one client.
    let log: EngineStream
    private(set) var nodes: [SessionNode] = []
    private(set) var failures: [String] = []
    private(set) var takeOvers = 0
    private var lastNode: UInt64 = 0
    private let clients = ["a", "b", "c"]
    /// By client: what it has received, in order; what of that is acknowledged; and what of that the next keeper could not know.
    private(set) var received: [[UInt8]: [UInt64]] = [:]
    private var acknowledged: [[UInt8]: Set<UInt64>] = [:]
    private var forgiven: [[UInt8]: Set<UInt64>] = [:]
    private(set) var replays = 0
    /// The connections that got CONNACK, by client.
    private var established: [[UInt8]: Set<UInt64>] = [:]

    static let lifeMilliseconds: UInt64 = 10_000
    static let allowanceMilliseconds: UInt64 = 2000

    init(seed: UInt64) {
        self.seed = seed
        clock = SimulatedClock(seed: seed)
        engine = EngineModel(clock: clock, serverCount: 3)
        stream = EngineStream(engine: engine, replicas: [0, 1, 2])
        log = EngineStream(engine: engine, replicas: [1, 2, 0])
        for _ in 0..<3 { startNode() }
        clock.run(for: 1_000_000)
    }

    var description: String { "seed \(seed): \(failures.prefix(3).joined(separator: "; "))" }

    func fail(_ text: String) { failures.append("\(text) at \(clock.now)") }

    func startNode() {
        lastNode += 1
        let node = SessionNode(NodeID(store: UInt32(lastNode), run: 0), world: self)
        nodes.append(node)
        node.start()
    }

    /// A node whose lease has ended starts anew, as another.
    func restart(_ node: SessionNode) {
        nodes.removeAll { $0 === node }
        startNode()
    }

    // MARK: Chance

    func step(faults: Bool = true) {
        switch faults ? clock.random.below(55) : [0, 41][clock.random.below(2)] {
        case 40...: publish()
        case 0..<22: connect()
        case 22..<27: nodes[clock.random.below(nodes.count)].connection?.breakDown()
        case 27: engine.kill(clock.random.below(3))
        case 28, 29: (0..<3).forEach { engine.start($0) }
        case 30:
            let one = clock.random.below(3)
            engine.cut(one, (one + 1 + clock.random.below(2)) % 3)
        case 31, 32: engine.mend()
        case 33: stream.stepDown()
        case 34:
            // Gone for good, without a word.
            let node = nodes[clock.random.below(nodes.count)]
            node.stop()
            restart(node)
        case 35:
            // A node that hangs, and goes on as if nothing had been.
            nodes[clock.random.below(nodes.count)].hang(UInt64.random(in: 1...15, using: &clock.random) * 1_000_000)
        default: run(UInt64.random(in: 1...12, using: &clock.random) * 1_000_000)
        }
        // With all well each claim is over before the next.
        run(!faults ? 6_000_000 : clock.random.oneIn(4) ? 2_000_000 : UInt64(clock.random.below(5000)))
    }

    private func connect() {
        let node = nodes[clock.random.below(nodes.count)]
        let client = clients[clock.random.below(clients.count)]
        node.connect(client)
    }

    /// Somebody publishes for a client; what becomes of it the log says.
    private func publish() {
        guard let connection = nodes[clock.random.below(nodes.count)].connection else { return }
        for _ in 0...clock.random.below(5) {
            let client = clients[clock.random.below(clients.count)]
            log.publish(Array(client.utf8), to: "log", by: connection) { _ in }
        }
    }

    private func run(_ microseconds: UInt64) {
        var left = microseconds
        while left > 0 {
            let part = min(left, 500_000)
            for stream in [stream, log] {
                stream.look()
                stream.prune()
            }
            clock.run(for: part)
            left -= part
        }
    }

    // MARK: Promises

    func takenUp(_ session: [UInt8], by node: SessionNode) {
        takeOvers += 1
        for other in nodes where other !== node && other.mayAct(session) {
            fail("session \(String(decoding: session, as: UTF8.self)) is kept by node \(node.id) and by node \(other.id)")
        }
    }

    /// A node has taken up a session without what its last keeper knew.
    func replays(_ session: [UInt8]) {
        replays += 1
        forgiven[session] = acknowledged[session]
    }

    func connected(_ session: [UInt8], epoch: UInt64) { established[session, default: []].insert(epoch) }

    func received(_ session: [UInt8], _ sequence: UInt64) {
        if acknowledged[session]?.contains(sequence) == true, forgiven[session]?.contains(sequence) != true {
            fail("\(sequence) is sent again to \(String(decoding: session, as: UTF8.self)), which has acknowledged it")
        }
        received[session, default: []].append(sequence)
    }

    func acknowledged(_ session: [UInt8], _ sequence: UInt64) { acknowledged[session, default: []].insert(sequence) }

    /// Each connection that has ended has its will published, and none twice. Nobody says goodbye here.
    private func checkWills(_ session: [UInt8]) {
        var order = WillOrder()
        var found: Set<UInt64> = []
        for record in log.records where record.payload.first == UInt8(ascii: "!") && Array(record.payload[2...]) == session {
            let epoch = UInt64(record.payload[1])
            if order.counts(session, epoch: epoch), !found.insert(epoch).inserted {
                fail("the will of connection \(epoch) of \(String(decoding: session, as: UTF8.self)) is published twice")
            }
        }
        let all = established[session] ?? []
        for epoch in all.subtracting(found) where epoch != all.max() {
            fail("the will of connection \(epoch) of \(String(decoding: session, as: UTF8.self)) is not published")
        }
    }

    /// With everything well, each client that connects gets its session, and it is one node's.
    func check() {
        (0..<3).forEach { engine.start($0) }
        engine.mend()
        run(30_000_000)
        for _ in 0..<2 { for client in clients { nodes[clock.random.below(nodes.count)].connect(client) } }
        run(12_000_000)
        for client in clients {
            let keepers = nodes.filter { $0.mayAct(Array(client.utf8)) }
            if keepers.count != 1 { fail("session \(client) has \(keepers.count) keepers with all well") }
            let wanted = log.records.filter { $0.payload == Array(client.utf8) }.map(\.sequence)
            var found: Set<UInt64> = []
            let first = received[Array(client.utf8), default: []].filter { found.insert($0).inserted }
            checkWills(Array(client.utf8))
            if first != wanted { fail("client \(client) has received \(first) of \(wanted)") }
        }
    }
}

/// A node with a lease and a keeper of sessions, and a clock of its own.
final class SessionNode: EngineClient, SessionKeeperSink {
    let id: NodeID
    private unowned let world: SessionWorld
    private(set) var connection: EngineConnection?
    private var lease = NodeLease(
        lifeMilliseconds: SessionWorld.lifeMilliseconds, allowanceMilliseconds: SessionWorld.allowanceMilliseconds)
    private var keeper: SessionKeeper?
    private var isRunning = true
    /// Parts in a thousand by which its clock is wrong: up to 2 %.
    private let rate: UInt64
    private var hangsUntil: UInt64 = 0
    private var leases: [String: UInt64] = [:]
    private var nextSequence: UInt64 = 1
    /// What this node has read of the log.
    private var history: [EngineStream.Record] = []
    private var sessions: [[UInt8]: KeptSession] = [:]
    private var savesAt: UInt64 = 0
    /// Who keeps which session, by the records.
    private var keepers: [[UInt8]: SessionRecord.Keeper] = [:]

    init(_ id: NodeID, world: SessionWorld) {
        self.id = id
        self.world = world
        rate = UInt64.random(in: 980...1020, using: &world.clock.random)
    }

    private var clock: SimulatedClock { world.clock }
    private var now: UInt64 { clock.now / 1000 * rate / 1000 }
    private var leaseSubject: String { "node.\(id)" }

    /// Whether it acts for a session: a hanging node does not, but may in the moment in which it goes on.
    func mayAct(_ session: [UInt8]) -> Bool { isRunning && lease.mayAct(now: now) && keeper?.keeps(session) == true }

    // MARK: Life

    func start() {
        dial()
        tick()
    }

    func stop() {
        isRunning = false
        connection?.close()
    }

    func hang(_ microseconds: UInt64) { hangsUntil = clock.now + microseconds }

    /// Does something now, or when the node does not hang any more.
    private func act(_ action: @escaping () -> Void) {
        guard isRunning else { return }
        guard clock.now >= hangsUntil else { return clock.at(hangsUntil) { [self] in act(action) } }
        lease.expire(now: now)
        if lease.state == .ended {
            keeper?.fence(self)
            stop()
            return world.restart(self)
        }
        action()
    }

    private func tick() {
        clock.after(250_000) { [self] in
            act { [self] in
                renew()
                keeper?.tick(now: now, self)
                save()
                adopt()
                publishWills()
                tick()
            }
        }
    }

    private func dial() {
        clock.after(clock.delay(500...50_000, rareFactor: 20)) { [self] in
            guard isRunning, connection == nil else { return }
            let up = world.engine.servers.indices.filter { world.engine.servers[$0].isUp }
            guard !up.isEmpty else { return dial() }
            let made = world.engine.connect(self, to: up[clock.random.below(up.count)])
            made.subscribe("letter.\(id)", identifier: 1)
            connection = made
            world.stream.follow(from: nextSequence, by: made) { [self] record in act { [self] in take(record) } }
            world.log.follow(from: UInt64(history.count) + 1, by: made) { [self] record in act { [self] in read(record) } }
        }
    }

    func closed() {
        connection = nil
        dial()
    }

    // MARK: The lease

    private func renew() {
        guard let connection, lease.isRenewalDue(now: now) else { return }
        let askedAt = now
        world.stream.publish(
            [1], to: leaseSubject, expected: lease.sequence, milliseconds: SessionWorld.lifeMilliseconds, by: connection
        ) { [self] answer in
            act { [self] in
                switch answer {
                case .stored(let sequence, _): lease.renewed(askedAt: askedAt, at: sequence, now: now)
                case .wrongLast: look()
                case .unavailable: break
                }
                begin()
            }
        }
    }

    private func look() {
        guard let connection else { return }
        world.stream.readLast(by: connection) { [self] records in
            act { [self] in
                guard let records else { return }
                lease.conflicted(found: records.first { $0.subject == leaseSubject }?.sequence, now: now)
                begin()
            }
        }
    }

    /// The first lease makes a keeper.
    private func begin() {
        guard keeper == nil, lease.mayAct(now: now), lease.firstSequence > 0 else { return }
        keeper = SessionKeeper(SessionRecord.Keeper(node: id, leaseSequence: lease.firstSequence))
        tellLeases()
    }

    private func take(_ record: EngineStream.Record) {
        guard record.sequence == nextSequence else { return }
        nextSequence += 1
        if record.subject.hasPrefix("node.") { leases[record.subject] = record.isMarker ? nil : record.sequence }
        if record.subject.hasPrefix("session."), let known = SessionRecord(record.payload) {
            keepers[Array(record.subject.utf8.dropFirst(8))] = known.keepers[0]
        }
        tellLeases()
    }

    /// What nodes have kept whose lease has ended, somebody has to go on with.
    private func adopt() {
        guard nextSequence > 1 else { return }
        for (session, owner) in keepers.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) })
        where leases["node.\(owner.node)"] == nil && nextSequence > owner.leaseSequence && clock.random.oneIn(8) {
            keeper?.adopt(session, now: now, self)
        }
    }

    private func tellLeases() {
        let live = Set(leases.keys.compactMap { NodeID(token: Array($0.utf8.dropFirst(5))) })
        keeper?.live(live, through: nextSequence - 1, self)
    }

    // MARK: Sessions

    func connect(_ client: String) {
        act { [self] in keeper?.connect(Array(client.utf8), SessionKeeper.Terms(expiryInterval: 60, will: (0, [])), now: now, self)
        }
    }

    private func subject(_ session: [UInt8]) -> String { "session." + String(decoding: session, as: UTF8.self) }

    func read(_ session: [UInt8]) {
        guard let connection else { return }
        world.stream.readLast(by: connection) { [self] records in
            act { [self] in
                guard let records else { return }
                let last = records.first { $0.subject == subject(session) }
                keeper?.found(session, last.flatMap { SessionRecord($0.payload) }, at: last?.sequence ?? 0, now: now, self)
            }
        }
    }

    func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64) {
        guard let connection else { return }
        world.stream.publish(record.encoded, to: subject(session), expected: sequence, by: connection) { [self] answer in
            act { [self] in
                let told: RecordAnswer =
                    switch answer {
                    case .stored(let sequence, _): .stored(at: sequence)
                    case .wrongLast: .conflict
                    case .unavailable: .unavailable
                    }
                keeper?.written(session, number: number, told, now: now, self)
            }
        }
    }

    // MARK: Letters

    private func send(_ letter: [UInt8], to node: NodeID) { connection?.publish("letter.\(node)", reply: "", payload: letter) }

    func askToHandOver(_ session: [UInt8], from node: NodeID, epoch: UInt64) {
        send([0, UInt8(id.store), UInt8(epoch), UInt8(session.count)] + session, to: node)
    }

    func answer(_ session: [UInt8], to node: NodeID, epoch: UInt64, state: [UInt8]?) {
        send([state == nil ? 1 : 2, UInt8(id.store), UInt8(epoch), UInt8(session.count)] + session + (state ?? []), to: node)
    }

    func received(subject: String, reply: String, isNobodyThere: Bool, payload: [UInt8]) {
        act { [self] in
            guard keeper != nil else { return }
            let (node, epoch, end) = (NodeID(store: UInt32(payload[1]), run: 0), UInt64(payload[2]), 4 + Int(payload[3]))
            let session = Array(payload[4..<end])
            if payload[0] == 0 {
                keeper?.askedToHandOver(session, by: node, epoch: epoch, self)
            } else {
                keeper?.handedOver(session, by: node, epoch: epoch, state: payload[0] == 1 ? nil : Array(payload[end...]), self)
            }
        }
    }

    // MARK: Keeping

    func takenUp(_ session: [UInt8], _ record: SessionRecord, state: [UInt8]?, isAdopted: Bool) {
        let kept = state.map(KeptSession.init) ?? KeptSession(at: record.cursors.first ?? 1)
        kept.hasClient = !isAdopted
        kept.owed = record.wills.map(\.epoch).filter { isAdopted || $0 < record.epoch }
        sessions[session] = kept
        // A sink must not ask its keeper, which is not done yet.
        clock.after(0) { [self] in
            guard sessions[session] === kept, mayAct(session) else { return }
            world.takenUp(session, by: self)
            if !isAdopted { world.connected(session, epoch: record.epoch) }
            if state == nil { world.replays(session) }
            for sequence in kept.open where kept.hasClient { give(sequence, to: session, kept) }
            kept.hasBegun = true
            for record in history { read(record, for: session, kept) }
        }
    }

    func saved(_ session: [UInt8], _ record: SessionRecord) {}

    func stop(_ session: [UInt8]) -> [UInt8]? { sessions.removeValue(forKey: session)?.encoded ?? [] }

    private func read(_ record: EngineStream.Record) {
        guard record.sequence == UInt64(history.count) + 1 else { return }
        history.append(record)
        for (session, kept) in sessions.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            read(record, for: session, kept)
        }
    }

    private func read(_ record: EngineStream.Record, for session: [UInt8], _ kept: KeptSession) {
        guard kept.hasBegun, record.sequence >= kept.cursor.next else { return }
        let isWanted = record.payload == session
        kept.cursor.read(record.sequence, count: isWanted ? 1 : 0)
        guard isWanted else { return }
        kept.open.append(record.sequence)
        if kept.hasClient { give(record.sequence, to: session, kept) }
    }

    /// The client acknowledges after a while, if it is still this node's.
    private func give(_ sequence: UInt64, to session: [UInt8], _ kept: KeptSession) {
        world.received(session, sequence)
        clock.after(UInt64.random(in: 1000...20_000, using: &clock.random)) { [self] in
            act { [self] in
                guard sessions[session] === kept, mayAct(session) else { return }
                world.acknowledged(session, sequence)
                kept.open.removeAll { $0 == sequence }
                kept.cursor.done(sequence)
            }
        }
    }

    /// Wills go into the log one after the other, and out of the record when they stand there.
    private func publishWills() {
        guard let connection else { return }
        for (session, kept) in sessions.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) where mayAct(session) {
            guard let epoch = kept.owed.first else { continue }
            world.log.publish([UInt8(ascii: "!"), UInt8(epoch)] + session, to: "log", by: connection) { [self] answer in
                act { [self] in
                    guard case .stored = answer, sessions[session] === kept else { return }
                    kept.published.insert(epoch)
                    kept.owed.removeAll { $0 == epoch }
                }
            }
        }
    }

    private func save() {
        guard now >= savesAt else { return }
        savesAt = now + 1000
        for (session, kept) in sessions.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            _ = keeper?.save(session, now: now, self) { record in
                record.cursors = [kept.cursor.position]
                record.wills.removeAll { kept.published.contains($0.epoch) }
            }
        }
    }
}

/// What a node knows of a session that it keeps.
final class KeptSession {
    var cursor: LogCursor
    /// What the client has and has not acknowledged.
    var open: [UInt64] = []
    var hasClient = true
    /// Whether it has been given what its node has read before; what comes until then stands behind that.
    var hasBegun = false
    /// The connections whose wills are to be published, and are.
    var owed: [UInt64] = []
    var published: Set<UInt64> = []

    init(at position: UInt64) { cursor = LogCursor(at: position) }

    /// As it was handed over.
    init(_ state: [UInt8]) {
        let numbers = state.split(separator: 0).compactMap { UInt64(String(decoding: $0, as: UTF8.self)) }
        cursor = LogCursor(at: numbers.dropFirst().first ?? numbers.first ?? 1)
        for number in numbers.dropFirst() {
            cursor.read(number, count: 1)
            open.append(number)
        }
        if let next = numbers.first, next > cursor.next { cursor.read(next - 1, count: 0) }
    }

    var encoded: [UInt8] { Array(([cursor.next] + open).map(String.init).joined(separator: "\0").utf8) }
}
