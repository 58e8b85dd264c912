import Bytes

@testable import Cluster

/// One of the engine's streams on three servers or one: what has been measured of it, and what it is documented to do.
///
/// - What is stored has a number; a message identifier is known for a window, and what is known is answered and not
///   stored again; while it is on its way to be stored, it is refused for the moment.
/// - Storing takes a majority. With a leader but no majority nothing is answered, and what was taken is stored when the
///   majority is back.
/// - A leader that is killed leaves 4 to 9 seconds without one; what it had taken and not answered is stored by the
///   next one, or gone.
/// - Answers get lost with connections, in either direction, and some take seconds.
/// - Who follows the stream gets all of it in order; some are told a second late.
/// - With an expected number for a subject, nothing is stored unless the last of that subject has it; 0 means that
///   there is none.
/// - Where a subject keeps one message, the older goes; with a time to live a message goes by itself, and a marker
///   takes its place.
/// - What has gone leaves a hole, and a stream that has become empty keeps the number of its last message.
/// - Without room a message is refused at once.
final class EngineStream {
    struct Record {
        let sequence: UInt64
        let subject: String
        let payload: [UInt8]
        /// When it was stored, in microseconds of the engine's clock.
        let at: UInt64
        /// Whether it says that its subject's message has gone.
        let isMarker: Bool
    }

    private struct Taken {
        let subject: String
        let messageID: String?
        let expected: UInt64?
        let milliseconds: UInt64?
        let payload: [UInt8]
        let answer: (StoreAnswer) -> Void
    }

    private final class Follower {
        weak var connection: EngineConnection?
        var next: UInt64
        var fifo = FIFO()
        /// How many times slower than usual it is told.
        let slowness: UInt64
        let receive: (Record) -> Void

        init(
            _ connection: EngineConnection, from sequence: UInt64, slowness: UInt64, _ receive: @escaping (Record) -> Void
        ) {
            self.connection = connection
            self.slowness = slowness
            next = sequence
            self.receive = receive
        }
    }

    unowned let engine: EngineModel
    let clock: SimulatedClock
    let replicas: [Int]
    private let windowMicroseconds: UInt64
    private(set) var leader: Int?
    private var term = 0
    private var isElecting = false
    /// What the leader has taken and not stored, in order.
    private var taken: [Taken] = []
    private var isStoring = false
    /// All that was ever stored.
    private(set) var records: [Record] = []
    /// The numbers of those that have gone.
    private(set) var gone: Set<UInt64> = []
    private let keepsOneOfSubject: Bool
    /// Whether it takes nothing more, for want of room.
    var isFull = false
    /// Those of real followers.
    var consumers: [EngineConsumer] = []
    private var identifiers: [String: (sequence: UInt64, at: UInt64)] = [:]
    /// The last number of each subject.
    private(set) var lastSequences: [String: UInt64] = [:]
    private var followers: [Follower] = []
    /// The bytes of all records.
    private(set) var storedBytes = 0

    init(engine: EngineModel, replicas: [Int], windowMicroseconds: UInt64 = 120_000_000, keepsOneOfSubject: Bool = false) {
        self.keepsOneOfSubject = keepsOneOfSubject
        self.engine = engine
        clock = engine.clock
        self.replicas = replicas
        self.windowMicroseconds = windowMicroseconds
        leader = replicas.first
    }

    // MARK: Leaders

    private func hasMajority(_ server: Int) -> Bool {
        engine.servers[server].isUp
            && replicas.count(where: { engine.servers[$0].isUp && engine.isJoined(server, $0) }) * 2 > replicas.count
    }

    /// Whether what is published now is stored.
    var hasQuorum: Bool { leader.map(hasMajority) == true }

