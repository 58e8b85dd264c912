import BrokerModel
import Bytes

@testable import Cluster

/// A client on its way to be let in.
struct IncomingSession {
    enum Stage {
        case claiming
        case publishing
        case clearing
        case cleared
        case saving(KeptSession, WillName)
    }

    let connection: ClientConnection
    var stage = Stage.claiming
    /// The record before this node has claimed the session, and whether the session lasted then.
    var found: SessionRecord?
    var isPresent = false
    var record: SessionRecord?
    /// What is newest of what other nodes have.
    var offered: StateOfSession?
    /// What is due of the connection that the session had here; nil if it had none.
    var owed: [SavedWill]?
    /// Whether the node that kept it has answered, and so has published what was due.
    var hasSettled = false

    init(_ connection: ClientConnection) { self.connection = connection }
}

/// A record that is to go: the session's last epoch, and the record's number; nil if they have to be read.
struct SessionEnding {
    let found: (epoch: UInt64, number: UInt64)?
}

/// Wills, and sessions that end: as the broker's loop does that speaks to the servers.
extension SessionNode: LeftSessionsSink {
    // MARK: Clients that come and go

    func recordFound(_ session: [UInt8], _ record: SessionRecord?) {
        guard arrivals[session] != nil, arrivals[session]?.found == nil || record?.owners[0].node != id else { return }
        arrivals[session]?.found = record
        // Another one has kept it since it was here.
        if record?.owners[0].node != id { arrivals[session]?.owed = nil }
        arrivals[session]?.isPresent = record.map { !$0.hasEnded(now: world.wallClock) } ?? false
    }

    /// Another connection takes the place of the one that is here: what is due of that.
    func takeOver(_ session: [UInt8]) -> [SavedWill] {
        guard let kept = sessions[session] else { return [] }
        return kept.dueAtTakeOver(of: session, now: world.wallClock)
    }

    func publishAtTakeOver(_ kept: KeptSession, of session: [UInt8]) {
        for will in kept.dueAtTakeOver(of: session, now: world.wallClock) { publish(will, of: session) }
    }

    /// The session is this node's: its client is let in when the wills of earlier connections are seen to, and its own
    /// is stored.
    func arrive(_ session: [UInt8]) {
        guard let arrival = arrivals[session], let record = arrival.record else { return }
        switch arrival.stage {
        case .claiming where !record.wills.isEmpty:
            arrivals[session]?.stage = .publishing
            let found = arrival.found ?? record
            for will in arrival.owed ?? (arrival.hasSettled ? [] : found.dueWills(atReturn: false, now: world.wallClock)) {
                publish(will, of: session)
            }
            if jobs[session] == nil { arrive(session) }
        case .publishing:
            arrivals[session]?.stage = .clearing
            _ = owner?.save(session, now: now, self) { ($0.wills, $0.awaySince) = ([], 0) }
        case .claiming, .cleared:
            let isClean = arrival.connection.isClean
            let kept = isClean ? KeptSession(at: 1, by: record.epoch, isLasting: false) : newest(of: session, arrival, record)
            let name = WillName(epoch: record.epoch, number: arrival.connection.number)
            kept.connection = arrival.connection
            if !isClean {
                kept.will = SavedWill(name: name, delayInterval: arrival.connection.terms.delay, message: [])
            }
            arrivals[session]?.stage = .saving(kept, name)
            // The record may say that all of it is here before the answer has come.
            departed[session] = kept.state
            save(session, kept)
        case .clearing, .saving: return
        }
    }

    func saved(_ session: [UInt8], _ record: SessionRecord) {
        clock.after(0) { [self] in act { [self] in hasSaved(session, record) } }
    }

    func notAssumed(_ session: [UInt8], _ record: SessionRecord?) {
        clock.after(0) { [self] in act { [self] in if owner?.keeps(session) != true { left.notTaken(session) } } }
    }

    private func hasSaved(_ session: [UInt8], _ record: SessionRecord) {
        if left.isHandling(session) {
            left.saved(session, record)
            return left.step(wallClock: world.wallClock, self)
        }
        if let kept = sessions[session], record.wills.isEmpty { kept.parted?.isGoodbyeStored = true }
        guard let arrival = arrivals[session], owner?.epoch(of: session) == record.epoch else { return }
        switch arrival.stage {
        case .clearing:
            arrivals[session]?.stage = .cleared
            arrivals[session]?.record = record
            arrive(session)
        case .saving(let kept, let name):
            let isClean = arrival.connection.isClean
            guard record.wills.map(\.name) == (isClean ? [] : [name]) else { return }
            arrivals[session] = nil
            world.established(arrival.connection, isClean ? nil : name, isPresent: arrival.owed != nil || arrival.isPresent)
            begin(session, kept)
        case .claiming, .publishing, .cleared: return
        }
    }

    /// A client's connection breaks.
    func lost(_ connection: ClientConnection) { end(connection, isDue: true) }

    /// A client sends DISCONNECT.
    func disconnected(_ connection: ClientConnection) {
        connection.hasSaidGoodbye = true
        end(connection, isDue: false)
    }

    private func end(_ connection: ClientConnection, isDue: Bool) {
        let session = Array(connection.client.utf8)
        (connection.endedAt, connection.isEndSeen, connection.isEndLate) = (clock.now, isWell, !isWell)
        act { [self] in
            guard let kept = sessions[session], kept.connection === connection else { return }
            (kept.connection, kept.awaySince) = (nil, world.wallClock)
            if !isDue { (kept.will, kept.parted) = (nil, connection) }
            watch(session, kept)
            if sessions[session] === kept { save(session, kept) }
        }
    }

