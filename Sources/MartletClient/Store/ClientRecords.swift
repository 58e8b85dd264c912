internal import ClientCore
internal import ClientStore
internal import Platform

/// What a client keeps in its store, seen from its loop, whose thread it belongs to: changes are gathered during a turn and handed over at its
/// end; the store's answers come as commands.
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
    var blocked = Queue<EnqueueCall>()
    /// Messages of this turn for the outbox.
    var additions: [Addition] = []
    /// Those whose messages come from the store.
    var spills: [UInt32: SpillSink] = [:]
    var inboxes: [String: InboxSink] = [:]
    /// By their numbers and names, so that a simulation is the same in every process.
    var spillsInOrder: [SpillSink] {
        spills.count < 2 ? Array(spills.values) : spills.sorted { $0.key < $1.key }.map(\.value)
    }
    var inboxesInOrder: [InboxSink] { inboxes.sorted { $0.key < $1.key }.map(\.value) }
    /// Why nothing is stored any more; nil if all is well.
    var failure: ClientError?
    /// How many messages the outbox had when those who wait were told their places.
    var toldCount = 0
    var session: SessionRecords
    /// Answers to requests that an earlier run has kept.
    let restoredAnswers: [AnswerRow]
    /// What an earlier run has left of the session.
    let restored: StoredClientSession
    /// The name that the server knew the client by; nil in a new store.
    let storedIdentifier: String?

    /// Of those that wait for room, how many were cancelled and lie there still, at most.
    private var cancelledCount = 0
    private var batch = StoreBatch()
    private var lastIdentifier: String?
    private var holdsOutput = false
    private var sequels: [Sequel] = []
    private var endings: [(ClientRecords) -> Void] = []
    private var lastCommit: UInt64 = 0
    /// What follows commits that are under way.
    private var waiting: [UInt64: (sequels: [Sequel], changeCount: Int, byteCount: Int)] = [:]
    /// Changes that are handed over and not durable, and their bytes.
    private var (unstoredCount, unstoredByteCount) = (0, 0)

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
    init(_ settings: ClientSettings, _ place: StorePlace, now: UInt64, random: () -> UInt64) throws(ClientError) {
        whenFull = settings.outbox.whenFull
        board = DeliveryBoard()
        do throws(StoreError) {
            storage = try place.open()
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
            batch.changes = identity.changes + session.removals
        } catch {
            throw ClientError(error)
        }
    }

    /// A call that waits for room was cancelled, or perhaps one that does not any more. Those are forgotten when they are half of all, so that each
    /// is moved once.
    func blockedCancelled() {
        cancelledCount += 1
        guard cancelledCount * 2 > blocked.count else { return }
        cancelledCount = 0
        for call in blocked.removeAll() where !call.call.isOver { blocked.append(call) }
    }

    /// A message of the outbox has come so far: whoever follows it hears of it, and what it belongs to.
    func tell(_ number: UInt64, _ status: DeliveryStatus) {
        board.set(number, status)
        if status.isFinal, case .inbox(let name, let conversation, let place)? = owners[number] {
            add([OwnMessageRow(status.stored).put(name, conversation, place)])
            if let sink = inboxes[name] { add(sink.book.settled(number, isTaken: status == .acknowledged)) }
        }
        add(owners.tell(number, status))
    }

    /// To be made durable with this turn.
    ///
    /// - Parameter holdsOutput: whether what this turn has written must not leave before.
    func add(_ changes: [StoreChange], holdsOutput: Bool = false) {
        batch.changes += changes
        if holdsOutput { self.holdsOutput = true }
    }

    /// The name under which the server knows the client from now on.
    func setClientIdentifier(_ identifier: String) {
        guard identifier != lastIdentifier else { return }
        lastIdentifier = identifier
        batch.changes.append(.put(.identity, StoreKey("client"), Array(identifier.utf8)))
    }

    /// Takes the session's changes over. Returns whether the server has forgotten it.
    func collect(_ changes: [SessionChange]) -> Bool {
        guard !changes.isEmpty else { return false }
        let rows = session.rows(for: changes) { flights[PublishTicket(number: $0)]?.number }
        add(rows.changes, holdsOutput: rows.holdsOutput)
        return rows.hasStartedOver
    }

    /// To be done before this turn's changes are handed over.
    func beforeCommit(_ work: @escaping (ClientRecords) -> Void) { endings.append(work) }

    /// To be done when this turn's changes are durable.
    func afterCommit(_ sequel: @escaping Sequel) { sequels.append(sequel) }

    /// Hands this turn's changes over.
    func commit(for engine: ClientEngine) {
        for ending in endings { ending(self) }
        endings.removeAll(keepingCapacity: true)
        guard !batch.isEmpty || !sequels.isEmpty, failure == nil else { return }
        lastCommit += 1
        let number = lastCommit
        if holdsOutput { gate.hold(for: number) }
        let byteCount = batch.changes.reduce(0) { $0 + $1.byteCount }
        waiting[number] = (sequels, batch.changes.count, byteCount)
        unstoredCount += batch.changes.count
        unstoredByteCount += byteCount
        // Without it a message of QoS 1 is sent once more after a crash, and nothing worse.
        batch.isLazy = !holdsOutput && sequels.isEmpty
        storage.commit(batch) { [weak engine] error in engine?.post(.records { $0.committed(number, error) }) }
        (batch, holdsOutput, sequels) = (StoreBatch(), false, [])
    }

    /// The store has answered. What follows from the commit, in the order in which it was said.
    func committed(_ number: UInt64) -> [Sequel] {
        gate.committed(through: number)
        guard let commit = waiting.removeValue(forKey: number) else { return [] }
        unstoredCount -= commit.changeCount
        unstoredByteCount -= commit.byteCount
        return commit.sequels
    }

    /// Whether the disk is so far behind the network that nothing more is to be read from it.
    var isBehind: Bool { unstoredCount >= Limits.storeChangesMax || unstoredByteCount >= Limits.storeBytesMax }

    /// Changes that are handed over and not durable.
    var unstored: ClientSize.Part { ClientSize.Part(messages: unstoredCount, bytes: unstoredByteCount) }

    /// Nothing is durable any more: all that waits for it, in order.
    func giveUp() -> [Sequel] {
        defer { (waiting, sequels, unstoredCount, unstoredByteCount) = ([:], [], 0, 0) }
        return waiting.sorted { $0.key < $1.key }.flatMap(\.value.sequels) + sequels
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
