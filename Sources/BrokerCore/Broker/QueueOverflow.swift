/// What gives way when a message comes for a client whose queue is full.
public enum QueueOverflow: Sendable {
    /// The message that comes, as mosquitto does.
    case dropsNewest
    /// The message that has waited longest.
    case dropsOldest
    /// Nothing: the publisher is refused with Quota exceeded, before anybody gets the message. What it was not refused is queued by all.
    case refusesPublisher
}
