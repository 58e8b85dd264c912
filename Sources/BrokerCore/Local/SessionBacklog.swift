/// What a session has still to deliver: messages that were not sent, and those that were and are not acknowledged.
public struct SessionBacklog: Hashable, Sendable {
    public internal(set) var messages = 0
    /// Of those that were not sent, topics and properties included, and of those in flight.
    public internal(set) var bytes = 0
    /// How many of the messages memory need not hold, because they are on the disk.
    public internal(set) var storedMessages = 0
    /// How long the oldest of them has waited since it came, or since the broker's start, in milliseconds; 0 for none.
    public internal(set) var oldestMilliseconds: UInt64 = 0

    public init() {}

    /// Counts what another session has too.
    public mutating func add(_ other: SessionBacklog) {
        (messages, bytes) = (messages + other.messages, bytes + other.bytes)
        storedMessages += other.storedMessages
        oldestMilliseconds = max(oldestMilliseconds, other.oldestMilliseconds)
    }

    init(_ session: Session, now: UInt64) {
        let outbox = session.outbox
        messages = outbox.inFlight + outbox.waiting
        bytes = outbox.inFlightBytes + outbox.waitingBytes
        storedMessages = outbox.pagedCount
        // What is at the head, or what of it was released, is the oldest; the places between hold no message.
        let oldest = (outbox.count > 0 ? outbox[0].message : nil) ?? outbox.firstWaiting.flatMap { outbox[$0].message }
        oldestMilliseconds = oldest?.with { now &- min(now, $0.madeAt / 1000) } ?? 0
    }
}
