internal import ClientStore
internal import Platform

/// A message of the outbox on its way: it is stored, and arrives also when this process ends.
public struct Delivery: Sendable, Identifiable {
    /// What receivers know the message by as well, from its User Property `message-id`; the same in every run.
    public let id: String
    /// The topic that it is published to.
    public let topic: TopicName
    let tracking: DeliveryTracking

    init(id: String, topic: TopicName, tracking: DeliveryTracking) { (self.id, self.topic, self.tracking) = (id, topic, tracking) }

    /// How far it has come.
    public var status: DeliveryStatus { tracking.latest.value }

    /// How far it has come, and each newer status, to the last; those that come too quickly are left out. When the
    /// client ends they end as well: the message is in its store, and the next to open the outbox may follow it.
    public var statuses: some AsyncSequence<DeliveryStatus, Never> & Sendable { Statuses(tracking) }

    /// Waits for the last status. Throws why it does not arrive; `ClientError.expired` if it was too old,
    /// `ClientError.ended` if the client ends before that.
    public func arrival() async throws(ClientError) {
        for await status in statuses {
            switch status {
            case .acknowledged: return
            case .failed(let error): throw error
            case .expired: throw .expired
            case .queued, .sent, .received: continue
            }
        }
        throw Task.isCancelled ? .cancelled : .ended
    }

    struct Statuses: AsyncSequence, Sendable {
        typealias Element = DeliveryStatus
        typealias Failure = Never

        private let tracking: DeliveryTracking

        init(_ tracking: DeliveryTracking) { self.tracking = tracking }

        func makeAsyncIterator() -> Iterator { Iterator(tracking) }

        struct Iterator: AsyncIteratorProtocol {
            private var values: LatestValues<DeliveryStatus>.Iterator
            /// As long as somebody waits, the status is followed.
            private let tracking: DeliveryTracking

            init(_ tracking: DeliveryTracking) {
                self.tracking = tracking
                values = tracking.latest.values.makeAsyncIterator()
            }

            mutating func next() async -> DeliveryStatus? { await values.next() }

            mutating func next(isolation: isolated (any Actor)?) async -> DeliveryStatus? {
                await values.next(isolation: isolation)
            }
        }
    }
}

/// The status of one message, for as long as somebody wants to know it.
final class DeliveryTracking: Sendable {
    let number: UInt64
    let byteCount: Int
    let latest: LatestValue<DeliveryStatus>
    private let board: DeliveryBoard?

    /// Of a message that is over.
    init(over status: DeliveryStatus) {
        (number, byteCount, board) = (0, 0, nil)
        latest = LatestValue(status)
        latest.finish()
    }

    init(_ number: UInt64, byteCount: Int, _ status: DeliveryStatus, _ board: DeliveryBoard) {
        (self.number, self.byteCount, self.board) = (number, byteCount, board)
        latest = LatestValue(status)
        if status.isFinal { latest.finish() }
    }

    deinit { board?.forget(number) }

    /// Goes forward.
    func set(_ status: DeliveryStatus) {
        let value = latest.value
        guard status.rank > value.rank || (status.rank == 0 && value.rank == 0 && status != value) else { return }
        latest.set(status)
        if status.isFinal { latest.finish() }
    }
}

/// The statuses of the messages that somebody follows. Messages that nobody follows are not in it, so that very many
/// may wait.
final class DeliveryBoard: Sendable {
    private struct Entry {
        weak var tracking: DeliveryTracking?
    }

    private struct State {
        var entries: [UInt64: Entry] = [:]
        /// Whether no status changes any more.
        var isOver = false
    }

    private let state = Locked(State())

    /// The tracking of a message: the one that there is, or a new one.
    func tracking(_ number: UInt64, byteCount: Int, _ status: @autoclosure () -> DeliveryStatus) -> DeliveryTracking {
        state.withLock { state in
            if let known = state.entries[number]?.tracking { return known }
            let new = DeliveryTracking(number, byteCount: byteCount, status(), self)
            state.entries[number] = Entry(tracking: new)
            if state.isOver { new.latest.finish() }
            return new
        }
    }

