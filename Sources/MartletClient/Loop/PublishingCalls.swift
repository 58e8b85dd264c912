/// Messages that tasks wait for.
struct PublishingCalls {
    private var calls: [PublishTicket: PublishCall] = [:]
    /// Tickets in order, for those that look for the oldest; over ones among them.
    private var order: [PublishTicket] = []
    private var firstIndex = 0
    private var byteCount = 0
    /// Beyond the queue's limits, in order.
    private var blocked: [PublishCall] = []
    /// QoS 0, until the connection has taken what is written.
    private var waitingForRoom: [PublishCall] = []
    /// QoS 0, until there is a connection.
    private var offline: [PublishCall] = []

    /// Whether one more may be handed to the session.
    func hasRoom(for call: PublishCall, _ limits: QueueLimits) -> Bool {
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
        return call
    }

    /// The ticket of the oldest that is not over; each is given out once.
    mutating func popOldest() -> PublishTicket? {
        while firstIndex < order.count {
            let ticket = order[firstIndex]
            firstIndex += 1
            if firstIndex * 2 >= order.count {
                order.removeFirst(firstIndex)
                firstIndex = 0
            }
            if calls[ticket] != nil { return ticket }
        }
        return nil
    }

    mutating func block(_ call: PublishCall) { blocked.append(call) }

    var hasBlocked: Bool { !blocked.isEmpty }

    /// The first that is blocked, if there is room for it now.
    mutating func popBlocked(_ limits: QueueLimits) -> PublishCall? {
        while let first = blocked.first {
            if !first.call.isOver, !hasRoom(for: first, limits) { return nil }
            blocked.removeFirst()
            if !first.call.isOver { return first }
        }
        return nil
    }

    mutating func waitForRoom(_ call: PublishCall) { waitingForRoom.append(call) }

    mutating func releaseWaitingForRoom(_ body: (PublishCall) -> Void) {
        guard !waitingForRoom.isEmpty else { return }
        let released = waitingForRoom
        waitingForRoom = []
        for call in released where !call.call.isOver { body(call) }
    }

    /// Keeps a message of QoS 0 for the next connection. Returns whether there was room.
    mutating func waitForConnection(_ call: PublishCall, _ limits: QueueLimits) -> Bool {
        guard offline.count < limits.messages else { return false }
        offline.append(call)
        return true
    }

    mutating func releaseOffline(_ body: (PublishCall) -> Void) {
        let released = offline
        offline = []
        for call in released where !call.call.isOver { body(call) }
    }

    /// All that wait, the oldest first.
    mutating func removeAll() -> [PublishCall] {
        defer { self = PublishingCalls() }
        return calls.sorted { $0.key < $1.key }.map(\.value) + blocked + waitingForRoom + offline
    }
}
