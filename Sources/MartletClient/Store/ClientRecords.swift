internal import Bytes
internal import ClientCore
package import ClientStore
internal import Platform

/// What a client keeps in its store, seen from its loop, whose thread it belongs to: changes are gathered during a turn
/// and handed over at its end; the store's answers come as commands.
///
/// ```
///   turn: changes ──endTurn──► commit n ──► store          output of the turn is held, if it follows from the changes
///   later turn:               committed(n) ◄── store       output leaves, deliveries and arrivals are told
/// ```
final class ClientRecords {
    /// What follows when a commit is durable, or why it will not be.
    typealias Sequel = (ClientEngine, ClientError?) -> Void

    let storage: any ClientStorage
    let board: DeliveryBoard
    var outbox: OutboxQueue
    /// What messages of the outbox belong to.
    var owners: OutboxOwners
    var refused: RefusedMessages
    var gate = OutputGate()
    let whenFull: ClientSettings.QueueLimits.WhenFull
    /// Messages of the outbox that the session has.
    var flights: [PublishTicket: Flight] = [:]
    /// Of messages that wait for room in the outbox, the first first.
    var blocked = Deque<EnqueueCall>()
    /// Messages of this turn for the outbox.
    var additions: [Addition] = []
    /// The subscriptions whose messages come from the store.
    var spills: [UInt32: SpillSink] = [:]
    var inboxes: [String: InboxSink] = [:]
    /// By their numbers and names, so that a simulation is the same in every process.
    var spillsInOrder: [SpillSink] {
        spills.count < 2 ? Array(spills.values) : spills.sorted { $0.key < $1.key }.map(\.value)
    }
    var inboxesInOrder: [InboxSink] { inboxes.sorted { $0.key < $1.key }.map(\.value) }
    /// Why nothing is stored any more; nil if all is well.
    var failure: ClientError?
    /// How many messages the outbox had when those who wait were told their positions.
    var reportedCount = 0
    var session: SessionRecords
    /// Answers to requests that an earlier run has kept.
    let restoredAnswers: [AnswerRow]
    /// What an earlier run has left of the session.
    let restored: StoredClientSession
    /// The name that the server knew the client by; nil in a new store.
    let storedIdentifier: String?

    /// Of those that wait for room, how many were cancelled and lie there still, at most.
    private var cancelledCount = 0
    private var lastIdentifier: String?
    private var turn = Turn()
    private var lastCommit: UInt64 = 0
    /// What follows commits that are under way.
    private var waiting: [UInt64: (sequels: [Sequel], changeCount: Int, byteCount: Int)] = [:]
    /// Changes that are handed over and not durable.
    private(set) var unstored = ClientSize.Part.zero

    /// What is gathered until the end of a turn.
    private struct Turn {
        var batch = StoreBatch()
        /// Whether what the turn has written must not leave before that is durable.
        var holdsOutput = false
        var sequels: [Sequel] = []
        var endings: [(ClientRecords) -> Void] = []
    }

    struct Flight {
        /// In the outbox.
        let number: UInt64
        let publication: Publication
    }

    struct Addition {
        let call: EnqueueCall
        let message: OutboxMessage
        var changes: [StoreChange]
        let byteCount: Int
        var owner: OutboxOwner?
        var own: InboxBook.Own?
    }

    /// Reads what an earlier run has left. Any thread, before the loop has it.
    ///
    /// - Parameter now: milliseconds since 1970.
    init(_ settings: ClientSettings, _ location: StoreLocation, now: UInt64, random: () -> UInt64) throws(ClientError) {
        whenFull = settings.outbox.whenFull
        board = DeliveryBoard()
        do throws(StoreError) {
            storage = try location.open()
            let identity = try StoredIdentity(in: storage, random: random)
            storedIdentifier = identity.clientIdentifier
            lastIdentifier = storedIdentifier
            session = try SessionRecords(in: storage, now: now)
            outbox = try OutboxQueue(
                bounds: OutboxBounds(messages: settings.outbox.messages, bytes: settings.outbox.bytes),
                prefix: identity.messagePrefix, in: storage)
            owners = OutboxOwners(try OutboxOwner.all(in: storage))
            for (ticket, message) in session.restoredOutbox {
                outbox.restore(message)
                flights[PublishTicket(number: ticket)] = Flight(number: message.number, publication: message.publication)
            }
            refused = try RefusedMessages(in: storage)
            restored = session.restored
            restoredAnswers = try storage.rows(StoreQuery(.answer)).rows.compactMap { AnswerRow($0) }
            turn.batch.changes = identity.changes + session.removals
        } catch {
            throw ClientError(error)
        }
    }

    /// A call that waits for room was cancelled, or perhaps one that does not any more. Those are forgotten when they
    /// are half of all, so that each is moved once.
    func blockedCancelled() {
        cancelledCount += 1
        guard cancelledCount * 2 > blocked.count else { return }
        cancelledCount = 0
        for call in blocked.takeAll() where !call.call.isOver { blocked.append(call) }
    }

