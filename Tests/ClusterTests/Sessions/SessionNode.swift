import Bytes

@testable import Cluster

/// A node with a lease and a owner of sessions, and a clock of its own.
final class SessionNode: EngineClient, SessionOwnershipSink {
    let id: NodeID
    unowned let world: SessionWorld
    private(set) var connection: EngineConnection?
    private var lease = NodeLease(
        lifeMilliseconds: SessionWorld.lifeMilliseconds, allowanceMilliseconds: SessionWorld.allowanceMilliseconds)
    var owner: SessionOwnership?
    private var isRunning = true
    /// Parts in a thousand by which its clock is wrong: up to 2 %.
    private let rate: UInt64
    private var hangsUntil: UInt64 = 0
    private var leases: [String: UInt64] = [:]
    private var nextSequence: UInt64 = 1
    /// What this node has read of the log.
    private var history: [EngineStream.Record] = []
    var sessions: [[UInt8]: KeptSession] = [:]
    private var savesAt: UInt64 = 0
    /// Clients that wait to be let in.
    var arrivals: [[UInt8]: IncomingSession] = [:]
    var left = LeftSessions()
    /// Wills on their way into the log, by session, in order.
    var jobs: [[UInt8]: [SessionRecord.LastWill]] = [:]
    /// Messages that wait for wills, with the epochs that they answer.
    var heldAnswers: [[UInt8]: (node: NodeID, epoch: UInt64, state: [UInt8]?)] = [:]
    /// Claims of others that were told that the wills are seen to.
    var settledClaims: [[UInt8]: UInt64] = [:]
    /// Whether the session that stops was kept for its client.
    var stopsKept = false
    private var isConnecting = false
    /// Records that are to go.
    var endings: [[UInt8]: UInt64?] = [:]
    /// Sessions whose clients were let in before all that had them had stopped: by which claim, when, and whether they
    /// have ended since.
    var unsettled: [[UInt8]: (epoch: UInt64, since: UInt64, isOver: Bool)] = [:]
    /// As this node has read them.
    private var records: [[UInt8]: SessionRecord] = [:]

    init(_ id: NodeID, world: SessionWorld) {
        self.id = id
        self.world = world
        rate = UInt64.random(in: 980...1020, using: &world.clock.random)
    }

    var clock: SimulatedClock { world.clock }
    var now: UInt64 { clock.now / 1000 * rate / 1000 }
    private var leaseSubject: String { "node.\(id)" }

    /// Whether it does what it is asked at once.
    var isWell: Bool { isRunning && clock.now >= hangsUntil && lease.mayAct(now: now) && connection != nil }

    /// Whether it acts for a session: a hanging node does not, but may in the moment in which it goes on.
    func mayAct(_ session: [UInt8]) -> Bool { isRunning && lease.mayAct(now: now) && owner?.keeps(session) == true }

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
    func act(_ action: @escaping () -> Void) {
        guard isRunning else { return }
        guard clock.now >= hangsUntil else { return clock.at(hangsUntil) { [self] in act(action) } }
        lease.expire(now: now)
        if lease.state == .ended {
            owner?.fence(self)
            stop()
            world.nodeIsGone(self, isLate: true)
            return world.restart(self)
        }
        action()
    }

    private func tick() {
        clock.after(250_000) { [self] in
            act { [self] in
                renew()
                owner?.tick(now: now, self)
                letInUnsettled()
                save()
                adopt()
                watch()
                sendWills()
                left.step(wallClock: world.wallClock, self)
                sendEndings()
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
                case .unavailable, .noRoom: break
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

    /// The first lease makes a owner.
    private func begin() {
        guard owner == nil, lease.mayAct(now: now), lease.firstSequence > 0 else { return }
        owner = SessionOwnership(SessionRecord.Owner(node: id, leaseSequence: lease.firstSequence))
        tellLeases()
    }

    private func take(_ record: EngineStream.Record) {
        guard record.sequence == nextSequence else { return }
        nextSequence += 1
        if record.subject.hasPrefix("node.") { leases[record.subject] = record.isMarker ? nil : record.sequence }
        if record.subject.hasPrefix("session.") {
            records[Array(record.subject.utf8.dropFirst(8))] = SessionRecord(record.payload)
        }
        tellLeases()
    }

    /// What nodes have kept whose lease has ended, somebody has to go on with.
    private func adopt() {
        for (session, record) in records.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) })
        where owner?.isLeft(session, record) == true && arrivals[session] == nil && endings[session] == nil
            && clock.random.oneIn(8)
        {
            left.record(session, dutyAt: record.dutyAt)
        }
    }

