package import ClientCore
internal import Platform

/// Where the messages of one subscription wait for their consumer: in at the source's side, batches out at the
/// consumer's.
///
/// ```
///   gather ─► gathered ──flush──► queue ──take──► cursor's batch ──next──► consumer ──settle──► source
///             (source's thread)   (lock)
/// ```
/// Invariant: a token that went in is settled once, or told as unacknowledged when the pipe closes; not more than the
/// backlog waits, but with `.hold` for messages of QoS 1 and 2, of which the server sends only so many before they are
/// acknowledged.
package final class MessagePipe: Sendable {
    package let filters: [TopicFilter]
    package let settings: SubscriptionSettings
    package let backlog: SubscriptionSettings.Backlog
    private let state: Locked<State>
    /// The sink that gets messages before the pipe; nil for none. The source's thread alone touches it.
    nonisolated(unsafe) var sink: (any MessageSink)?
    /// Messages of this turn. The source's thread alone touches it.
    nonisolated(unsafe) private var gathered: [ReceivedMessage?] = []
    /// Whether so many waited after the last `flush` that a source which nothing else is for may let its server wait,
    /// until `resume`. The source's thread alone touches it.
    nonisolated(unsafe) private(set) var isBehind = false
    /// How many messages the last `flush` has dropped. The source's thread alone touches it.
    nonisolated(unsafe) private(set) var droppedAtFlush = 0
    /// Whether the source has more that it did not gather, as the pipe had no room. The source's thread alone touches
    /// it.
    nonisolated(unsafe) var hasMoreBehind = false

    enum End {
        /// The client ended, or the consumer left.
        case finished
        case failed(ClientError)
    }

    private struct State {
        var source: (any MessageSource)?
        var queue = MessageQueue()
        /// Of QoS 1 and 2, and not settled: waiting, or in the consumer's hands.
        var unsettled: Set<AcknowledgementToken> = []
        var consumer: Waiter?
        /// Gets messages as they come, instead of a consumer.
        weak var receiver: (any MessageReceiver)?
        var granting: [AwaitedOutcome<Void>] = []
        /// What SUBACK says of each filter, in their order; nil before it comes.
        var granted: [ReasonCode]?
        var end: End?
        /// Whether the consumer takes no more.
        var isFinishing = false
        /// Whether the source is to be told when something was taken.
        var tellsOfRoom = false
        var droppedCount = 0
        var expiredCount = 0
        /// How many messages at the front of the queue came in a session that the server has forgotten since: nothing
        /// bounds those of QoS 1 and 2 any more, as they will not be acknowledged.
        var forgottenCount = 0

        /// Takes out the tasks that wait for a message or for the grant.
        mutating func takeWaiters() -> Waiters {
            defer { (consumer, granting) = (nil, []) }
            return Waiters(consumer: consumer, granting: granting)
        }
    }

    private struct Waiters {
        var consumer: Waiter?
        var granting: [AwaitedOutcome<Void>] = []

        /// Outside the lock.
        func resume() {
            for call in granting { call.complete(.success(())) }
            consumer?.resume()
        }
    }

    private typealias Waiter = UnsafeContinuation<Void, Never>

    package init(
        filters: [TopicFilter], settings: SubscriptionSettings, backlog: SubscriptionSettings.Backlog, source: any MessageSource
    ) {
        (self.filters, self.settings, self.backlog) = (filters, settings, backlog)
        state = Locked(State(source: source))
    }

    /// How many messages the policy has dropped.
    var droppedCount: Int { state.withLock(\.droppedCount) }

    /// How many messages got too old while they waited.
    var expiredCount: Int { state.withLock(\.expiredCount) }

    /// Whether a consumer waits, and so has done with all that came before.
    var isConsumerWaiting: Bool { state.withLock { $0.consumer != nil } }

    /// How many wait.
    package var waitingCount: Int { state.withLock { $0.queue.count } }

    /// Their bytes.
    var waitingByteCount: Int { state.withLock { $0.queue.byteCount } }

    /// How many wait and how many bytes they have, with those that are gathered. The source's thread alone asks.
    var backlogSize: (messages: Int, bytes: Int) {
        let waiting = state.withLock { (messages: $0.queue.count, bytes: $0.queue.byteCount) }
        return (waiting.messages + gathered.count, gathered.reduce(waiting.bytes) { $0 + ($1?.byteCount ?? 0) })
    }
}

