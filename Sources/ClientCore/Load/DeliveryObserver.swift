/// Whoever wants to know how long messages took.
public protocol DeliveryObserver: AnyObject {
    /// So many messages in a row arrived that were stamped at this time. Once for a run of equal stamps, not for each message.
    func delivered(_ count: Int, stampedAt nanoseconds: UInt64)
}
