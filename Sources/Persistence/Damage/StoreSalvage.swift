internal import BrokerModel
internal import Platform
internal import SQLite

/// Makes a new store of what is intact in a damaged one, after a copy of the damaged files is kept.
struct StoreSalvage {
    let files: StoreFiles
    let mark: StoreMark
    /// What the mark says.
    let contents: StoreMark.Contents
    let log: SQLiteStore.Log

    /// Gives back what is lost; a store that is well is left as it is.
    func run() throws(StoreError) -> [StoreDamage] {
        let (found, missingCommits) = try findDamage()
        if found.isEmpty { return [] }
        let aside = try DamagedFiles(files: files).keep()
        log(.warning, "The store is damaged and is being repaired; the damaged files are kept in \(aside)")
        try LogRepair(files: files, missingCommits: missingCommits).run()
        try FirstPage(files: files).restore()
        let losses = found + (try rebuild()).filter { !found.contains($0) }
        for loss in losses { log(.error, "Repair of the store: \(loss)") }
        return losses
    }

    /// What is wrong with the store's files as they are, or else with its rows; and how many commits that were acknowledged are not reached.
    private func findDamage() throws(StoreError) -> (damages: [StoreDamage], missingCommits: UInt64) {
        if (DiskFile.size(files.database) ?? 0) == 0 { return ([StoreDamage(file: "\(files.name) is missing or empty")], 0) }
        let inspection = try StoreInspection(files, .write, mark: contents)
        defer { inspection.end() }
        return (StoreSummary(inspection) { _, _, _ in true }.damages, inspection.missingCommits)
    }

    /// Writes every row that can be read and is right into a new store, and puts that in the old one's place; gives back what is lost.
    private func rebuild() throws(StoreError) -> [StoreDamage] {
        let inspection = try StoreInspection(files, .write, mark: contents)
        defer { inspection.end() }
        var marked: MarkSlot?
        if case .slot(let slot) = contents { marked = slot }
        let identity = inspection.identity ?? StoreIdentity(seed: marked?.seed ?? RandomBytes.seed(), createdAt: DiskFile.now())
        let lastCommit = max(inspection.state?.commitNumber ?? 0, marked?.commitNumber ?? 0)
        let draft = StoreDraft(files: files, identity: identity, commitNumber: lastCommit + 1)
        var losses: [StoreDamage] = []
        let commit = try draft.write { transaction throws(SQLiteError) in
            try transaction.commit { () throws(SQLiteError) in losses = try copyRows(of: inspection, to: transaction) }
        }
        try draft.install(mark, commit: commit)
        if inspection.identity == nil, marked == nil {
            losses.append(StoreDamage(file: "the store's seed is lost, and is a new one"))
        }
        return losses
    }

    private func copyRows(
        of inspection: StoreInspection, to transaction: StoreTransaction
    ) throws(SQLiteError) -> [StoreDamage] {
        var failure: SQLiteError?
        let loader = StoreLoader(inspection.connection, inspection.state) { table, key, body in
            guard failure == nil else { return true }
            do throws(SQLiteError) {
                try transaction.apply(JournalRecord(.insert, table, key: key, body: body))
                // The body goes with the next step of the loader.
                try transaction.flush()
            } catch {
                failure = error
            }
            return true
        }
        if let failure { throw failure }
        return loader.damages
    }
}
