internal import ClientCore

/// The messages of a subscription, in the order in which they came: an asynchronous sequence.
///
/// The subscription begins when the value is made and ends when it and its iterators are gone, or when a task that
/// waits for a message is cancelled. It outlives connections. One consumer at a time: two of them share the messages.
///
/// A message whose Message Expiry Interval is over before the consumer asks for it is left out, acknowledged and
/// counted; it was not meant to be read that late. Inboxes keep theirs.
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

    /// Waits until the server has granted the subscription, and returns what SUBACK says of each filter: the QoS that
    /// it grants. Throws `ClientError.refused` with its reason, and `ClientError.cancelled` when the task is cancelled;
    /// the subscription goes on then. Empty when the client ended first, and of doubles.
    @discardableResult
    public func granted() async throws(ClientError) -> [ReasonCode] { try await lease.pipe.waitForGrant() }

    /// All that waits, at least one message; nil when the subscription has ended or the task was cancelled. For
    /// subscriptions that acknowledge `.atOnce`: nothing of it is settled.
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

    /// Gives them to the receiver as they come, on the thread of the client. For subscriptions that acknowledge
    /// `.atOnce`.
    func deliver(to receiver: any MessageReceiver) { lease.pipe.deliver(to: receiver) }

    /// How many messages the backlog's policy has dropped: of `.hold` those of QoS 0 that came beyond it.
    public var droppedCount: Int { lease.pipe.droppedCount }

    /// How many messages got too old by their Message Expiry Interval while they waited here: they were acknowledged
    /// and left out.
    public var expiredCount: Int { lease.pipe.expiredCount }

    /// How many wait to be taken.
    public var waitingCount: Int { lease.pipe.waitingCount }

    /// How many messages wait, with their bytes: for tests that look whether bounds are kept.
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

/// A message that came for a subscription.
public struct Message: Sendable {
    /// What the server sent.
    public let received: ReceivedMessage
    private let pipe: MessagePipe

    init(_ received: ReceivedMessage, _ pipe: MessagePipe) { (self.received, self.pipe) = (received, pipe) }

    /// The topic that it was published to.
    public var topic: TopicName { received.topic }
    /// Its bytes.
    public var payload: Payload { received.payload }
    /// The QoS at which it came: the lower of the publisher's and the subscription's.
    public var qos: QoS { received.qos }
    /// Whether the server kept it before this client subscribed; of subscriptions with Retain As Published, whether it
    /// was published so.
    public var retain: Bool { received.retain }
    /// Whether the server may have sent it before.
    public var duplicate: Bool { received.duplicate }
    /// Its properties; none before MQTT 5.0.
    public var properties: Properties { received.properties }

    /// Lets the server forget the message: PUBACK or PUBREC, in its turn. For subscriptions that acknowledge
    /// `.whenDone`; a second call does nothing, nor does one for a message of QoS 0.
    public func done() { pipe.settle(received, .success) }

    /// Tells the server that the message was not processed, and why; it sends it no more. Before MQTT 5.0 the same as
    /// `done()`.
    public func refuse(_ reason: ReasonCode) { pipe.settle(received, reason) }
}

extension Message: CustomStringConvertible {
    /// Topic and payload, as `martlet sub -v` has them.
    public var description: String { "\(topic) \(payload)" }
}

/// Where the messages of a pipe come from. Any thread may call.
package protocol MessageSource: AnyObject, Sendable {
    /// The consumer took a message of QoS 1 or 2, or refuses it.
    func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode, from pipe: MessagePipe)
    /// A pipe whose backlog was full has room again.
    func resume(_ pipe: MessagePipe)
    /// The clock by which messages get too old, in milliseconds.
    var uptimeMilliseconds: UInt64 { get }
    /// Nobody takes from the pipe any more; these tokens are not acknowledged.
    func close(_ pipe: MessagePipe, unacknowledged: [AcknowledgementToken])
}

extension MessageSource {
    // Doubles have no time: what they send does not get old.
    package var uptimeMilliseconds: UInt64 { 0 }
}
