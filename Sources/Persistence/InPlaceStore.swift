public import BrokerModel

/// A store that can commit on the calling thread too. When and where to commit is the shell's to choose; the core only hears that it is done.
public protocol InPlaceStore: MessageStore {
    /// As `commit`, and on the calling thread if nobody else commits: a thread less to wake, for whoever may wait for the disk.
    func commitHere(_ batch: JournalBatch, of shard: Int)
    /// Does what `commitHere` has left for a moment when nobody waits for it: to be called soon after. Waits for the disk.
    func tidyUp()
    /// Whether `commitHere` takes less than a millisecond these days. For any thread, at once.
    var isQuick: Bool { get }
}