// MARK: - The source's side

extension MessagePipe {
    /// Takes a message; `flush` is to follow before the source rests.
    package func gather(_ message: ReceivedMessage) { gathered.append(message) }

    /// Whether `flush` has something to do.
    package var hasGathered: Bool { !gathered.isEmpty }

    /// Hands over what was gathered. Returns whether the backlog is full, of which `resume` tells the end, and what the
    /// source has to acknowledge now.
    package func flush() -> (isFull: Bool, settled: [AcknowledgementToken]) {
        (droppedAtFlush, isBehind) = (0, false)
        if gathered.isEmpty { return (false, []) }
        var settled: [AcknowledgementToken] = []
        let (consumer, receiver, isFull) = state.withLock { state -> (Waiter?, (any MessageReceiver)?, Bool) in
            if let receiver = state.receiver, state.end == nil {
                settled = gathered.compactMap { $0?.token }
                return (nil, receiver, false)
            }
            let droppedBefore = state.droppedCount
            add(&state, &settled)
            droppedAtFlush = state.droppedCount - droppedBefore
            switch backlog {
            case .hold(let most, let bytes) where state.end == nil:
                let isFull = state.queue.count >= most || state.queue.byteCount >= bytes || droppedAtFlush > 0
                isBehind =
                    isFull || state.queue.count >= Limits.readAheadMessagesMax
                    || state.queue.byteCount >= Limits.readAheadBytesMax
                state.tellsOfRoom = isBehind
                return (state.consumer.take(), nil, isFull)
            // The source is told when there is room. Also when there is some: what was taken since the source looked
            // made it.
            case .spill:
                state.tellsOfRoom =
                    hasMoreBehind || state.queue.count >= Limits.spillWindowMax
                    || state.queue.byteCount >= Limits.spillWindowBytesMax
            case .hold, .dropOldest, .latestPerTopic: break
            }
            return (state.consumer.take(), nil, false)
        }
        if let receiver {
            for index in gathered.indices {
                if let message = gathered[index].take() { receiver.received(message) }
            }
        }
        gathered.removeAll(keepingCapacity: true)
        consumer?.resume()
        return (isFull, settled)
    }

    /// Puts what was gathered in the queue.
    private func add(_ state: inout State, _ settled: inout [AcknowledgementToken]) {
        var byteCount = 0
        for index in gathered.indices { byteCount += gathered[index]?.byteCount ?? 0 }
        if case .hold(let most, let bytes) = backlog, state.end == nil,
            state.queue.count + gathered.count > most || state.queue.byteCount + byteCount > bytes
        {
            return addBeyond(&state, &settled, most, bytes)
        }
        for index in gathered.indices {
            guard let token = gathered[index]?.token else { continue }
            if state.end != nil || settings.acknowledging == .atOnce {
                settled.append(token)
            } else {
                state.unsettled.insert(token)
            }
        }
        guard state.end == nil else { return }
        switch backlog {
        case .hold, .spill: state.queue.append(contentsOf: &gathered, byteCount: byteCount)
        case .dropOldest(let most, let bytes): add(&state, &settled, most, bytes, replacesSameTopic: false)
        case .latestPerTopic(let most, let bytes): add(&state, &settled, most, bytes, replacesSameTopic: true)
        }
    }

