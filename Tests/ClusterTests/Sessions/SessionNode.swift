import BrokerModel
import Bytes

@testable import Cluster

/// A node with a lease and a owner of sessions, and a clock of its own.
final class SessionNode: EngineClient, SessionOwnershipSink {
    let id: NodeID
    unowned let world: SessionWorld
    private(set) var connection: EngineConnection?
    private var lease = NodeLease(
        lifeMilliseconds: SessionWorld.lifeMilliseconds, allowanceMilliseconds: SessionWorld.allowanceMilliseconds)
    /// When it is to be written: a third of its life after it was written last, or when no answer has come for a
    /// second.
    private var renewsAt: UInt64 = 0
    var owner: SessionOwnership?
    private var isRunning = true
    /// Parts in a thousand by which its clock is wrong: up to 2 %.
    private let rate: UInt64
    private var hangsUntil: UInt64 = 0
    /// What has come while it hung, in order.
    private var waiting: [() -> Void] = []
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
    var jobs: [[UInt8]: [SavedWill]] = [:]
    /// What this node has of sessions that it does not keep for a client now: as it was kept, and by which claim.
    var departed: [[UInt8]: StateOfSession] = [:]
    /// Messages that wait for wills, with the epochs that they answer.
    var heldAnswers: [[UInt8]: (node: NodeID, epoch: UInt64)] = [:]
    /// Claims of others that were told that the wills are seen to.
    var settledClaims: [[UInt8]: UInt64] = [:]
    /// Whether the session that stops was kept for its client.
    var stopsKept = false
    /// Records that are to go.
    var endings: [[UInt8]: SessionEnding] = [:]
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

    /// Whether it acts for a session although that node has not stopped.
    func isUnsettled(_ session: [UInt8], for node: SessionNode) -> Bool {
        owner?.claims[session]?.unsettled.contains { $0.node == node.id } == true
    }

    // MARK: Life

    func start() {
        dial()
        tick()
    }

    func stop() {
        isRunning = false
        connection?.close()
    }

    func hang(_ microseconds: UInt64) { hangsUntil = max(hangsUntil, clock.now + microseconds) }

    /// Does something now, or when the node does not hang any more, behind what has come before.
    func act(_ action: @escaping () -> Void) {
        guard isRunning else { return }
        guard clock.now >= hangsUntil, waiting.isEmpty else {
            waiting.append(action)
            if waiting.count == 1 { clock.at(hangsUntil) { [self] in goOn() } }
            return
        }
        lease.expire(now: now)
        if lease.state == .ended {
            for session in sessions.keys { leave(session) }
            stop()
            world.nodeIsGone(self, isLate: true)
            return world.restart(self)
        }
        action()
    }

    private func goOn() {
        guard clock.now >= hangsUntil else { return clock.at(hangsUntil) { [self] in goOn() } }
        let actions = waiting
        waiting = []
        for action in actions { act(action) }
    }

