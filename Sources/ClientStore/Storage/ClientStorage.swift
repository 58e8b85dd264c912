/// Where a client keeps what is to outlive it: rows in ordered tables, changed in batches.
///
/// One client has it at a time. Any thread may call. What is asked is done in the order in which it is asked, but for
/// batches that wait for room: a row that a batch has put is there for whoever reads after handing it over. Answers
/// come on a thread of the storage, or before the call returns; they do not take long, and hand on to their owner's
/// thread.
public protocol ClientStorage: AnyObject, Sendable {
    /// Makes a batch durable. `done` is told when it is, or why it never will be; for batches of one owner in their
    /// order, but for those that do not wait for room.
    func commit(_ batch: StoreBatch, _ done: @escaping @Sendable (StoreError?) -> Void)

    /// Reads rows, after all that was handed over before.
    func read(_ query: StoreQuery, _ done: @escaping @Sendable (Result<StoreRows, StoreError>) -> Void)

    /// Reads rows while the caller waits: for the beginning, when nothing else is under way.
    func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows

    /// Counts rows while the caller waits. Does not look whether they are damaged.
    func measure(_ query: StoreQuery) throws(StoreError) -> StoreMeasure

    /// Does what was asked, and lets another client have the storage. Returns when that is so; a second call does
    /// nothing.
    func close()
}

extension ClientStorage {
    /// The number that the first or the last key under a prefix ends with, whether or not its row is damaged; nil
    /// without rows.
    func edge(of table: StoreTable, under prefix: StoreKey = StoreKey(), isLast: Bool) throws(StoreError) -> UInt64? {
        let found = try rows(StoreQuery(table, under: prefix, limit: 1, isDescending: isLast))
        return (found.rows.first?.key ?? found.damages.first?.key)?.lastNumber
    }
}

/// Why a store did not do what was asked.
public enum StoreError: Error, Hashable, Sendable {
    /// Another client has it: the file, and which process if that is known.
    case inUse(String, process: Int? = nil)
    /// A later version of this library wrote it.
    case newer(String)
    /// A build of this library from before its first release wrote it.
    case unreleased(String)
    /// The file is something else.
    case foreign(String)
    /// The file is not what was written, or the disk does not give it back: the file, and what is wrong.
    case damaged(String, String)
    /// There is no room: the disk's, or the store's own bound.
    case noRoom(String)
    /// The kernel or the disk refuses: the file, and why. Nothing is committed any more.
    case failed(String, String)
    /// It was closed.
    case closed
}

extension StoreError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .inUse(let path, let process?): "\(path) is used by another client (process \(process))"
        case .inUse(let path, nil): "\(path) is used by another client"
        case .newer(let path): "\(path) was written by a later version"
        case .unreleased(let path): "\(path) was written by a build from before the first release, and cannot be read: move it away"
        case .foreign(let path): "\(path) is no client's store"
        case .damaged(let path, let why): "\(path) is damaged: \(why)"
        case .noRoom(let path): "there is no room for \(path)"
        case .failed(let path, let why): "\(path): \(why)"
        case .closed: "it was closed"
        }
    }
}
