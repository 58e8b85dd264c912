internal import Platform

/// Reads a client's store beside the client, in its process or another.
///
/// Each reading sees what one commit left. Whoever wants to be woken watches ``watchedPath``, whose times change after a commit that
/// changes entries, and compares ``version()``.
public final class StoreReader: Sendable {
    private let database: Locked<StoreDatabase>
    /// The file whose times change (`IN_ATTRIB`) after a commit that changes entries.
    public let watchedPath: String

    /// Throws `failed` if there is no store yet.
    public init(_ path: String) throws(StoreError) {
        database = Locked(try StoreDatabase(path, .read))
        watchedPath = path + "-lock"
    }

    /// A number that changes with every commit of the client. Asking for it reads a page at most.
    public func version() throws(StoreError) -> Int64 {
        try database.withLock { database throws(StoreError) in try database.version() }
    }

    public func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows {
        try database.withLock { database throws(StoreError) in try database.rows(query) }
    }
}
