/// A reference to a row of `StoreTable.message`: a message that several entries share. The row goes with the last reference; `SharedRows`
/// counts them.
///
/// Belongs to one shard.
final class StoredPayload {
    let number: UInt64
    private let journal: Journal

    init(number: UInt64, journal: Journal) {
        self.number = number
        self.journal = journal
    }

    deinit { journal.letGoShared(number) }
}
