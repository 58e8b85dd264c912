public import BrokerModel
internal import SQLite

extension SQLiteStore {
    /// Reads a whole store, at one commit, while a broker may work with it; nothing is changed.
    ///
    /// - Parameters:
    ///   - directory: where the store is.
    ///   - name: of its database.
    ///   - visit: given each record that is right, by table and key; false if it means nothing.
    public static func check(
        _ directory: String, named name: String = defaultName,
        _ visit: (_ table: StoreTable, _ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool = { _, _, _ in true }
    ) throws(StoreError) -> StoreSummary {
        let files = StoreFiles(directory: directory, name: name)
        guard (DiskFile.size(files.database) ?? 0) > 0 else { throw .absent(path: files.database) }
        let inspection = try StoreInspection(files, .read, mark: try StoreMark.read(files.mark) ?? .empty)
        defer { inspection.end() }
        return StoreSummary(inspection, visit)
    }

    /// Copies a store, as its last commit left it, into a directory that has none, while a broker may work with it. The directory is made if
    /// it is not there.
    ///
    /// Throws `damaged` when what was copied is not whole; the copy is there then all the same.
    ///
    /// - Parameters:
    ///   - directory: where the store is.
    ///   - name: of its database, and of the copy's.
    ///   - target: the copy's directory.
    public static func backup(
        _ directory: String, named name: String = defaultName, to target: String
    ) throws(StoreError) -> StoreSummary {
        try StoreCopy(
            source: StoreFiles(directory: directory, name: name), target: StoreFiles(directory: target, name: name)
        ).make()
    }
}