    /// Adds the gathered messages where not all of them have room and the backlog holds. Messages that are otherwise
    /// acknowledged at once are acknowledged when they are taken, or the server would send without end.
    private func addBeyond(_ state: inout State, _ settled: inout [AcknowledgementToken], _ most: Int, _ bytes: Int) {
        for case let message? in gathered {
            let hasRoom =
                state.queue.isEmpty
                || (state.queue.count < most && state.queue.byteCount + message.byteCount <= bytes)
            guard let token = message.token else {
                if hasRoom { state.queue.append(message, replacesSameTopic: false) } else { state.droppedCount += 1 }
                continue
            }
            if !hasRoom, state.forgottenCount > 0, let old = state.queue.popFirst() {
                state.forgottenCount -= 1
                state.droppedCount += 1
                // For the server its turn is over; other subscriptions may share it.
                if let token = old.token, state.unsettled.remove(token) != nil { settled.append(token) }
            }
            state.queue.append(message, replacesSameTopic: false)
            if hasRoom, settings.acknowledging == .atOnce { settled.append(token) } else { state.unsettled.insert(token) }
        }
    }

    private func add(
        _ state: inout State, _ settled: inout [AcknowledgementToken], _ most: Int, _ bytes: Int, replacesSameTopic: Bool
    ) {
        for case let message? in gathered {
            state.queue.append(message, replacesSameTopic: replacesSameTopic)
            while let dropped = state.queue.dropOldest(beyond: max(1, most), bytes: bytes) {
                state.droppedCount += 1
                if let token = dropped.token, state.unsettled.remove(token) != nil { settled.append(token) }
            }
        }
    }

    /// The server has forgotten the session: what waits is acknowledged no more, and those of QoS 1 and 2 that come
    /// make room for themselves.
    func sessionLost() { state.withLock { $0.forgottenCount = $0.queue.count } }

    /// The server has granted the subscription: what it says of each filter, in the order of `filters`.
    package func grant(_ reasons: [ReasonCode] = []) {
        let granting = state.withLock { state in
            state.granted = reasons
            defer { state.granting = [] }
            return state.granting
        }
        for call in granting { call.complete(.success(())) }
    }

    /// No more messages come: the consumer gets what waits, and then the end. The source is kept, for what waits is
    /// still to be settled.
    package func end(_ error: ClientError?) {
        let (waiters, receiver) = state.withLock { state -> (Waiters, (any MessageReceiver)?) in
            guard state.end == nil else { return (Waiters(), nil) }
            state.end = error.map(End.failed) ?? .finished
            return (state.takeWaiters(), state.receiver)
        }
        waiters.resume()
        receiver?.ended(error ?? .ended)
    }
}

// MARK: - The consumer's side

extension MessagePipe {
    /// What waits and is not too old, as much as a consumer takes at a time; empty if nothing does. All of it are
    /// messages, to be taken out one by one.
    func take() -> [ReceivedMessage?] {
        while true {
            var settled: [AcknowledgementToken] = []
            let (batch, source, settler) = state.withLock { state in
                let batch: [ReceivedMessage?]
                switch backlog {
                case .hold, .spill: batch = state.queue.removeAll()
                // What is dropped or replaced must not be in somebody's hands.
                case .dropOldest, .latestPerTopic: batch = state.queue.popFirst().map { [$0] } ?? []
                }
                let tellsOfRoom = state.tellsOfRoom
                (state.tellsOfRoom, state.forgottenCount) = (false, 0)
                settled = settleTaken(batch, &state)
                return (batch, tellsOfRoom ? state.source : nil, settled.isEmpty ? nil : state.source)
            }
            for token in settled { settler?.acknowledge(token, .success, from: self) }
            source?.resume(self)
            guard batch.contains(where: { $0.map { $0.expiresAt != .max } ?? false }) else { return batch }
            let fresh = batch.filter { $0.map { !expires($0) } ?? false }
            if !fresh.isEmpty { return fresh }
        }
    }

    /// What of a batch came beyond the backlog's bounds, and so was not acknowledged at once.
    private func settleTaken(_ batch: [ReceivedMessage?], _ state: inout State) -> [AcknowledgementToken] {
        guard settings.acknowledging == .atOnce, !state.unsettled.isEmpty else { return [] }
        return batch.compactMap { $0?.token }.filter { state.unsettled.remove($0) != nil }
    }

