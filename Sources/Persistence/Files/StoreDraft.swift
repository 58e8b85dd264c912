internal import BrokerModel
internal import SQLite

/// Makes a new store beside the place of the old one, which it takes when it is whole: a crash on the way leaves nothing half done.
struct StoreDraft {
    let files: StoreFiles
    let identity: StoreIdentity
    /// Of the commit that makes the tables.
    let commitNumber: UInt64

    /// Writes the file; `fill` adds the rows. Gives back the number of the last commit.
    func write(_ fill: (StoreTransaction) throws(SQLiteError) -> Void = { _ in }) throws(StoreError) -> UInt64 {
        try removeRest(of: files.draft)
        try DiskFile.create(files.draft)
        let commit: UInt64
        do throws(SQLiteError) {
            commit = try writeRows(fill)
        } catch {
            throw .sqlite(error)
        }
        // Empty, since all of the log was moved.
        for rest in [files.draft + "-wal", files.draft + "-shm"] { try DiskFile.remove(rest) }
        try DiskFile.synchronize(files.draft)
        return commit
    }

    /// Puts the file in the store's place. The old log goes first: SQLite would take it for the new database's.
    func install(_ mark: StoreMark, commit: UInt64) throws(StoreError) {
        try mark.reset(MarkSlot(seed: identity.seed, commitNumber: commit))
        for rest in [files.log, files.sharedMemory] { try DiskFile.remove(rest) }
        try DiskFile.synchronize(files.directory)
        try DiskFile.rename(files.draft, to: files.database)
        try DiskFile.synchronize(files.directory)
    }

    private func writeRows(_ fill: (StoreTransaction) throws(SQLiteError) -> Void) throws(SQLiteError) -> UInt64 {
        let connection = try SQLiteConnection(files.draft, .write)
        try StoreSchema.prepare(connection)
        try StoreSchema.configure(connection)
        try connection.execute("BEGIN")
        try StoreSchema.migrate(connection, from: 0)
        var state = StoreState()
        state.commitNumber = commitNumber
        let meta = try MetaTable(connection)
        try meta.insert(.state, state.encoded())
        try meta.insert(.identity, identity.encoded())
        try connection.execute("COMMIT")
        let transaction = try StoreTransaction(connection, state: state)
        try fill(transaction)
        _ = try connection.checkpoint(.truncate)
        return transaction.state.commitNumber
    }

    private func removeRest(of path: String) throws(StoreError) {
        for rest in [path, path + "-wal", path + "-shm", path + "-journal"] { try DiskFile.remove(rest) }
    }
}
