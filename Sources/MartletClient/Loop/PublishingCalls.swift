internal import Bytes
internal import ClientCore
internal import ClientStore

/// Messages that tasks wait for.
struct PublishingCalls {
    private var calls: [PublishTicket: PublishCall] = [:]
    /// Tickets in order, for those that look for the oldest; over ones among them, but not the first.
    private var order = Deque<PublishTicket>()
    private var byteCount = 0
    /// Beyond the queue's limits, in order.
    private var blocked = Deque<PublishCall>()
    /// QoS 0, until the connection has taken what is written.
    private var waitingForRoom: [PublishCall] = []
    /// QoS 0, until there is a connection.
    private var offline: [PublishCall] = []
    private var offlineByteCount = 0
    private var cancelledCount = 0

    /// The messages that the session has, and those of QoS 0 that wait for a connection.
    var size: ClientSize.Part { ClientSize.Part(messages: calls.count, bytes: byteCount) }
    var offlineSize: ClientSize.Part { ClientSize.Part(messages: offline.count, bytes: offlineByteCount) }

    /// Whether one more may be handed to the session.
    func hasRoom(for call: PublishCall, _ limits: ClientSettings.QueueLimits) -> Bool {
        calls.count < limits.messages && (byteCount + call.byteCount <= limits.bytes || calls.isEmpty)
    }

    mutating func add(_ call: PublishCall, _ ticket: PublishTicket, tracksOrder: Bool) {
        call.ticket = ticket
        calls[ticket] = call
        byteCount += call.byteCount
        if tracksOrder { order.append(ticket) }
    }

    mutating func remove(_ ticket: PublishTicket) -> PublishCall? {
        guard let call = calls.removeValue(forKey: ticket) else { return nil }
        byteCount -= call.byteCount
        // Most end in their order, so that few that are over lie behind one that is not.
        while let first = order.first, calls[first] == nil { order.popFirst() }
        return call
    }

    /// How many tickets are kept for those that look for the oldest.
    var orderedCount: Int { order.count }

    /// How many calls wait that the session has not got.
    var unsentCount: Int { blocked.count + offline.count }

    /// A call that the session has not got was cancelled. Those are forgotten when they are half of all, so that each
    /// is moved once.
    mutating func cancelled() {
        cancelledCount += 1
        guard cancelledCount * 2 > unsentCount else { return }
        cancelledCount = 0
        for call in blocked.takeAll() where !call.call.isOver { blocked.append(call) }
        offline.removeAll { $0.call.isOver }
        offlineByteCount = offline.reduce(0) { $0 + $1.byteCount }
    }

    /// The ticket of the oldest that is not over; each is given out once.
    mutating func popOldest() -> PublishTicket? {
        while let ticket = order.popFirst() {
            if calls[ticket] != nil { return ticket }
        }
        return nil
    }

    mutating func block(_ call: PublishCall) {
        blocked.append(call)
        nextExpiry = min(nextExpiry, call.expiresAt)
    }

    /// When the first of those that the session has not got is too old, or before; `UInt64.max` for never.
    private(set) var nextExpiry = UInt64.max

    /// Ends what is too old of that.
    mutating func expire(now: UInt64) {
        guard nextExpiry <= now else { return }
        nextExpiry = .max
        for call in blocked.takeAll() where !ends(call, now) { blocked.append(call) }
        let waiting = offline
        offline = []
        for call in waiting where !ends(call, now) { offline.append(call) }
        offlineByteCount = offline.reduce(0) { $0 + $1.byteCount }
    }

    private mutating func ends(_ call: PublishCall, _ now: UInt64) -> Bool {
        if call.expiresAt <= now { call.call.complete(.failure(.expired)) }
        if call.call.isOver { return true }
        nextExpiry = min(nextExpiry, call.expiresAt)
        return false
    }

    var hasBlocked: Bool { !blocked.isEmpty }

    /// The first that is blocked, if there is room for it now.
    mutating func popBlocked(_ limits: ClientSettings.QueueLimits) -> PublishCall? {
        while let first = blocked.first {
            if !first.call.isOver, !hasRoom(for: first, limits) { return nil }
            blocked.popFirst()
            if !first.call.isOver { return first }
        }
        return nil
    }

