internal import CSQLite
internal import SQLite

/// A copy of a store that a broker may be working with, as its last commit left it.
struct StoreCopy {
    let source: StoreFiles
    let target: StoreFiles

    /// Makes the copy and checks it.
    func make() throws(StoreError) -> StoreSummary {
        guard (DiskFile.size(source.database) ?? 0) > 0 else { throw .absent(path: source.database) }
        // Read first, so that it is not ahead of what is copied.
        let marked = try StoreMark.read(source.mark) ?? .empty
        try DiskFile.createDirectory(target.directory)
        let mark = try StoreMark(target.mark)
        for path in [target.database, target.log] where DiskFile.size(path) != nil { throw .exists(path: path) }
        try DiskFile.create(target.draft)
        do throws(SQLiteError) {
            try copyPages()
        } catch {
            throw .sqlite(error)
        }
        try DiskFile.synchronize(target.draft)
        try DiskFile.rename(target.draft, to: target.database)
        let summary = try check(marked, mark)
        // Empty: they were made for the check.
        for rest in [target.log, target.sharedMemory] { try DiskFile.remove(rest) }
        try DiskFile.synchronize(target.directory)
        guard summary.damages.isEmpty else { throw .damaged(path: target.database, summary.damages) }
        return summary
    }

    /// Looks at the copy as if the source's mark were its own, then gives it a mark.
    private func check(_ marked: StoreMark.Contents, _ mark: StoreMark) throws(StoreError) -> StoreSummary {
        let inspection = try StoreInspection(target, .read, mark: marked)
        defer { inspection.end() }
        if let identity = inspection.identity, let state = inspection.state {
            try mark.reset(MarkSlot(seed: identity.seed, commitNumber: state.commitNumber))
        }
        return StoreSummary(inspection) { _, _, _ in true }
    }

    private func copyPages() throws(SQLiteError) {
        let from = try SQLiteConnection(source.database, .read)
        let to = try SQLiteConnection(target.draft, .write)
        guard let backup = sqlite3_backup_init(to.handle, "main", from.handle, "main") else {
            throw SQLiteError(to.handle, code: sqlite3_errcode(to.handle))
        }
        // All pages in one step: so they are of one commit.
        let code = sqlite3_backup_step(backup, -1)
        sqlite3_backup_finish(backup)
        guard code == SQLITE_DONE else { throw SQLiteError(to.handle, code: code) }
    }
}
