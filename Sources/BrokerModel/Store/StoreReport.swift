/// What a store tells a shard.
public enum StoreReport: Sendable {
    /// All changes up to this sequence number would survive a power cut.
    case committed(through: UInt64)
    /// To every shard: there is no room; the store keeps the batches that it has and tries again.
    case full
    /// To every shard, after `full`: what was kept waiting is committed.
    case hasRoom
    /// The store does not know what is on the disk and takes nothing more until the broker is started again.
    case failed
    /// The answer to a request.
    case rows(StoreRows)
}
