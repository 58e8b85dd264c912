internal import Bytes
internal import ClientCore
internal import ClientStore
internal import Platform

/// What the values of an inbox share: what has come for those who follow it.
final class InboxCore: Sendable {
    let name: String
    let engine: ClientEngine
    let pipe: MessagePipe
    let unread: LatestValue<UnreadCount>
    let undecodable = Locked(0)
    /// To what a message belongs.
    let key: @Sendable (ReceivedMessage) -> String?
    private let state = Locked(State())

    private struct State {
        var waiting: [InboxMessage] = []
        var waitingByteCount = 0
        /// What those who follow were not told as too much waited.
        var missed = MissedArrivals()
        var followers = 0
        var wasFollowed = false
        var consumers: [UnsafeContinuation<Void, Never>] = []

        mutating func add(_ messages: [InboxMessage]) {
            waiting += messages
            waitingByteCount += messages.reduce(0) { $0 + $1.publication.byteCount }
        }

        /// As above, as far as there is room; behind what is read from the store comes nothing else.
        mutating func addOrMiss(_ messages: [InboxMessage]) {
            for message in messages {
                let isFull = waiting.count >= Limits.inboxWindowMax || waitingByteCount >= Limits.inboxWindowBytesMax
                if isFull || !missed.isEmpty { missed.add(message) } else { add([message]) }
            }
        }

        /// What nobody follows is bounded by forgetting: it is in the store.
        mutating func dropOldest() {
            var count = max(0, waiting.count - Limits.inboxWindowMax)
            waitingByteCount -= waiting[..<count].reduce(0) { $0 + $1.publication.byteCount }
            while waitingByteCount > Limits.inboxWindowBytesMax, count < waiting.count - 1 {
                waitingByteCount -= waiting[count].publication.byteCount
                count += 1
            }
            waiting.removeFirst(count)
        }

        mutating func takeAll() -> [InboxMessage] {
            defer { (waiting, waitingByteCount) = ([], 0) }
            return waiting
        }
    }

    init(
        _ name: String, _ pipe: MessagePipe, _ unread: UnreadCount, _ engine: ClientEngine,
        key: @escaping @Sendable (ReceivedMessage) -> String?
    ) {
        (self.name, self.pipe, self.engine, self.key) = (name, pipe, engine, key)
        self.unread = LatestValue(unread)
    }

    /// Counts whoever follows the arrivals.
    final class Lease: Sendable {
        private let core: InboxCore

        init(_ core: InboxCore) {
            self.core = core
            core.state.withLock { state in
                state.followers += 1
                state.wasFollowed = true
            }
        }

        deinit { core.unfollow() }
    }

    /// Messages are on the disk.
    func arrived(_ messages: [InboxMessage], _ count: UnreadCount) {
        let consumers = state.withLock { state in
            if state.followers > 0 {
                state.addOrMiss(messages)
            } else if !state.wasFollowed {
                state.add(messages)
                state.dropOldest()
            }
            defer { state.consumers = [] }
            return state.consumers
        }
        unread.set(count)
        for consumer in consumers { consumer.resume() }
    }

    /// What waits for those who follow.
    var size: ClientSize.Part { state.withLock { ClientSize.Part(messages: $0.waiting.count, bytes: $0.waitingByteCount) } }

    /// Nothing comes any more.
    func ended() {
        unread.finish()
        wake()
    }

    /// What those who follow are to be told, from memory or from the store; nil for nothing. Throws what reading the
    /// store does.
    func take() async throws(ClientError) -> [InboxMessage]? {
        let (waiting, missed) = state.withLock { state in
            let waiting = state.takeAll()
            return (waiting, waiting.isEmpty ? state.missed.popFirst(most: UInt64(Limits.inboxReadMax)) : nil)
        }
        guard let missed else { return waiting.isEmpty ? nil : waiting }
        let query = InboxBook.messages(
            name, in: missed.conversation, before: missed.numbers.upperBound + 1, limit: missed.numbers.count)
        return try await read(query).reversed().compactMap { InboxMessage($0, of: name) }
    }