    func set(_ number: UInt64, _ status: DeliveryStatus) {
        // Its end, if it comes now, takes the lock.
        let tracking = state.withLock { $0.entries.isEmpty ? nil : $0.entries[number]?.tracking }
        tracking?.set(status)
    }

    /// The client has ended: nobody waits for a newer status.
    func end() {
        let trackings = state.withLock { state in
            state.isOver = true
            return state.entries.sorted { $0.key < $1.key }.compactMap(\.value.tracking)
        }
        for tracking in trackings { tracking.latest.finish() }
    }

    /// Numbers of messages that somebody follows, in their order; none if these are more than `most`.
    func numbers(most: Int) -> [UInt64] {
        state.withLock { $0.entries.count > most ? [] : $0.entries.keys.sorted() }
    }

    func forget(_ number: UInt64) {
        state.withLock { state in
            // Another one may have begun meanwhile.
            if state.entries[number]?.tracking == nil { state.entries[number] = nil }
        }
    }
}

/// How far a message of the outbox has come. It only goes forward.
public enum DeliveryStatus: Hashable, Sendable {
    /// It waits behind about so many others.
    case queued(ahead: Int)
    /// It is on its way to the server.
    case sent
    /// The server has a message of QoS 2 (PUBREC), and lets it pass once.
    case received
    /// The server has taken it over; at QoS 0: it was handed to the connection.
    case acknowledged
    /// It does not arrive: why.
    case failed(ClientError)
    /// It was too old before it could be sent.
    case expired

    /// Whether nothing follows.
    public var isFinal: Bool { rank == 3 }

    var rank: Int {
        switch self {
        case .queued: 0
        case .sent: 1
        case .received: 2
        case .acknowledged, .failed, .expired: 3
        }
    }
}

/// The messages that a client has stored and the server has not acknowledged.
public struct Outbox: Sendable {
    private let engine: ClientEngine

    init(_ engine: ClientEngine) { self.engine = engine }

    /// The deliveries that are not over, in order: after a restart, those of earlier runs.
    ///
    /// - Parameter limit: how many at most; each takes memory until it is let go.
    public func open(limit: Int = .max) async throws(ClientError) -> [Delivery] {
        let reading = DeliveryReading(limit: limit)
        engine.ask(reading.call, withoutStore: .success([])) { $0.openDeliveries(reading, $1) }
        return try await reading.call.outcome(cancelled: {}).get()
    }

    /// How many messages wait or are on their way, and their bytes in the store.
    public func measure() async throws(ClientError) -> (messages: Int, bytes: Int) {
        let call = AwaitedOutcome<(messages: Int, bytes: Int)>()
        engine.ask(call, withoutStore: .success((0, 0))) { records, _ in
            call.complete(.success((records.outbox.count, records.outbox.byteCount)))
        }
        return try await call.outcome(cancelled: {}).get()
    }

    /// Takes a message back if it was not sent. Returns whether it was; its last status is then `.failed(.cancelled)`.
    @discardableResult
    public func withdraw(_ delivery: Delivery) async throws(ClientError) -> Bool {
        let call = AwaitedOutcome<Bool>()
        engine.ask(call, withoutStore: .success(false)) { $0.withdraw(delivery.tracking, call, $1) }
        return try await call.outcome(cancelled: {}).get()
    }

    /// The messages that the server has refused, the oldest first, in this run and in earlier ones: they stay until
    /// ``forgetRefused(_:)``. The latest 1000, of 4 MiB together, are kept.
    ///
    /// Nothing sends them again: publish or enqueue anew what makes sense after its cause is away. Throws
    /// `ClientError.store`.
    public func refused() async throws(ClientError) -> [RefusedMessage] {
        let call = AwaitedOutcome<[RefusedMessage]>()
        engine.ask(call, withoutStore: .success([])) { records, _ in records.readRefused(call) }
        return try await call.outcome(cancelled: {}).get()
    }

    /// Forgets messages that were refused, and returns when that is on the disk. Throws `ClientError.store`.
    public func forgetRefused(_ messages: [RefusedMessage]) async throws(ClientError) {
        let call = AwaitedOutcome<Void>()
        engine.ask(call, withoutStore: .success(())) { records, _ in records.forgetRefused(messages.map(\.number), call) }
        try await call.outcome(cancelled: {}).get()
    }
}