    private func tick() {
        clock.after(250_000) { [self] in
            act { [self] in
                renew()
                owner?.tick(now: now, wallClock: world.wallClock, self)
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
        world.engine.dial(self, while: { [self] in isRunning && connection == nil }) { [self] made in
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
        guard let connection, lease.state != .ended, now >= renewsAt else { return }
        let askedAt = now
        renewsAt = now + 1000
        world.stream.publish(
            [1], to: leaseSubject, expected: lease.sequence, milliseconds: SessionWorld.lifeMilliseconds, by: connection
        ) { [self] answer in
            act { [self] in
                switch answer {
                case .stored(let sequence):
                    lease.renewed(askedAt: askedAt, at: sequence, now: now)
                    renewsAt = askedAt + SessionWorld.lifeMilliseconds / 3
                case .conflict: look()
                case .unavailable, .noRoom, .refused: break
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
                renewsAt = now
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
        if record.sequence > nextSequence { world.fail("node \(id) takes entry \(record.sequence) before \(nextSequence)") }
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
                (arrival.found, arrival.isPresent, arrival.offered) = (earlier.found, earlier.isPresent, earlier.offered)
                (arrival.owed, arrival.hasSettled) = (earlier.owed, earlier.hasSettled)
            } else if sessions[session] != nil {
                // What is kept here is known here.
                arrival.owed = takeOver(session)
            } else if owner?.keeps(session) == true, let record = owner?.record(of: session) {
                // What is kept for nobody is not read again.
                (arrival.found, arrival.isPresent) = (record, !record.hasEnded(now: world.wallClock))
            }
            left.notTaken(session)
            (endings[session], unsettled[session]) = (nil, nil)
            arrivals[session] = arrival
            if owner?.keeps(session) == true { leave(session) }
            owner?.connect(
                session, SessionOwnership.Terms(expiryInterval: connection.terms.expiry, firstEpoch: world.wallClock), now: now,
                self)
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
                    let own = record?.owners[0].node == id ? record : nil
                    endings[session] = own.flatMap { own in last.map { SessionEnding(found: (own.epoch, $0.sequence)) } }
                    return
                }
                recordFound(session, record)
                let ended = last.map { SessionRecord.epoch(ofTombstone: $0.payload) } ?? 0
                owner?.found(session, record, at: last?.sequence ?? 0, ended: ended, now: now, self)
            }
        }
    }

    func write(_ record: SessionRecord, of session: [UInt8], expecting sequence: UInt64, number: UInt64) {
        guard let connection else { return }
        world.stream.publish(record.encoded, to: subject(session), expected: sequence, by: connection) { [self] answer in
            act { [self] in
                owner?.written(session, number: number, answer, now: now, self)
            }
        }
    }

    // MARK: Messages

    private func send(_ nodeMessage: [UInt8], to node: NodeID) {
        connection?.publish("letter.\(node)", reply: "", payload: nodeMessage)
    }

    func askToStop(_ session: [UInt8], from node: NodeID, epoch: UInt64) {
        send(SessionNode.nodeMessage(0, id, 0, epoch, session), to: node)
    }

    private func answer(_ session: [UInt8], to node: NodeID, epoch: UInt64) {
        heldAnswers[session] = (node, epoch)
        if stopsKept { settledClaims[session] = epoch }
        sendAnswer(session)
    }

    /// When the wills of a session are in the log.
    func sendAnswer(_ session: [UInt8]) {
        guard jobs[session] == nil, let (node, epoch) = heldAnswers.removeValue(forKey: session) else { return }
        let hasSettled: UInt8 = settledClaims[session] == epoch ? 1 : 0
        let offered = departed[session].map { Self.bytes($0.epoch) + $0.bytes }
        send(SessionNode.nodeMessage(offered == nil ? 1 : 2, id, hasSettled, epoch, session) + (offered ?? []), to: node)
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
                if owner?.askedToStop(session, epoch: epoch, self) == true { answer(session, to: node, epoch: epoch) }
                stopsKept = false
                left.notTaken(session)
            } else {
                let isAnswered = payload[2] == 1 && owner?.epoch(of: session) == epoch
                if isAnswered, node == arrivals[session]?.found?.owners[0].node { arrivals[session]?.hasSettled = true }
                if payload[0] == 2 {
                    let offered = StateOfSession(epoch: Self.number(payload[end..<(end + 8)]), bytes: Array(payload[(end + 8)...]))
                    if offered.epoch > arrivals[session]?.offered?.epoch ?? 0 { arrivals[session]?.offered = offered }
                }
                owner?.hasStopped(node, session, epoch: epoch, self)
            }
        }
    }

    // MARK: Keeping

    func restored(_ session: [UInt8], _ record: SessionRecord, isAssumed: Bool) {
        // A sink must not ask its owner, which is not done yet.
        clock.after(0) { [self] in
            act { [self] in
                guard owner?.keeps(session) == true, owner?.epoch(of: session) == record.epoch else { return }
                if owner?.isSettled(session) == true { world.restored(session, by: self) }
                if isAssumed {
                    left.restored(session, record)
                    return left.step(wallClock: world.wallClock, self)
                }
                arrivals[session]?.record = record
                arrive(session)
            }
        }
    }

    /// The client is let in: it gets what waits.
    func begin(_ session: [UInt8], _ kept: KeptSession) {
        (sessions[session], departed[session]) = (kept, nil)
        for sequence in kept.open { give(sequence, to: session, kept) }
        kept.hasBegun = true
        for record in history { read(record, for: session, kept) }
    }

    func stop(_ session: [UInt8]) {
        if left.isHandling(session) { return left.notTaken(session) }
        if stopsKept { sessions[session].map { publishAtTakeOver($0, of: session) } }
        leave(session)
        arrivals[session] = nil
    }

    /// Its client is closed, for one that may never be let in.
    private func leave(_ session: [UInt8]) {
        guard let kept = sessions.removeValue(forKey: session) else { return }
        if let ended = kept.connection, ended.endedAt == nil { ended.endedAt = clock.now }
        departed[session] = kept.state
    }

