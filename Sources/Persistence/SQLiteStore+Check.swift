public import BrokerCore
internal import SQLite

extension SQLiteStore {
    /// Reads a whole store, at one commit, while a broker may work with it; nothing is changed.
    ///
    /// - Parameters:
    ///   - directory: where the store is.
    ///   - visit: given each record that is right, by table and key; false if it means nothing.
    public static func check(
        _ directory: String,
        _ visit: (_ table: StoreTable, _ key: UInt64, _ body: UnsafeRawBufferPointer) -> Bool = { _, _, _ in true }
    ) throws(StoreError) -> StoreSummary {
        let files = StoreFiles(directory: directory)
        guard (DiskFile.size(files.database) ?? 0) > 0 else { throw .absent(path: files.database) }
        let inspection = try StoreInspection(files, .read, mark: try StoreMark.read(files.mark) ?? .empty)
        defer { inspection.end() }
        return StoreSummary(inspection, visit)
    }

    /// Copies a store, as its last commit left it, into a directory that has none, while a broker may work with it. The directory is made if
    /// it is not there.
    ///
    /// Throws `damaged` when what was copied is not whole; the copy is there then all the same.
    public static func backup(_ directory: String, to target: String) throws(StoreError) -> StoreSummary {
        try StoreCopy(source: StoreFiles(directory: directory), target: StoreFiles(directory: target)).make()
    }
}
