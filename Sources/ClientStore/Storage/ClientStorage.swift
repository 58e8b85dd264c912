/// Where a client keeps what is to outlive it: rows in ordered tables, changed in batches.
///
/// One client has it at a time. Any thread may call. What is asked is done in the order in which it is asked, but for batches that wait for
/// room: a row that a batch has put is there for whoever reads after handing it over. Answers come on a thread of the storage, or before
/// the call returns; they do not take long, and hand on to their owner's thread.
public protocol ClientStorage: AnyObject, Sendable {
    /// Makes a batch durable. `done` is told when it is, or why it never will be; for batches of one owner in their order, but for those that
    /// do not wait for room.
    func commit(_ batch: StoreBatch, _ done: @escaping @Sendable (StoreError?) -> Void)

    /// Reads rows, after all that was handed over before.
    func read(_ query: StoreQuery, _ done: @escaping @Sendable (Result<StoreRows, StoreError>) -> Void)

    /// Reads rows while the caller waits: for the beginning, when nothing else is under way.
    func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows

    /// Counts rows while the caller waits. Does not look whether they are damaged.
    func measure(_ query: StoreQuery) throws(StoreError) -> StoreMeasure

    /// Does what was asked, and lets another client have the storage. Returns when that is so; a second call does nothing.
    func close()
}

extension ClientStorage {
    /// The number that the first or the last key under a prefix ends with, whether or not its row is damaged; nil without rows.
    func edge(of table: StoreTable, under prefix: StoreKey = StoreKey(), isLast: Bool) throws(StoreError) -> UInt64? {
        let found = try rows(StoreQuery(table, under: prefix, limit: 1, isDescending: isLast))
        return (found.rows.first?.key ?? found.damages.first?.key)?.lastNumber
    }
}