    /// What a session goes on with: what is newest of what this node has had, what others have offered, and what stands
    /// in the record. If that is the record, its messages come once more from the places there on.
    func newest(of session: [UInt8], _ arrival: IncomingSession, _ record: SessionRecord) -> KeptSession {
        // What this node has had counts while it stands among the owners: afterwards another one has all of it.
        let isOwn = arrival.found.map { $0.owners.contains { $0.node == id } } ?? (arrival.owed != nil)
        let offered = [isOwn ? departed[session] : nil, arrival.offered].compactMap { $0 }.max { $0.epoch < $1.epoch }
        let saved = record.saved.flatMap { $0.epoch > offered?.epoch ?? 0 ? $0 : nil }
        if let offered, saved == nil { return KeptSession(offered.bytes, by: record.epoch) }
        world.replays(session)
        return KeptSession(at: saved.map { Self.number($0.places[...]) } ?? 1, by: record.epoch)
    }

    private func read(_ record: EngineStream.Record) {
        // What it has read on an earlier connection may come again; in between nothing is left out.
        let next = UInt64(history.count) + 1
        if record.sequence > next { world.fail("node \(id) reads entry \(record.sequence) of the log before \(next)") }
        guard record.sequence == next else { return }
        history.append(record)
        for (session, kept) in sessions.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            read(record, for: session, kept)
        }
    }

    private func read(_ record: EngineStream.Record, for session: [UInt8], _ kept: KeptSession) {
        guard kept.hasBegun, record.sequence >= kept.next else { return }
        kept.next = record.sequence + 1
        guard record.payload == session else { return }
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
            && record.wills == kept.will.map { [$0] } ?? [] && record.awaySince == kept.awaySince && record.saved == kept.saved
    }

    /// The client acknowledges after a while, if it is still this node's.
    func give(_ sequence: UInt64, to session: [UInt8], _ kept: KeptSession) {
        world.received(session, sequence)
        clock.after(UInt64.random(in: 1000...20_000, using: &clock.random)) { [self] in
            act { [self] in
                guard sessions[session] === kept, mayAct(session) else { return }
                world.acknowledged(session, sequence)
                kept.open.removeAll { $0 == sequence }
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
            record.saved = kept.saved
            record.wills = kept.will.map { [$0] } ?? []
            record.awaySince = kept.awaySince
        }
    }
}

/// What a node has of a session, and by which claim it kept it.
struct StateOfSession {
    let epoch: UInt64
    let bytes: [UInt8]
}

/// What a node knows of a session that it keeps.
final class KeptSession {
    /// The claim by which it is kept.
    let epoch: UInt64
    /// Whether it outlives its client: else nothing of it is stored.
    let isLasting: Bool
    /// The number of the record that is read next.
    var next: UInt64
    /// What the client has and has not acknowledged, rising.
    var open: [UInt64] = []
    var hasClient: Bool { connection.map { $0.endedAt == nil } ?? false }
    /// nil when it has ended.
    var connection: ClientConnection?
    /// The last one, if it has ended with DISCONNECT and the cluster may not know that.
    var parted: ClientConnection?
    var will: SavedWill?
    /// In milliseconds since 1970; 0 while it is connected.
    var awaySince: UInt64 = 0
    /// Whether it has been given what its node has read before; what comes until then stands behind that.
    var hasBegun = false

    /// - Parameter position: everything before this record is done.
    init(at position: UInt64, by epoch: UInt64, isLasting: Bool = true) {
        (next, self.epoch, self.isLasting) = (position, epoch, isLasting)
    }

    /// As another node, or this one, has kept it.
    init(_ state: [UInt8], by epoch: UInt64) {
        let numbers = state.split(separator: 0).compactMap { UInt64(String(decoding: $0, as: UTF8.self)) }
        (self.epoch, isLasting, next, open) = (epoch, true, numbers.first ?? 1, Array(numbers.dropFirst()))
    }

    var state: StateOfSession {
        StateOfSession(epoch: epoch, bytes: Array(([next] + open).map(String.init).joined(separator: "\0").utf8))
    }

    /// What stands in the record, as a broker's shard gives it: up to where the session has nothing left to do.
    var saved: SessionRecord.Saved? {
        isLasting ? SessionRecord.Saved(epoch: epoch, state: [1], places: SessionNode.bytes(open.first ?? next)) : nil
    }
}
