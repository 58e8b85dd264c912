/// The paths of a store's files.
struct StoreFiles: Sendable {
    let directory: String
    /// Of the database.
    let name: String

    init(directory: String, name: String = SQLiteStore.defaultName) {
        self.directory = directory
        self.name = name
    }

    /// A directory may be named with the slash that the names in it follow.
    var database: String { directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)" }
    /// SQLite's write-ahead log: commits that are not in the database yet.
    var log: String { database + "-wal" }
    /// What SQLite's connections share; it means nothing once they are closed.
    var sharedMemory: String { database + "-shm" }
    var mark: String { database + "-mark" }
    /// A database that is being made, and takes its place when it is whole.
    var draft: String { database + "-new" }

    /// Where damaged files are kept.
    func aside(_ time: String) -> String { "\(database).damaged-\(time)" }
}