    /// Whether the consumer has not settled a message that it got or will get.
    func isUnsettled(_ token: AcknowledgementToken) -> Bool { state.withLock { $0.unsettled.contains(token) } }

    /// Whether a message has got too old on its way to the consumer: then it is acknowledged and counted.
    func expires(_ message: ReceivedMessage) -> Bool {
        guard message.expiresAt != .max, let source = state.withLock(\.source), message.expiresAt <= source.uptimeMilliseconds
        else { return false }
        state.withLock { $0.expiredCount += 1 }
        settle(message, .success)
        return true
    }

    /// Gives what waits and what comes to the receiver, and the end. For subscriptions that acknowledge `.atOnce`, and
    /// no consumer.
    func deliver(to receiver: any MessageReceiver) {
        let (waiting, settled, source, end) = state.withLock { state in
            state.receiver = receiver
            let waiting = state.queue.removeAll()
            state.forgottenCount = 0
            return (waiting, settleTaken(waiting, &state), state.source, state.end)
        }
        for token in settled { source?.acknowledge(token, .success, from: self) }
        for case let message? in waiting { receiver.received(message) }
        switch end {
        case .failed(let error): receiver.ended(error)
        case .finished: receiver.ended(.ended)
        case nil: break
        }
    }

    /// Puts what was taken and not used back, before all that came since.
    func giveBack(_ messages: ArraySlice<ReceivedMessage?>) {
        if messages.isEmpty { return }
        state.withLock { $0.queue.prepend(messages) }
    }

    /// How the pipe ended, nil if it has not.
    var end: End? { state.withLock { $0.end ?? ($0.isFinishing ? .finished : nil) } }

    /// Waits until a message has come or the pipe has ended; returns at once when it is cancelled.
    func waitForMessage() async {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { (continuation: Waiter) in
                let other = state.withLock { state -> Waiter? in
                    if !state.queue.isEmpty || state.end != nil || state.isFinishing { return continuation }
                    // Of two consumers the first looks again, and waits again.
                    defer { state.consumer = continuation }
                    return state.consumer
                }
                other?.resume()
            }
        } onCancel: {
            close()
        }
    }

    /// Waits for the server's answer to SUBSCRIBE and returns what it says of each filter; throws what it refused, and
    /// `ClientError.cancelled` when the task is, which leaves the subscription as it is.
    func waitForGrant() async throws(ClientError) -> [ReasonCode] {
        let call = AwaitedOutcome<Void>()
        let isAnswered = state.withLock { state in
            if state.granted != nil || state.end != nil || state.isFinishing { return true }
            state.granting.append(call)
            return false
        }
        if !isAnswered {
            try await call.outcome(cancelled: { self.state.withLock { $0.granting.removeAll { $0 === call } } }).get()
        }
        if case .failed(let error) = end { throw error }
        return state.withLock(\.granted) ?? []
    }

    /// Settles a message, once.
    func settle(_ message: ReceivedMessage, _ reason: ReasonCode) {
        guard let token = message.token else { return }
        let source = state.withLock { $0.unsettled.remove(token) == nil ? nil : $0.source }
        source?.acknowledge(token, reason, from: self)
    }

    /// The consumer takes no more, but settles what it has; `close` is to follow.
    func finish() {
        let waiters = state.withLock { state in
            state.isFinishing = true
            return state.takeWaiters()
        }
        waiters.resume()
    }

    /// The consumer leaves. What the source gathers before it hears of that is settled at once.
    func close() {
        let (waiters, unsettled, source, wasOpen) = state.withLock { state in
            let wasOpen = state.end == nil
            if wasOpen { state.end = .finished }
            _ = state.queue.removeAll()
            defer { state.unsettled = [] }
            return (state.takeWaiters(), state.unsettled.sorted { $0.number < $1.number }, state.source, wasOpen)
        }
        if wasOpen {
            source?.close(self, unacknowledged: unsettled)
        } else {
            // The server refused it, or the client ended: the others of the connection wait for its answers.
            for token in unsettled { source?.acknowledge(token, .success, from: self) }
        }
        waiters.resume()
    }
}

