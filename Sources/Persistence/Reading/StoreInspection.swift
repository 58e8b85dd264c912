internal import BrokerModel
internal import CSQLite
internal import SQLite

/// Looks at a store as a whole: whether its files, its schema and its state are what they should be. Its rows are `StoreLoader`'s.
///
/// The connection stays in a read transaction until `end`, so that all is seen at one commit, though a broker works on.
final class StoreInspection {
    let connection: SQLiteConnection
    private(set) var identity: StoreIdentity?
    /// With the store's tail.
    private(set) var state: StoreState?
    /// The version of whoever wrote it.
    private(set) var version: UInt32?
    private(set) var damages: [StoreDamage] = []
    /// How many commits the mark knows of and the database does not.
    private(set) var missingCommits: UInt64 = 0
    private let files: StoreFiles

    /// - Parameter mark: as it was read before the database is, which may only be ahead of it.
    init(_ files: StoreFiles, _ access: SQLiteConnection.Access, mark: StoreMark.Contents) throws(StoreError) {
        self.files = files
        do throws(SQLiteError) {
            connection = try SQLiteConnection(files.database, access)
        } catch {
            throw .sqlite(error)
        }
        try attempt { () throws(SQLiteError) in
            try StoreSchema.configure(connection)
            try connection.execute("BEGIN")
            try inspectHeader()
        }
        try attempt { () throws(SQLiteError) in try inspectMeta() }
        if let version, version > StoreSchema.version { throw .newer(path: files.database, version: version) }
        try attempt { () throws(SQLiteError) in try inspectVersion() }
        try attempt { () throws(SQLiteError) in try addTail() }
        if access == .write { try attempt { () throws(SQLiteError) in try inspectWriting() } }
        compare(with: mark)
        try attempt { () throws(SQLiteError) in try inspectStructure() }
    }

    /// Lets the store go on beside.
    func end() {
        if connection.isInTransaction { try? connection.execute("COMMIT") }
    }

    private func complain(_ text: String) { damages.append(StoreDamage(file: "\(files.name)\(text)")) }

    /// Runs a part; damage that stops it is one more finding, any other error is thrown.
    @discardableResult
    private func attempt<Answer>(_ body: () throws(SQLiteError) -> Answer) throws(StoreError) -> Answer? {
        do throws(SQLiteError) {
            return try body()
        } catch {
            guard error.isDamage else { throw .sqlite(error) }
            complain(": \(error)")
            return nil
        }
    }

    private func inspectHeader() throws(SQLiteError) {
        if try !StoreSchema.isRight(connection) { complain(": the tables are not those of a store") }
        let values: [(String, Int64)] = [
            ("page_size", StoreSchema.pageSize), ("auto_vacuum", 0), ("application_id", StoreSchema.applicationID),
        ]
        for (name, expected) in values {
            let found = try connection.integer("PRAGMA \(name)")
            if found != expected { complain(": its \(name) is \(found) in place of \(expected)") }
        }
        for (name, expected) in [("journal_mode", "wal"), ("encoding", "UTF-8")] {
            let found = try connection.texts("PRAGMA \(name)").first ?? ""
            if found != expected { complain(": its \(name) is \(found) in place of \(expected)") }
        }
        if sqlite_reserved_bytes(connection.handle) != 0 { complain(": its pages are not used in full") }
    }

    /// Reads what the store knows of itself.
    private func inspectMeta() throws(SQLiteError) {
        let meta = try MetaTable(connection)
        version = try meta.read(.state) { StoreState.version(of: $0) }
        state = try meta.read(.state) { StoreState(decoding: $0) }
        identity = try meta.read(.identity) { StoreIdentity(decoding: $0) }
        if state == nil { complain(": the record of how much it holds is damaged; it cannot be said what is missing") }
        if identity == nil { complain(": the record of which store it is is damaged") }
    }

    private func inspectVersion() throws(SQLiteError) {
        let found = try connection.integer("PRAGMA user_version")
        let expected = Int64(version ?? StoreSchema.version)
        if found != expected { complain(": its user_version is \(found) in place of \(expected)") }
    }

    /// Takes in the entries that were committed after the state was written.
    private func addTail() throws(SQLiteError) {
        guard let last = state?.lastEntry else { return }
        let tail = try connection.prepare("SELECT checksum FROM entry WHERE key > ?1")
        tail.bind(last, at: 1)
        while try tail.step() { state?.add(tailEntry: tail.bits(0)) }
    }

    /// A damaged header can forbid every change, and nothing else tells of it.
    private func inspectWriting() throws(SQLiteError) {
        guard sqlite3_db_readonly(connection.handle, "main") == 1 else { return }
        guard DiskFile.isWritable(files.database) else {
            throw SQLiteError(code: SQLITE_READONLY, message: "\(files.database) cannot be written to")
        }
        complain(": its header forbids changes")
    }

    private func compare(with mark: StoreMark.Contents) {
        switch mark {
        case .empty: complain("-mark is missing; it cannot be said what the disk has lost")
        case .damaged: complain("-mark is damaged; it cannot be said what the disk has lost")
        case .slot(let slot):
            if let identity, identity.seed != slot.seed { complain("-mark belongs to another store") }
            guard let state, state.commitNumber < slot.commitNumber else { return }
            missingCommits = slot.commitNumber - state.commitNumber
            let commits = missingCommits == 1 ? "commit is" : "\(missingCommits) commits are"
            complain(": the last \(commits) missing, with what was acknowledged for them")
        }
    }

    private func inspectStructure() throws(SQLiteError) {
        for finding in try connection.texts("PRAGMA quick_check(20)") where finding != "ok" {
            complain(": \(finding.split(separator: "\n").joined(separator: "; "))")
        }
    }
}