    /// To be called when servers or routes have changed.
    func look() {
        if let leader, !engine.servers[leader].isUp || (!hasMajority(leader) && replicas.contains(where: hasMajority)) {
            self.leader = nil
            term += 1
            // What was taken is stored by the next leader if it had reached another server.
            let kept = clock.random.below(taken.count + 1)
            taken = taken.prefix(kept).map {
                Taken(
                    subject: $0.subject, messageID: $0.messageID, expected: $0.expected, milliseconds: $0.milliseconds,
                    payload: $0.payload
                ) { _ in }
            }
        }
        if leader == nil { elect() } else { store() }
        feedAll()
        prune()
    }

    /// Has room, servers that are well, and a minute's time.
    func heal() {
        isFull = false
        engine.heal()
        run(seconds: 60)
    }

    func run(seconds: Int) {
        for _ in 0..<seconds {
            look()
            clock.run(for: 1_000_000)
        }
    }

    /// The leader hands over, as when its server is stopped in peace.
    func stepDown() {
        guard leader != nil else { return }
        leader = nil
        term += 1
        elect(after: UInt64.random(in: 20_000...60_000, using: &clock.random))
    }

    private func elect(after delay: UInt64? = nil) {
        guard !isElecting else { return }
        isElecting = true
        clock.after(delay ?? UInt64.random(in: 4_000_000...9_000_000, using: &clock.random)) { [self] in
            isElecting = false
            guard leader == nil else { return }
            let candidates = replicas.filter(hasMajority)
            guard !candidates.isEmpty else { return elect() }
            leader = candidates[clock.random.below(candidates.count)]
            store()
            feedAll()
        }
    }

    // MARK: Storing

    /// Asks to store a message; `answer` is called unless something that carries question or answer breaks.
    func publish(
        _ payload: [UInt8], to subject: String, messageID: String? = nil, expected: UInt64? = nil, milliseconds: UInt64? = nil,
        by connection: EngineConnection, answer: @escaping (StoreAnswer) -> Void
    ) {
        connection.request { [self] reply in
            guard let leader, engine.servers[leader].isUp, engine.isJoined(connection.server, leader) else {
                return reply { answer(.unavailable) }
            }
            take(
                Taken(
                    subject: subject, messageID: messageID, expected: expected, milliseconds: milliseconds, payload: payload,
                    answer: { [self] result in
                        // The answer takes the way back, if that is there.
                        guard engine.isJoined(leader, connection.server) else { return }
                        guard clock.random.oneIn(20) else { return reply { answer(result) } }
                        clock.after(UInt64.random(in: 1000...4_000_000, using: &clock.random)) { reply { answer(result) } }
                    }))
        }
    }

    private func take(_ message: Taken) {
        if let identifier = message.messageID {
            if let known = identifiers[identifier], known.at + windowMicroseconds > clock.now {
                return message.answer(.stored(at: known.sequence))
            }
            if taken.contains(where: { $0.messageID == identifier }) { return message.answer(.unavailable) }
        }
        if isFull { return message.answer(.noRoom) }
        if message.expected != nil, taken.contains(where: { $0.subject == message.subject }) { return message.answer(.conflict) }
        taken.append(message)
        store()
    }

    /// Stores what was taken, one after the other, while there is a majority.
    private func store() {
        guard !isStoring, let leader, !taken.isEmpty, hasMajority(leader) else { return }
        isStoring = true
        let term = term
        clock.after(clock.delay(300...3000, rareFactor: 30)) { [self] in
            isStoring = false
            guard self.term == term, self.leader == leader, hasMajority(leader), !taken.isEmpty else { return store() }
            let message = taken.removeFirst()
            if let expected = message.expected, expected != lastSequences[message.subject] ?? 0 {
                message.answer(.conflict)
            } else {
                let sequence = append(message.subject, message.payload, isMarker: false, milliseconds: message.milliseconds)
                if let identifier = message.messageID { identifiers[identifier] = (sequence, clock.now) }
                message.answer(.stored(at: sequence))
            }
            store()
        }
    }