    /// A message of the outbox has come so far: whoever follows it hears of it, and what it belongs to.
    func report(_ number: UInt64, _ status: DeliveryStatus) {
        board.set(number, status)
        if status.isFinal, case .inbox(let name, let conversation, let place)? = owners[number] {
            add([OwnMessageRow(status.stored).put(name, conversation, place)])
            if let sink = inboxes[name] { add(sink.book.settled(number, isTaken: status == .acknowledged)) }
        }
        add(owners.report(number, status))
    }

    /// To be made durable with this turn.
    ///
    /// - Parameter holdsOutput: whether what this turn has written must not leave before.
    func add(_ changes: [StoreChange], holdsOutput: Bool = false) {
        turn.batch.changes += changes
        if holdsOutput { turn.holdsOutput = true }
    }

    /// The name under which the server knows the client from now on.
    func setClientIdentifier(_ identifier: String) {
        guard identifier != lastIdentifier else { return }
        lastIdentifier = identifier
        turn.batch.changes.append(.put(.identity, StoreKey("client"), Array(identifier.utf8)))
    }

    /// Takes the session's changes over. Returns whether the server has forgotten it.
    func collect(_ changes: [SessionChange]) -> Bool {
        guard !changes.isEmpty else { return false }
        let rows = session.rows(for: changes) { flights[PublishTicket(number: $0)]?.number }
        add(rows.changes, holdsOutput: rows.holdsOutput)
        return rows.hasStartedOver
    }

    /// To be done before this turn's changes are handed over.
    func beforeCommit(_ work: @escaping (ClientRecords) -> Void) { turn.endings.append(work) }

    /// To be done when this turn's changes are durable.
    func afterCommit(_ sequel: @escaping Sequel) { turn.sequels.append(sequel) }

    /// Hands this turn's changes over.
    func commit(for engine: ClientEngine) {
        for ending in turn.endings { ending(self) }
        turn.endings.removeAll(keepingCapacity: true)
        guard !turn.batch.isEmpty || !turn.sequels.isEmpty, failure == nil else { return }
        lastCommit += 1
        let number = lastCommit
        if turn.holdsOutput { gate.hold(for: number) }
        let byteCount = turn.batch.changes.reduce(0) { $0 + $1.byteCount }
        waiting[number] = (turn.sequels, turn.batch.changes.count, byteCount)
        unstored.messages += turn.batch.changes.count
        unstored.bytes += byteCount
        // Without it a message of QoS 1 is sent once more after a crash, and nothing worse.
        turn.batch.isLazy = !turn.holdsOutput && turn.sequels.isEmpty
        storage.commit(turn.batch) { [weak engine] error in engine?.post(.records { $0.records?.committed(number, error, $0) }) }
        (turn.batch, turn.holdsOutput, turn.sequels) = (StoreBatch(), false, [])
    }

    /// The store has answered. What follows from the commit, in the order in which it was said.
    func committed(_ number: UInt64) -> [Sequel] {
        gate.committed(through: number)
        guard let commit = waiting.removeValue(forKey: number) else { return [] }
        unstored.messages -= commit.changeCount
        unstored.bytes -= commit.byteCount
        return commit.sequels
    }

    /// Whether the disk is so far behind the network that nothing more is to be read from it.
    var isBehind: Bool { unstored.messages >= Limits.storeChangesMax || unstored.bytes >= Limits.storeBytesMax }

    /// Nothing is durable any more: all that waits for it, in order.
    func giveUp() -> [Sequel] {
        defer { (waiting, turn.sequels, unstored) = ([:], [], .zero) }
        return waiting.sorted { $0.key < $1.key }.flatMap(\.value.sequels) + turn.sequels
    }
}

extension ClientEngine {
    /// The session as an earlier run has left it, or a new one.
    static func session(_ options: inout ClientOptions, _ settings: ClientSettings, _ records: ClientRecords?) -> ClientSession {
        guard let records else { return ClientSession(options) }
        options.isJournaled = true
        // Without a name of its own a client keeps the one that it has made up, or its session could not be found.
        if settings.clientIdentifier.isEmpty, settings.session != .ended,
            let known = records.storedIdentifier.flatMap({ EncodedString($0) })
        {
            options.clientIdentifier = known
        }
        var restored = records.restored
        let identifier = options.clientIdentifier.description
        if let known = records.storedIdentifier, known != identifier {
            // For the server it is another client.
            restored.apply(.startedOver)
            _ = records.collect([.startedOver])
        }
        records.setClientIdentifier(identifier)
        return ClientSession(options, restoring: restored)
    }
}

/// How much of the output may leave: what follows from changes that the store has not made durable stays.
///
/// ```
///   written │ may leave │ held until a commit
///   ────────┼───────────┼────────────────────► bytes of this connection
///           0        first hold
/// ```
struct OutputGate {
    private struct Hold {
        let commit: UInt64
        /// Bytes of this connection before it.
        var position: Int
    }