    private func tellLeases() {
        let live = Set(leases.keys.compactMap { NodeID(token: Array($0.utf8.dropFirst(5))) })
        owner?.live(live, through: nextSequence - 1, self)
    }

    // MARK: Sessions

    func connect(_ client: String) {
        act { [self] in
            guard owner != nil else { return }
            let session = Array(client.utf8)
            let connection = world.begin(client, at: self)
            var arrival = IncomingSession(connection)
            if let earlier = arrivals[session] {
                // That client was not let in.
                (arrival.found, arrival.isPresent, arrival.state) = (earlier.found, earlier.isPresent, earlier.state)
                (arrival.owed, arrival.hasSettled) = (earlier.owed, earlier.hasSettled)
            } else if sessions[session] != nil {
                // What is kept here is known here.
                arrival.owed = takeOver(session)
            } else if let record = left.record(of: session) {
                (arrival.found, arrival.isPresent) = (record, !record.hasEnded(now: world.wallClock))
            }
            left.notTaken(session)
            (endings[session], unsettled[session]) = (nil, nil)
            arrivals[session] = arrival
            isConnecting = true
            owner?.connect(
                session, SessionOwnership.Terms(expiryInterval: connection.terms.expiry, firstEpoch: world.wallClock), now: now,
                self)
            isConnecting = false
        }
    }

    func subject(_ session: [UInt8]) -> String { "session." + String(decoding: session, as: UTF8.self) }