    private func append(_ subject: String, _ payload: [UInt8], isMarker: Bool, milliseconds: UInt64?) -> UInt64 {
        let sequence = UInt64(records.count) + 1
        records.append(Record(sequence: sequence, subject: subject, payload: payload, at: clock.now, isMarker: isMarker))
        if keepsOneOfSubject, let before = lastSequences[subject] { gone.insert(before) }
        lastSequences[subject] = sequence
        storedBytes += payload.count
        if let milliseconds {
            // Leaders' clocks differ: a message may go half a second early.
            let skew = UInt64(clock.random.below(500_000))
            expire(subject, sequence, after: max(milliseconds * 1000, skew) - skew)
        }
        feedAll()
        return sequence
    }

    private func expire(_ subject: String, _ sequence: UInt64, after microseconds: UInt64) {
        clock.after(microseconds) { [self] in
            guard lastSequences[subject] == sequence else { return }
            // Without a leader nothing goes; the time has passed nevertheless.
            guard let leader, hasMajority(leader) else { return expire(subject, sequence, after: 100_000) }
            _ = append(subject, [], isMarker: true, milliseconds: nil)
        }
    }

    /// The last message of a subject that a majority knows; nil if it has gone or never was.
    func last(_ subject: String) -> Record? {
        guard let sequence = lastSequences[subject] else { return nil }
        let record = records[Int(sequence) - 1]
        return record.isMarker ? nil : record
    }

    // MARK: What goes

    func isThere(_ record: Record) -> Bool { !gone.contains(record.sequence) }

    /// A message goes: its time has come, or somebody has deleted it.
    func forget(_ record: Record) {
        guard gone.insert(record.sequence).inserted, lastSequences[record.subject] == record.sequence else { return }
        lastSequences[record.subject] = nil
    }

    /// All go.
    func purge() { for record in records { forget(record) } }

    /// Its first and its last number, as its servers tell them.
    var ends: (first: UInt64, last: UInt64) {
        let first = records.first { isThere($0) }?.sequence ?? (records.isEmpty ? 0 : lastSequence + 1)
        return (first, lastSequence)
    }

    // MARK: Reading

    private func feedAll() {
        for follower in followers { feed(follower) }
        for consumer in consumers { feed(consumer) }
    }

    /// Gives everything from a number on, in order and as it comes, as long as the connection stands.
    func follow(from sequence: UInt64, by connection: EngineConnection, _ receive: @escaping (Record) -> Void) {
        let follower = Follower(connection, from: sequence, slowness: clock.random.oneIn(5) ? 1000 : 1, receive)
        followers.append(follower)
        feed(follower)
    }

    private func feed(_ follower: Follower) {
        guard let connection = follower.connection, connection.isOpen, let leader, engine.isJoined(leader, connection.server) else {
            return
        }
        while follower.next <= UInt64(records.count) {
            let record = records[Int(follower.next) - 1]
            follower.next += 1
            clock.at(follower.fifo.arrival(clock, after: clock.delay(100...1000, rareFactor: 10) * follower.slowness)) {
                if connection.isOpen { follower.receive(record) }
            }
        }
    }

    /// Forgets those whose connection is gone.
    private func prune() {
        followers.removeAll { $0.connection?.isOpen != true }
        consumers.removeAll { $0.connection?.isOpen != true }
    }

    /// Reads the last message of each subject, as it is when the question reaches the leader; `answer` may never be
    /// called.
    func readLast(by connection: EngineConnection, _ answer: @escaping ([Record]?) -> Void) {
        connection.request { [self] reply in
            guard let leader, hasMajority(leader), engine.isJoined(connection.server, leader) else { return reply { answer(nil) } }
            let found = lastSequences.values.sorted().map { records[Int($0) - 1] }.filter { !$0.isMarker }
            reply { answer(found) }
        }
    }

    /// The number of the last record.
    var lastSequence: UInt64 { UInt64(records.count) }
}