    private var holds: [Hold] = []
    private var writtenCount = 0
    /// All output up to the last turn.
    private var lastPosition = 0

    /// Another connection: what waits for the store holds all of it.
    mutating func connectionEnded() {
        (writtenCount, lastPosition) = (0, 0)
        for index in holds.indices { holds[index].position = 0 }
    }

    /// The output of this turn waits for a commit, which is later than all before.
    mutating func hold(for commit: UInt64) { holds.append(Hold(commit: commit, position: lastPosition)) }

    /// The end of a turn.
    ///
    /// - Parameter pending: bytes that are not written.
    mutating func turnEnded(pending: Int) { lastPosition = writtenCount + pending }

    /// The store has made everything up to a commit durable.
    mutating func committed(through commit: UInt64) { holds.removeAll { $0.commit <= commit } }

    mutating func wrote(_ count: Int) { writtenCount += count }

    /// How many bytes may leave now.
    var allowance: Int { holds.first.map { max(0, $0.position - writtenCount) } ?? .max }
}

/// Where a client keeps what is to outlive it.
public struct StoreLocation: Sendable {
    let open: @Sendable () throws(StoreError) -> any ClientStorage

    /// An SQLite database in a file, which is made if there is none. One client at a time has it.
    ///
    /// - Parameters:
    ///   - path: of the database; its log and its lock are beside it.
    ///   - bytesMax: the size that it may have; nil for any.
    public static func file(_ path: String, bytesMax: Int? = nil) -> StoreLocation {
        StoreLocation { () throws(StoreError) in try FileStore(path, bytesMax: bytesMax) }
    }

    /// Memory of that name, which lives as long as the process: for tests that end a client and begin it again.
    public static func memory(_ name: String) -> StoreLocation {
        StoreLocation { () throws(StoreError) in try MemoryStore(.named(name)) }
    }

    /// A storage that a test holds in its hands. It is closed with the client.
    package static func custom(_ open: @escaping @Sendable () throws(StoreError) -> any ClientStorage) -> StoreLocation {
        StoreLocation(open: open)
    }
}

extension ClientError {
    init(_ error: StoreError) { self = .store("\(error)") }
}

/// What messages of the outbox belong to beside it, and who hears how far they have come. Only those that belong to
/// something are in it. Belongs to the loop's thread.
struct OutboxOwners {
    /// Hears of each newer status, on the loop's thread; `.failed(.ended)` when the client ends before the message is
    /// over.
    typealias Observer = @Sendable (DeliveryStatus) -> Void

    private var owners: [UInt64: OutboxOwner]
    private var observers: [UInt64: [Observer]] = [:]

    init(_ stored: [(number: UInt64, owner: OutboxOwner)]) {
        owners = Dictionary(stored.map { ($0.number, $0.owner) }) { $1 }
    }

    subscript(number: UInt64) -> OutboxOwner? { owners[number] }

    mutating func add(_ owner: OutboxOwner, of number: UInt64, _ observer: Observer?) {
        owners[number] = owner
        if let observer { observers[number, default: []].append(observer) }
    }

    /// As above, of a message that an earlier run has left. Returns whether it is there still.
    mutating func observe(_ number: UInt64, _ observer: @escaping Observer) -> Bool {
        guard owners[number] != nil else { return false }
        observers[number, default: []].append(observer)
        return true
    }

    /// A message has come so far. Returns what is to be written.
    mutating func report(_ number: UInt64, _ status: DeliveryStatus) -> [StoreChange] {
        guard !owners.isEmpty, owners[number] != nil else { return [] }
        for observer in observers[number] ?? [] { observer(status) }
        guard status.isFinal else { return [] }
        owners[number] = nil
        observers[number] = nil
        return [OutboxOwner.remove(number)]
    }

    /// What messages belong to is gone; they are sent all the same. Returns what is to be written.
    mutating func release(_ gone: Set<OutboxOwner>) -> [StoreChange] {
        let numbers = owners.filter { gone.contains($0.value) }.keys.sorted()
        for number in numbers { owners[number] = nil }
        return numbers.map { OutboxOwner.remove($0) }
    }

    /// The client has ended.
    mutating func end() {
        let all = observers.sorted { $0.key < $1.key }.flatMap(\.value)
        observers = [:]
        for observer in all { observer(.failed(.ended)) }
    }
}

extension ClientRecords {
    /// Observes messages of the outbox that an earlier run has left. One that is over meanwhile is taken for
    /// acknowledged.
    func observe(_ observers: [(number: UInt64, observer: OutboxOwners.Observer)]) {
        for (number, observer) in observers {
            guard failure == nil else {
                observer(.failed(.ended))
                continue
            }
            guard owners.observe(number, observer) else {
                observer(.acknowledged)
                continue
            }
            if outbox.isInFlight(number) { observer(.sent) }
        }
    }
}
