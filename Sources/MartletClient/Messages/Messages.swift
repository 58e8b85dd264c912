/// The messages of a subscription, in the order in which they came: an asynchronous sequence.
///
/// The subscription begins when the value is made and ends when it and its iterators are gone, or when a task that waits for a message
/// is cancelled. It outlives connections. One consumer at a time: two of them share the messages.
///
/// A message whose Message Expiry Interval is over before the consumer asks for it is left out, acknowledged and counted; it was not meant to be
/// read that late. Inboxes keep theirs.
public struct Messages: AsyncSequence, Sendable {
    /// What comes, one at a time.
    public typealias Element = Message
    /// What waiting may throw.
    public typealias Failure = ClientError

    private let lease: Lease

    package init(_ pipe: MessagePipe) { lease = Lease(pipe) }

    /// Ends the subscription with the last who has it.
    final class Lease: Sendable {
        let pipe: MessagePipe

        init(_ pipe: MessagePipe) { self.pipe = pipe }

        deinit { pipe.close() }
    }

    /// Waits until the server has granted the subscription, and returns what SUBACK says of each filter: the QoS that it grants. Throws
    /// `ClientError.refused` with its reason, and `ClientError.cancelled` when the task is cancelled; the subscription goes on then. Empty when
    /// the client ended first, and of doubles.
    @discardableResult
    public func granted() async throws(ClientError) -> [ReasonCode] { try await lease.pipe.waitForGrant() }

    /// All that waits, at least one message; nil when the subscription has ended or the task was cancelled. For subscriptions that acknowledge
    /// `.atOnce`: nothing of it is settled.
    func nextBatch() async throws(ClientError) -> [ReceivedMessage]? {
        while !Task.isCancelled {
            let batch = lease.pipe.take()
            if !batch.isEmpty { return batch.compactMap(\.self) }
            switch lease.pipe.end {
            case .finished: return nil
            case .failed(let error): throw error
            case nil: await lease.pipe.waitForMessage()
            }
        }
        lease.pipe.close()
        return nil
    }

    /// Gives them to the receiver as they come, on the thread of the client. For subscriptions that acknowledge `.atOnce`.
    func deliver(to receiver: any MessageReceiver) { lease.pipe.deliver(to: receiver) }

    /// How many messages the backlog's policy has dropped: of `.hold` those of QoS 0 that came beyond it.
    public var droppedCount: Int { lease.pipe.droppedCount }

    /// How many messages got too old by their Message Expiry Interval while they waited here: they were acknowledged and left out.
    public var expiredCount: Int { lease.pipe.expiredCount }

    /// How many wait to be taken.
    public var waitingCount: Int { lease.pipe.waitingCount }

    /// The same with their bytes, for tests that look whether bounds are kept.
    var waitingSize: ClientSize.Part { ClientSize.Part(messages: lease.pipe.waitingCount, bytes: lease.pipe.waitingByteCount) }

    /// Whether a consumer waits, and so has done with all that came before.
    var isConsumerWaiting: Bool { lease.pipe.isConsumerWaiting }

    /// Lets the consumer come to an end, and still settle what it has; `cancel` is to follow.
    func finish() { lease.pipe.finish() }

    /// Ends the subscription; what waits is gone.
    public func cancel() { lease.pipe.close() }

    /// For `for await`: an iterator of its own for each who asks.
    public func makeAsyncIterator() -> Iterator { Iterator(lease) }

    /// Takes what comes, for one task at a time.
    public struct Iterator: AsyncIteratorProtocol {
        private let cursor: Cursor

        init(_ lease: Lease) { cursor = Cursor(lease) }

        /// The next message; nil when the subscription has ended or the task was cancelled.
        public mutating func next() async throws(ClientError) -> Message? { try await next(isolation: #isolation) }

        /// As above, in the isolation of its caller.
        public mutating func next(isolation: isolated (any Actor)?) async throws(ClientError) -> Message? {
            while true {
                if let message = cursor.popNext() { return message }
                while !Task.isCancelled, cursor.refill() == false {
                    switch cursor.pipe.end {
                    case .finished: return nil
                    case .failed(let error): throw error
                    case nil: await cursor.pipe.waitForMessage()
                    }
                }
                if Task.isCancelled {
                    cursor.pipe.close()
                    return nil
                }
            }
        }
    }

    /// The batch in the hands of an iterator. What was not used goes back.
    private final class Cursor {
        private let lease: Lease
        /// From `index` on not nil.
        private var batch: [ReceivedMessage?] = []
        private var index = 0
        private var last: ReceivedMessage?

        init(_ lease: Lease) { self.lease = lease }

        deinit {
            settleLast()
            pipe.giveBack(batch[index...])
        }

        var pipe: MessagePipe { lease.pipe }

        func popNext() -> Message? {
            settleLast()
            while index < batch.count, let next = batch[index], pipe.expires(next) { index += 1 }
            guard index < batch.count, let received = batch[index].take() else { return nil }
            index += 1
            if received.token != nil, pipe.settings.acknowledging == .whenTaken { last = received }
            return Message(received, pipe)
        }

        /// Returns whether there is something again.
        func refill() -> Bool {
            batch = pipe.take()
            index = 0
            return !batch.isEmpty
        }

        private func settleLast() {
            guard let taken = last.take() else { return }
            pipe.settle(taken, .success)
        }
    }
}