/// Gets messages on the source's thread, as they come. It must not wait.
protocol MessageReceiver: AnyObject, Sendable {
    func received(_ message: ReceivedMessage)

    /// No more messages come; `.ended` without an error.
    func ended(_ error: ClientError)
}

/// Messages in order; where asked, the latest of each topic only, at the position of its first.
struct MessageQueue {
    private var messages: [ReceivedMessage?] = []
    private var firstIndex = 0
    /// How many were taken from the front since the beginning: positions stay valid when memory moves.
    private var offset = 0
    private var positions: [TopicName: Int] = [:]
    private(set) var count = 0
    /// Of all that wait.
    private(set) var byteCount = 0

    var isEmpty: Bool { count == 0 }

    /// Appends a message, or puts it in the place of one with the same topic; that one is then what `dropOldest`
    /// returns next.
    mutating func append(_ message: ReceivedMessage, replacesSameTopic: Bool) {
        byteCount += message.byteCount
        guard replacesSameTopic else {
            messages.append(message)
            count += 1
            return
        }
        if let position = positions[message.topic] {
            if let older = messages[position - offset] {
                replaced.append(older)
                byteCount -= older.byteCount
            }
            messages[position - offset] = message
        } else {
            positions[message.topic] = offset + messages.count
            messages.append(message)
            count += 1
        }
    }

    /// Appends messages and leaves an empty array. An empty queue takes the array's memory, so that no message is
    /// copied. Not for queues that replace.
    ///
    /// - Parameter bytes: how many they have together.
    mutating func append(contentsOf more: inout [ReceivedMessage?], byteCount bytes: Int) {
        count += more.count
        byteCount += bytes
        guard messages.isEmpty else {
            messages += more
            more.removeAll(keepingCapacity: true)
            return
        }
        swap(&messages, &more)
    }

    private var replaced: [ReceivedMessage] = []

    /// A message that was replaced, or that is too many or too much; the last one stays.
    mutating func dropOldest(beyond most: Int, bytes: Int) -> ReceivedMessage? {
        if let old = replaced.popLast() { return old }
        return count > most || (byteCount > bytes && count > 1) ? popFirst() : nil
    }

    mutating func popFirst() -> ReceivedMessage? {
        guard count > 0, let message = messages[firstIndex] else { return nil }
        messages[firstIndex] = nil
        firstIndex += 1
        count -= 1
        byteCount -= message.byteCount
        if !positions.isEmpty { positions[message.topic] = nil }
        if firstIndex * 2 >= messages.count {
            messages.removeFirst(firstIndex)
            offset += firstIndex
            firstIndex = 0
        }
        return message
    }

    /// Takes all out: an array without nil.
    mutating func removeAll() -> [ReceivedMessage?] {
        if firstIndex > 0 { messages.removeFirst(firstIndex) }
        var taken: [ReceivedMessage?] = []
        swap(&taken, &messages)
        (firstIndex, offset, count, byteCount) = (0, 0, 0, 0)
        if !positions.isEmpty { positions = [:] }
        return taken
    }

    /// Puts messages before all others. Not for queues that replace.
    mutating func prepend(_ earlier: ArraySlice<ReceivedMessage?>) {
        let rest = removeAll()
        messages = earlier + rest
        count = messages.count
        byteCount = messages.reduce(0) { $0 + ($1?.byteCount ?? 0) }
        // A topic's place is its first; a later one of the same topic has come since.
    }
}

extension Limits {
    /// Messages of a client's only subscription that wait while the client awaits nothing from the server; then it lets
    /// the server wait too.
    static let readAheadMessagesMax = 256

    /// Bytes of these; then the same.
    static let readAheadBytesMax = 1 << 20
}
