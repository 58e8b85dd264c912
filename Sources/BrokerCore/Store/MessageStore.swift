/// What keeps the broker's state through a crash. The core knows no more of it than this.
///
/// The calls return at once, save `commitHere` and `tidyUp`; what comes of them is reported later, to the shard that asked and on its
/// thread.
public protocol MessageStore: AnyObject, Sendable {
    /// Makes a shard's batch durable, in one commit with what other shards have given meanwhile. A shard gives the next batch when this
    /// one is reported `committed`.
    func commit(_ batch: JournalBatch, of shard: Int)
    /// As `commit`, and on the calling thread if nobody else commits: a thread less to wake, for whoever may wait for the disk.
    func commitHere(_ batch: JournalBatch, of shard: Int)
    /// Does what `commitHere` has left for a moment when nobody waits for it: to be called soon after.
    func tidyUp()
    /// Whether `commitHere` takes less than a millisecond these days. For any thread, at once.
    var isQuick: Bool { get }
    /// Reads rows that were committed.
    func read(_ request: StoreRequest, for shard: Int)
    /// What the last commit left. For any thread, at once.
    var figures: StoreFigures { get }
}
