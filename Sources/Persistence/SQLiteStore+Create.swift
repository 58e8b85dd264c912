public import BrokerModel
internal import Glibc
internal import Platform
internal import SQLite

extension SQLiteStore {
    /// Makes a store that holds a batch's rows from its beginning, in a directory that is made if there is none. A crash leaves all of the
    /// store or none of it.
    ///
    /// Throws `exists` where a store is, or what is left of one.
    ///
    /// - Parameters:
    ///   - directory: where its files are to be.
    ///   - name: of the database.
    ///   - batch: the rows.
    public static func create(
        _ directory: String, named name: String = defaultName, holding batch: JournalBatch
    ) throws(StoreError) {
        let files = StoreFiles(directory: directory, name: name)
        for file in [files.database, files.log] where DiskFile.size(file) != nil { throw .exists(path: file) }
        try DiskFile.createDirectory(directory)
        let mark = try StoreMark(files.mark)
        switch try mark.read() {
        case .empty: break
        case .slot(let slot) where slot.commitNumber == 0: break
        case .slot, .damaged: throw .exists(path: files.mark)
        }
        let identity = StoreIdentity(seed: RandomBytes.seed(), createdAt: DiskFile.now())
        let draft = StoreDraft(files: files, identity: identity, commitNumber: 0)
        _ = try draft.write { transaction throws(SQLiteError) in try transaction.commit([batch]) }
        // The mark says 0 until the first broker comes, so that without the database it is no sign of a loss.
        try draft.install(mark, commit: 0)
        try DiskFile.giveToOwner(of: directory, [files.database, files.log, files.mark])
    }
}

extension SQLiteStore {
    /// Whether there is a store with this name in a directory, whole or not.
    public static func exists(in directory: String, named name: String = defaultName) -> Bool {
        access(StoreFiles(directory: directory, name: name).database, F_OK) == 0
    }
}