    /// Time passes: what is due of sessions whose clients are away.
    func watch() {
        for (session, kept) in sessions.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) { watch(session, kept) }
    }

    private func watch(_ session: [UInt8], _ kept: KeptSession) {
        guard kept.awaySince > 0, arrivals[session] == nil else { return }
        let client = String(decoding: session, as: UTF8.self)
        let endsAt = kept.awaySince + UInt64(ClientConnection.terms(of: client).expiry) * 1000
        let isOver = endsAt <= world.wallClock
        if let will = kept.will, isOver || kept.awaySince + UInt64(will.delayInterval) * 1000 <= world.wallClock {
            kept.will = nil
            publish(will, of: session)
        }
        guard isOver, jobs[session] == nil else { return }
        sessions[session] = nil
        end(session)
    }

    // MARK: Clients that need nobody

    func letInUnsettled() {
        for (session, arrival) in arrivals.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) })
        where arrival.connection.isClean && arrival.record == nil && clock.now >= arrival.connection.askedAt + 1_500_000 {
            owner?.keepUnsettled(session, self)
            guard let epoch = owner?.epoch(of: session), owner?.isSettled(session) == false else { continue }
            unsettled[session] = (epoch, now, false)
            world.letInUnsettled += 1
        }
        for (session, entry) in unsettled.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            guard owner?.keeps(session) == true, owner?.epoch(of: session) == entry.epoch else {
                unsettled[session] = nil
                continue
            }
            if owner?.isSettled(session) == true {
                unsettled[session] = nil
                if entry.isOver { end(session) }
            } else if now >= entry.since + SessionWorld.unsettledMilliseconds {
                unsettled[session] = nil
                owner?.release(session)
                arrivals[session] = nil
                if let connection = sessions.removeValue(forKey: session)?.connection, connection.endedAt == nil {
                    connection.endedAt = clock.now
                }
            }
        }
    }

    // MARK: The log

    func publish(_ will: SavedWill, of session: [UInt8]) {
        guard jobs[session]?.contains(will) != true else { return }
        jobs[session, default: []].append(will)
        jobs[session]?.sort { $0.name < $1.name }
    }

    func sendWills() {
        guard let connection else { return }
        for (session, wills) in jobs.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            let name = wills[0].name
            let payload = [UInt8(ascii: "!")] + Self.bytes(name.epoch) + Self.bytes(name.number) + session
            let identifier = "will-\(session)-\(name.epoch)-\(name.number)"
            world.log.publish(payload, to: "log", messageID: identifier, by: connection) { [self] answer in
                act { [self] in if case .stored = answer { published(session, name) } }
            }
        }
    }

    private func published(_ session: [UInt8], _ name: WillName) {
        guard jobs[session]?.first?.name == name else { return }
        jobs[session]?.removeFirst()
        left.published(session, name)
        left.step(wallClock: world.wallClock, self)
        guard jobs[session]?.isEmpty == true else { return }
        jobs[session] = nil
        sendAnswer(session)
        if case .publishing = arrivals[session]?.stage { arrive(session) }
        if let kept = sessions[session] { save(session, kept) }
    }

    // MARK: LeftSessionsSink

    func adopt(_ session: [UInt8]) {
        guard arrivals[session] == nil, owner?.adopt(session, wallClock: world.wallClock, now: now, self) == true else {
            return clock.after(0) { [self] in act { [self] in left.notTaken(session) } }
        }
    }

    func remove(_ wills: Set<WillName>, of session: [UInt8]) {
        _ = owner?.save(session, now: now, self) { $0.wills.removeAll { wills.contains($0.name) } }
    }

    func letGo(_ session: [UInt8]) { owner?.release(session) }

    func end(_ session: [UInt8]) {
        if let entry = unsettled[session], owner?.epoch(of: session) == entry.epoch, owner?.isSettled(session) == false {
            unsettled[session]?.isOver = true
        } else {
            let epoch = owner?.epoch(of: session)
            let number = owner?.release(session)
            endings[session] = SessionEnding(found: epoch.flatMap { epoch in number.map { (epoch: epoch, number: $0) } })
        }
    }

    func sendEndings() {
        guard let connection else { return }
        for (session, ending) in endings.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
            guard let found = ending.found else {
                read(session)
                continue
            }
            // Whoever has come before, and claims the session now, goes on behind its last epoch.
            let tombstone = SessionRecord.tombstone(endedAt: found.epoch)
            world.stream.publish(tombstone, to: subject(session), expected: found.number, by: connection) { [self] answer in
                act { [self] in if answer != .unavailable { endings[session] = nil } }
            }
        }
    }

    // MARK: Bytes

    static func bytes(_ number: UInt64) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(8 * $0)) } }

    static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) } }

    /// Whose will an entry of the log is.
    static func will(in payload: [UInt8]) -> (session: [UInt8], name: WillName)? {
        guard payload.first == UInt8(ascii: "!") else { return nil }
        return (Array(payload[17...]), WillName(epoch: number(payload[1..<9]), number: number(payload[9..<17])))
    }
}

extension KeptSession {
    /// What is due although another connection of the client has come.
    fileprivate func dueAtTakeOver(of session: [UInt8], now: UInt64) -> [SavedWill] {
        guard let will else { return [] }
        if ClientConnection.terms(of: String(decoding: session, as: UTF8.self)).expiry == 0 { return [will] }
        let isDue = awaySince == 0 ? will.delayInterval == 0 : awaySince + UInt64(will.delayInterval) * 1000 <= now
        return isDue ? [will] : []
    }
}