extension Outbox {
    /// A message of the outbox that the server has refused: it was taken out, and does not arrive.
    public struct RefusedMessage: Hashable, Sendable, Identifiable {
        /// As its `Delivery` had it.
        public let id: String
        /// The message, as it was to be sent.
        public let publication: Publication
        /// Why, as `Delivery.status` says it: `ClientError.refused` with the server's words.
        public let error: ClientError
        /// The time since 1970-01-01 00:00 UTC at which the server refused it.
        public let time: Duration
        let number: UInt64

        init(_ row: RefusedRow) {
            id = row.publication.properties.messageIdentifier ?? "\(row.number)"
            (publication, number) = (row.publication, row.number)
            error = ClientError(refused: row.reason, row.texts)
            time = .milliseconds(Int64(clamping: row.refusedAt))
        }
    }
}

extension Client {
    /// The messages that `enqueue` has stored.
    public var outbox: Outbox { Outbox(engine) }

    /// Stores a message and returns when it is on the disk. It is sent when it is its turn, in this run or a later one,
    /// in the order of these calls; receivers know repeats by its User Property `message-id`. A Message Expiry Interval
    /// counts from now.
    ///
    /// Throws `ClientError.store` when it cannot be stored, for want of room for example, and `ClientError.queueFull`
    /// by the outbox's limits. Cancelling the task while it waits for room takes the message back.
    public func enqueue(_ publication: Publication) async throws(ClientError) -> Delivery {
        var publication = publication
        for interceptor in settings.interceptors { try interceptor.willPublish(&publication) }
        let call = EnqueueCall(publication)
        engine.ask(call.call, withoutStore: .failure(.settings("enqueue needs a store: set settings.store"))) {
            $0.enqueue(call, $1)
        }
        return try await call.call.outcome(cancelled: { [engine] in engine.post(.records { $0.records?.blockedCancelled() }) })
            .get()
    }

    /// As above. At QoS 0 a message that is lost on its way is not sent again.
    public func enqueue(
        _ payload: Payload, to topic: TopicName, qos: QoS = .atLeastOnce, retain: Bool = false
    ) async throws(ClientError) -> Delivery {
        try await enqueue(Publication(topic, payload, qos: qos, retain: retain))
    }

    /// As above, for a value of an endpoint. An endpoint of QoS 0 is taken for one of QoS 1: what is stored is to
    /// arrive.
    public func enqueue<Value>(_ value: Value, to topic: EndpointTopic<Value>) async throws(ClientError) -> Delivery {
        var publication = try topic.publication(value)
        publication.qos = max(publication.qos, .atLeastOnce)
        return try await enqueue(publication)
    }
}

/// A message that is to be stored, and the task that waits for it.
final class EnqueueCall: Sendable {
    let publication: Publication
    let destination: Destination
    /// A message of an inbox in its place.
    let item = Locked<InboxMessage?>(nil)
    let call = AwaitedOutcome<Delivery>()

    /// What a message belongs to beside the outbox.
    enum Destination {
        case none
        /// The collection of a filter; and who hears how far it has come, from when it is stored, on the loop's thread.
        case collection(String, OutboxOwners.Observer)
        /// An inbox, and a conversation there.
        case inbox(String, conversation: String)
    }

    init(_ publication: Publication, for destination: Destination = .none) {
        (self.publication, self.destination) = (publication, destination)
    }
}

extension EnqueueCall {
    /// The observer that hears how far the message has come.
    var observer: OutboxOwners.Observer? { if case .collection(_, let observer) = destination { observer } else { nil } }
}

/// What became of a message that was published.
public struct PublishReceipt: Hashable, Sendable {
    /// What the server says: `success`, or `noMatchingSubscribers`; `success` at QoS 0, which has no answer, and before
    /// MQTT 5.0.
    public var reason: ReasonCode

    /// A receipt, for a double that publishes.
    public init(reason: ReasonCode = .success) { self.reason = reason }
}