    /// Whether somebody waits until the connection has taken what is written.
    var hasWaitingForRoom: Bool { !waitingForRoom.isEmpty }

    mutating func waitForRoom(_ call: PublishCall) { waitingForRoom.append(call) }

    mutating func releaseWaitingForRoom(_ body: (PublishCall) -> Void) {
        guard !waitingForRoom.isEmpty else { return }
        let released = waitingForRoom
        waitingForRoom = []
        for call in released where !call.call.isOver { body(call) }
    }

    /// Keeps a message of QoS 0 for the next connection. Returns whether there was room.
    mutating func waitForConnection(_ call: PublishCall, _ limits: ClientSettings.QueueLimits) -> Bool {
        guard offline.count < limits.messages, offline.isEmpty || offlineByteCount + call.byteCount <= limits.bytes else {
            return false
        }
        offline.append(call)
        offlineByteCount += call.byteCount
        nextExpiry = min(nextExpiry, call.expiresAt)
        return true
    }

    mutating func releaseOffline(_ body: (PublishCall) -> Void) {
        let released = offline
        (offline, offlineByteCount) = ([], 0)
        for call in released where !call.call.isOver { body(call) }
    }

    /// All that wait, the oldest first.
    mutating func removeAll() -> [PublishCall] {
        defer { self = PublishingCalls() }
        return calls.sorted { $0.key < $1.key }.map(\.value) + blocked.takeAll() + waitingForRoom + offline
    }
}

/// What a client holds, for tests that look whether bounds are kept.
package struct ClientSize: Sendable {
    package struct Part: Hashable, Sendable {
        package var messages: Int
        /// Of topics and payloads; of the outbox and of what is not durable, of rows.
        package var bytes: Int

        package static var zero: Part { Part(messages: 0, bytes: 0) }
    }

    /// Messages of QoS 1 and 2 that tasks have handed over: at most `ClientSettings.queue`.
    package let publishing: Part
    /// Messages of QoS 0 that wait for a connection: the same again.
    package let offline: Part
    /// Messages that are stored: at most `ClientSettings.outbox`.
    package let outbox: Part
    /// Of these, what waits in memory.
    package let outboxInMemory: Part
    /// Messages of the outbox in the session's hands.
    package let outboxInFlight: Int
    /// All messages of QoS 1 and 2 in the session's hands.
    package let unacknowledged: Int
    /// Calls of `enqueue` that wait for room in the outbox, and cancelled ones that are not forgotten.
    let blockedEnqueues: Int
    /// Received messages that nobody has subscribed to yet: at most `Limits.unmatchedMessagesMax`.
    let unmatched: Part
    /// By inbox, what waits for those who follow its arrivals: about `Limits.inboxWindowMax`.
    let inboxes: [Part]
    /// Changes that the store has not made durable: about `Limits.storeChangesMax`.
    let unstored: Part
    /// Bytes that the transport has not taken.
    package let outputBytes: Int
}

extension Client {
    /// What it holds now. On its loop's thread alone.
    package var size: ClientSize {
        let outbox = engine.records?.outbox
        return ClientSize(
            publishing: engine.publishing.size, offline: engine.publishing.offlineSize,
            outbox: ClientSize.Part(messages: outbox?.count ?? 0, bytes: outbox?.byteCount ?? 0),
            outboxInMemory: ClientSize.Part(messages: outbox?.countInMemory ?? 0, bytes: outbox?.bytesInMemory ?? 0),
            outboxInFlight: engine.records?.flights.count ?? 0, unacknowledged: engine.session.unacknowledgedCount,
            blockedEnqueues: engine.records?.blocked.count ?? 0, unmatched: engine.subscriptions.unmatched.size,
            inboxes: engine.records?.inboxesInOrder.map(\.core.size) ?? [], unstored: engine.records?.unstored ?? .zero,
            outputBytes: engine.session.outputByteCount)
    }
}
