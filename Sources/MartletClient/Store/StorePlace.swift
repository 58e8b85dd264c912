package import ClientStore

/// Where a client keeps what is to outlive it.
public struct StorePlace: Sendable {
    let open: @Sendable () throws(StoreError) -> any ClientStorage

    /// An SQLite database in a file, which is made if there is none. One client at a time has it.
    ///
    /// - Parameters:
    ///   - path: of the database; its log and its lock are beside it.
    ///   - bytesMax: the size that it may have; nil for any.
    public static func file(_ path: String, bytesMax: Int? = nil) -> StorePlace {
        StorePlace { () throws(StoreError) in try FileStore(path, bytesMax: bytesMax) }
    }

    /// Memory of that name, which lives as long as the process: for tests that end a client and begin it again.
    public static func memory(_ name: String) -> StorePlace {
        StorePlace { () throws(StoreError) in try MemoryStore(.named(name)) }
    }

    /// A storage that a test holds in its hands. It is closed with the client.
    package static func custom(_ open: @escaping @Sendable () throws(StoreError) -> any ClientStorage) -> StorePlace {
        StorePlace(open: open)
    }
}

extension ClientError {
    init(_ error: StoreError) { self = .store("\(error)") }
}
