/// What gives way when a client's queue is full.
public enum QueueDropPolicy: String, Sendable, Equatable, CaseIterable {
    /// The message that arrives, as mosquitto does.
    case newest
    /// The message that has waited longest.
    case oldest
    /// Nothing: the publisher's QoS 1 or 2 message is refused with "quota exceeded".
    case refuse
}
