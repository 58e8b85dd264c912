internal import BrokerModel
internal import Platform

/// What comes before a store is opened: a new one is made if there is none, a damaged one is repaired if that is asked for.
struct StoreRecovery {
    let files: StoreFiles
    let mark: StoreMark
    let options: StoreOptions
    let log: SQLiteStore.Log

    /// Gives back what a repair could not save.
    func run() throws(StoreError) -> [StoreDamage] {
        let contents = try mark.read()
        if (DiskFile.size(files.database) ?? 0) == 0 {
            let damages = damagesWithoutDatabase(contents)
            if damages.isEmpty {
                try create()
                return []
            }
            guard options.repair else { throw .damaged(path: files.database, damages) }
        }
        guard options.repair else { return [] }
        return try StoreSalvage(files: files, mark: mark, contents: contents, log: log).run()
    }

    /// A mark without a commit is what is left when the making of a store was cut off.
    private func damagesWithoutDatabase(_ contents: StoreMark.Contents) -> [StoreDamage] {
        var damages: [StoreDamage] = []
        switch contents {
        case .empty: break
        case .slot(let slot):
            if slot.commitNumber > 0 {
                damages.append(StoreDamage(file: "\(files.name) is missing, and had \(slot.commitNumber) commits"))
            }
        case .damaged: damages.append(StoreDamage(file: "\(files.name) is missing, and its mark is damaged"))
        }
        if (DiskFile.size(files.log) ?? 0) > 0 {
            damages.append(StoreDamage(file: "\(files.name) is missing, and its log \(files.name)-wal is not"))
        }
        return damages
    }

    private func create() throws(StoreError) {
        let identity = StoreIdentity(seed: RandomBytes.seed(), createdAt: DiskFile.now())
        let draft = StoreDraft(files: files, identity: identity, commitNumber: 0)
        try draft.install(mark, commit: try draft.write())
        log(.notice, "A new store was made: \(files.database)")
    }
}