    func read(_ session: [UInt8]) {
        guard let connection else { return }
        world.stream.readLast(by: connection) { [self] records in
            act { [self] in
                guard let records else { return }
                let last = records.first { $0.subject == subject(session) }
                let record = last.flatMap { SessionRecord($0.payload) }
                if endings[session] != nil {
                    endings[session] = record?.owners[0].node == id ? .some(last?.sequence) : nil
                    return
                }
                recordFound(session, record)
                owner?.found(session, record, at: last?.sequence ?? 0, now: now, self)
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
                    case .unavailable, .noRoom: .unavailable
                    }
                owner?.written(session, number: number, told, now: now, self)
            }
        }
    }

    // MARK: Messages

    private func send(_ nodeMessage: [UInt8], to node: NodeID) {
        connection?.publish("letter.\(node)", reply: "", payload: nodeMessage)
    }

    func askToHandOver(_ session: [UInt8], from node: NodeID, epoch: UInt64) {
        send(SessionNode.nodeMessage(0, id, 0, epoch, session), to: node)
    }

    func answer(_ session: [UInt8], to node: NodeID, epoch: UInt64, state: [UInt8]?) {
        heldAnswers[session] = (node, epoch, state)
        if stopsKept { settledClaims[session] = epoch }
        sendAnswer(session)
    }

    /// When the wills of a session are in the log.
    func sendAnswer(_ session: [UInt8]) {
        guard jobs[session] == nil, let (node, epoch, state) = heldAnswers.removeValue(forKey: session) else { return }
        let hasSettled: UInt8 = settledClaims[session] == epoch ? 1 : 0
        send(SessionNode.nodeMessage(state == nil ? 1 : 2, id, hasSettled, epoch, session) + (state ?? []), to: node)
    }

    static func nodeMessage(_ kind: UInt8, _ id: NodeID, _ flag: UInt8, _ epoch: UInt64, _ session: [UInt8]) -> [UInt8] {
        [kind, UInt8(id.store), flag, UInt8(session.count)] + bytes(epoch) + session
    }

    func received(subject: String, reply: String, isNobodyThere: Bool, payload: [UInt8]) {
        act { [self] in
            guard owner != nil else { return }
            let (node, epoch, end) = (
                NodeID(store: UInt32(payload[1]), incarnation: 0), Self.number(payload[4..<12]), 12 + Int(payload[3])
            )
            let session = Array(payload[12..<end])
            if payload[0] == 0 {
                // Asked again, it waits for the same.
                if let held = heldAnswers[session], held.epoch == epoch { return }
                // Who is on the way here has only what others have said.
                stopsKept = arrivals[session]?.hasSettled ?? (owner?.keeps(session) == true && !left.isHandling(session))
                owner?.askedToHandOver(session, by: node, epoch: epoch, self)
                stopsKept = false
                left.notTaken(session)
            } else {
                if payload[2] == 1, node == arrivals[session]?.found?.owners[0].node { arrivals[session]?.hasSettled = true }
                owner?.handedOver(session, by: node, epoch: epoch, state: payload[0] == 1 ? nil : Array(payload[end...]), self)
            }
        }
    }

    // MARK: Keeping

    func restored(_ session: [UInt8], _ record: SessionRecord, state: [UInt8]?, isAssumed: Bool) {
        // A sink must not ask its owner, which is not done yet.
        clock.after(0) { [self] in
            act { [self] in
                guard owner?.keeps(session) == true, owner?.epoch(of: session) == record.epoch else { return }
                if owner?.isSettled(session) == true { world.restored(session, by: self) }
                if isAssumed {
                    left.restored(session, record)
                    return left.step(wallClock: world.wallClock, self)
                }
                if state == nil, arrivals[session]?.connection.isClean != true { world.replays(session) }
                arrivals[session]?.record = record
                arrivals[session]?.state = state
                arrive(session)
            }
        }
    }

    /// The client is let in: it gets what waits.
    func begin(_ session: [UInt8], _ kept: KeptSession) {
        sessions[session] = kept
        for sequence in kept.open { give(sequence, to: session, kept) }
        kept.hasBegun = true
        for record in history { read(record, for: session, kept) }
    }

    func stop(_ session: [UInt8]) -> [UInt8]? {
        if left.isHandling(session) {
            left.notTaken(session)
            return nil
        }
        let kept = sessions.removeValue(forKey: session)
        if stopsKept { kept.map { publishAtTakeOver($0, of: session) } }
        // It is closed, for a client that may never be let in.
        if let ended = kept?.connection, ended.endedAt == nil { ended.endedAt = clock.now }
        if isConnecting { return kept?.encoded ?? arrivals[session]?.state }
        guard let arrival = arrivals.removeValue(forKey: session) else { return kept?.encoded }
        return arrival.record == nil ? kept?.encoded : arrival.state
    }

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

    /// Whether the session's record says what this node, which keeps it, has of it: with all well it does after a
    /// moment.
    func isStored(_ session: [UInt8]) -> Bool {
        guard let kept = sessions[session], let last = world.stream.records.last(where: { $0.subject == subject(session) }),
            let record = SessionRecord(last.payload)
        else { return false }
        return record.owners[0].node == id && record.epoch == owner?.epoch(of: session)
            && record.wills == kept.will.map { [$0] } ?? [] && record.awaySince == kept.awaySince
            && record.cursors == [kept.cursor.position]
    }

    /// The client acknowledges after a while, if it is still this node's.
    func give(_ sequence: UInt64, to session: [UInt8], _ kept: KeptSession) {
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

    private func save() {
        guard now >= savesAt else { return }
        savesAt = now + 1000
        for (session, kept) in sessions.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) { save(session, kept) }
    }

    func save(_ session: [UInt8], _ kept: KeptSession) {
        guard jobs[session] == nil else { return }
        _ = owner?.save(session, hasAll: true, now: now, self) { record in
            record.cursors = [kept.cursor.position]
            record.wills = kept.will.map { [$0] } ?? []
            record.awaySince = kept.awaySince
        }
    }
}

/// What a node knows of a session that it keeps.
final class KeptSession {
    var cursor: LogCursor
    /// What the client has and has not acknowledged.
    var open: [UInt64] = []
    var hasClient: Bool { connection.map { $0.endedAt == nil } ?? false }
    /// nil when it has ended.
    var connection: ClientConnection?
    /// The last one, if it has ended with DISCONNECT and the cluster may not know that.
    var parted: ClientConnection?
    var will: SessionRecord.LastWill?
    /// In milliseconds since 1970; 0 while it is connected.
    var awaySince: UInt64 = 0
    /// Whether it has been given what its node has read before; what comes until then stands behind that.
    var hasBegun = false

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
