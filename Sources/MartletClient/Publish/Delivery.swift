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

    /// How far it has come, and each newer status, to the last; those that come too quickly are left out. When the client ends they end as well:
    /// the message is in its store, and the next to open the outbox may follow it.
    public var statuses: some AsyncSequence<DeliveryStatus, Never> & Sendable { Statuses(tracking) }

    /// Waits for the last status. Throws why it does not arrive; `ClientError.expired` if it was too old, `ClientError.ended` if the client ends
    /// before that.
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

/// Whose statuses somebody wants to know. Messages that nobody follows are not in it, so that very many may wait.
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
