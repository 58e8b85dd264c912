import Bytes

/// Messages that wait for their turn, in the order of their tickets.
struct WaitingMessages: Sendable {
    struct Waiting: Sendable {
        let ticket: PublishTicket
        /// Nil when it was taken back.
        var publication: Publication?
        /// Whether an earlier session of the server's may have got it.
        var wasSent = false
        /// When it is too old, in milliseconds; `UInt64.max` for never.
        var expiresAt = UInt64.max
    }

    private var messages = Deque<Waiting>()
    /// How many were not taken back.
    private(set) var count = 0
    /// When the first of them gets too old, or before; `UInt64.max` for never.
    private(set) var nextExpiry = UInt64.max

    mutating func append(_ waiting: Waiting) {
        messages.append(waiting)
        count += 1
        nextExpiry = min(nextExpiry, waiting.expiresAt)
    }

    /// The Message Expiry Intervals of those that do not count them yet count from now.
    mutating func count(since now: UInt64) {
        for index in messages.indices where messages[index].expiresAt == .max {
            messages[index].expiresAt = messages[index].publication?.expiry(since: now) ?? .max
            nextExpiry = min(nextExpiry, messages[index].expiresAt)
        }
    }

    /// Takes out what is too old. Returns the tickets, in order.
    mutating func expire(now: UInt64) -> [PublishTicket] {
        guard nextExpiry <= now else { return [] }
        var expired: [PublishTicket] = []
        nextExpiry = .max
        for index in messages.indices where messages[index].publication != nil {
            if messages[index].expiresAt <= now {
                messages[index].publication = nil
                count -= 1
                expired.append(messages[index].ticket)
            } else {
                nextExpiry = min(nextExpiry, messages[index].expiresAt)
            }
        }
        dropTaken()
        return expired
    }

    /// Puts messages before all that wait.
    mutating func insertFirst(_ earlier: [Waiting]) {
        messages.prepend(contentsOf: earlier)
        count += earlier.count
        nextExpiry = earlier.reduce(nextExpiry) { min($0, $1.expiresAt) }
    }

    /// The one that waits longest.
    mutating func removeFirst() -> Waiting? {
        while let waiting = messages.popFirst() {
            guard waiting.publication != nil else { continue }
            count -= 1
            return waiting
        }
        return nil
    }

    /// Takes back a message that was never sent; returns whether it did.
    mutating func withdraw(_ ticket: PublishTicket) -> Bool {
        var (low, high) = (0, messages.count)
        while low < high {
            let middle = (low + high) / 2
            if messages[middle].ticket < ticket { low = middle + 1 } else { high = middle }
        }
        guard low < messages.count, messages[low].ticket == ticket, !messages[low].wasSent,
            messages[low].publication.take() != nil
        else { return false }
        count -= 1
        dropTaken()
        return true
    }

    /// Room for those taken back is kept as long as it is less than what the others take.
    private mutating func dropTaken() {
        guard messages.count > count * 2 else { return }
        messages.removeAll { $0.publication == nil }
    }

    /// Gives the memory back when nothing waits.
    mutating func trim() {
        if count == 0 { self = WaitingMessages() }
    }
}
