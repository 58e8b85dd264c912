/// What keeps the broker's state through a crash. The core knows no more of it than this.
///
/// The calls return at once; what comes of them is reported later, to the shard that asked and on its thread.
public protocol MessageStore: AnyObject, Sendable {
    /// Makes a shard's batch durable, in one commit with what other shards have given meanwhile. A shard gives the next batch when this
    /// one is reported `committed`.
    func commit(_ batch: JournalBatch, of shard: Int)
    /// Reads rows that were committed.
    func read(_ request: StoreRequest, for shard: Int)
    /// What the last commit left. For any thread, at once.
    var figures: StoreFigures { get }
}