    func waitForArrival() async {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { consumer in
                let isDue = state.withLock { state in
                    if !state.waiting.isEmpty || !state.missed.isEmpty || pipe.end != nil || Task.isCancelled { return true }
                    state.consumers.append(consumer)
                    return false
                }
                if isDue { consumer.resume() }
            }
        } onCancel: {
            wake()
        }
    }

    func countUndecodable() { undecodable.withLock { $0 += 1 } }

    func read(_ query: StoreQuery) async throws(ClientError) -> [StoreRow] {
        guard let storage = engine.records?.storage else { return [] }
        let result = await withUnsafeContinuation { continuation in
            storage.read(query) { continuation.resume(returning: $0) }
        }
        switch result {
        case .success(let rows): return rows.rows
        case .failure(let error): throw error == .closed ? .ended : ClientError(error)
        }
    }

    /// How far messages have come that are one's own; nil for others.
    func deliveries(of messages: [InboxMessage]) async throws(ClientError) -> [Delivery?] {
        var states = try await ownStates(of: messages)
        let open = states.compactMap { if case .open(let number, let byteCount)? = $0 { (number, byteCount) } else { nil } }
        var trackings: [UInt64: DeliveryTracking] = [:]
        if !open.isEmpty {
            let call = AwaitedOutcome<[UInt64: DeliveryTracking]>()
            engine.ask(call, withoutStore: .failure(.ended)) { records, _ in records.follow(open, call) }
            trackings = try await call.outcome(cancelled: {}).get()
            // Of those that were over meanwhile it is stored by now.
            if trackings.count < open.count { states = try await ownStates(of: messages) }
        }
        return zip(messages, states).map { message, state in
            guard let state else { return nil }
            let identifier = message.properties.messageIdentifier ?? ""
            if case .open(let number, _) = state, let tracking = trackings[number] {
                return Delivery(id: identifier, topic: message.topic, tracking: tracking)
            }
            // Its row in the outbox was damaged.
            let status = DeliveryStatus(state) ?? .failed(.store("the message in the outbox is lost"))
            return Delivery(id: identifier, topic: message.topic, tracking: DeliveryTracking(over: status))
        }
    }

    private func ownStates(of messages: [InboxMessage]) async throws(ClientError) -> [OwnMessageRow.State?] {
        guard let first = messages.first, try await !read(InboxBook.anyOwn(name)).isEmpty else {
            return messages.map { _ in nil }
        }
        var found: [StoreKey: OwnMessageRow.State] = [:]
        if messages.allSatisfy({ $0.conversation == first.conversation }) {
            let numbers = messages.map(\.number)
            let query = OwnMessageRow.query(name, first.conversation, (numbers.min() ?? 0)...(numbers.max() ?? 0))
            for row in try await read(query) { found[row.key] = OwnMessageRow(row)?.state }
        } else {
            for message in messages {
                let query = OwnMessageRow.query(name, message.conversation, message.number...message.number)
                for row in try await read(query) { found[row.key] = OwnMessageRow(row)?.state }
            }
        }
        return messages.map { found[StoreKey(name).text($0.conversation).number($0.number)] }
    }

    private func wake() {
        let consumers = state.withLock { state in
            defer { state.consumers = [] }
            return state.consumers
        }
        for consumer in consumers { consumer.resume() }
    }

    private func unfollow() {
        state.withLock { state in
            state.followers -= 1
            guard state.followers == 0 else { return }
            _ = state.takeAll()
            state.missed = MissedArrivals()
        }
    }
}

/// Messages of an inbox that are in the store and were not told: of each conversation those of a range of numbers, for
/// numbers have no gaps.
struct MissedArrivals {
    private var ranges: [String: ClosedRange<UInt64>] = [:]
    /// The conversations in the order in which they are read.
    private var order = Deque<String>()

    var isEmpty: Bool { ranges.isEmpty }

    /// In the order of their numbers.
    mutating func add(_ message: InboxMessage) {
        if let known = ranges[message.conversation] {
            ranges[message.conversation] = known.lowerBound...message.number
        } else {
            ranges[message.conversation] = message.number...message.number
            order.append(message.conversation)
        }
    }

    /// Takes out the first messages of the conversation whose turn it is; nil when there are none.
    mutating func popFirst(most: UInt64) -> (conversation: String, numbers: ClosedRange<UInt64>)? {
        guard let conversation = order.popFirst(), let range = ranges.removeValue(forKey: conversation) else { return nil }
        let last = min(range.upperBound, range.lowerBound + most - 1)
        if last < range.upperBound {
            ranges[conversation] = (last + 1)...range.upperBound
            order.append(conversation)
        }
        return (conversation, range.lowerBound...last)
    }
}
