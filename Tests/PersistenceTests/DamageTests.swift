import CSQLite
import Glibc
import RowStore
import Testing

@testable import BrokerModel
@testable import Persistence

/// Damage of one kind at a time, and what is said of it.
@Suite(.timeLimit(.minutes(10))) struct DamageTests {
    private let home: StoreHome
    private let rows = (1...300).map { StoreRow(.entry, UInt64($0) << 8, StoreRow.body(UInt64($0), count: 100)) }

    init() throws { home = try StoreHome() }

    @Test func `a record whose bytes changed is named, and lost alone`() throws {
        try fill()
        try home.execute("UPDATE entry SET body = x'00' WHERE key = 512")
        var store = try home.open()
        let damages = store.load { _, _, _ in true }
        #expect(damages.map(\.description) == ["entry 512: the record is damaged"])
        #expect(
            "\(store.refusal(damages))" == """
                \(home.path)/martlet.db is damaged; the broker does not start with a part of it unless it is told to.
                  entry 512: the record is damaged
                To go on with what is intact, start the broker once with --repair: it keeps a copy of the damaged files
                """)
        store.close()
        store = try home.open(StoreOptions(repair: true))
        #expect(store.losses == damages)
        #expect(store.allRows() == rows.filter { $0.key != 512 })
        store.close()
        let aside = try #require(StoreHome.names(in: home.path).first { $0.contains(".damaged-") })
        #expect(StoreHome.names(in: "\(home.path)/\(aside)").contains("martlet.db"))
        #expect(try home.open().allRows().count == 299)
    }

    @Test func `a disk that does not give a table back is told apart from one that gives back something else`() throws {
        let failing = StoreDamage(
            .retained, .unreadable(SQLiteError(code: SQLITE_IOERR, systemError: EIO, message: "disk I/O error")))
        let other = StoreDamage(
            .retained, .unreadable(SQLiteError(code: SQLITE_CORRUPT, message: "database disk image is malformed")))
        let advice = "The disk could not be read: check the disk first, or start again; the data may still be intact\n"
        #expect("\(StoreError.damaged(path: "db", [other, failing]))".contains(advice))
        #expect(!"\(StoreError.damaged(path: "db", [other]))".contains(advice))
    }

    @Test(arguments: [
        ("DELETE FROM entry WHERE key = 512", "entry: 1 record is missing"),
        ("UPDATE entry SET key = 5 WHERE key = 512", "entry 5: the record is damaged"),
        ("INSERT INTO message SELECT * FROM entry WHERE key = 512", "message 512: the record is damaged"),
        ("UPDATE entry SET checksum = 1 WHERE key = 512", "entry 512: the record is damaged"),
        ("DELETE FROM meta WHERE key = 2", "martlet.db: the record of which store it is is damaged"),
        ("DROP TABLE flow", "martlet.db: the tables are not those of a store"),
        ("PRAGMA application_id = 3", "martlet.db: its application_id is 3 in place of 1299346508"),
        ("PRAGMA user_version = 7", "martlet.db: its user_version is 7 in place of 3"),
    ])
    func `what changed behind the broker's back is found`(change: String, expected: String) throws {
        try fill()
        try home.execute(change)
        let damages = home.damages()
        #expect(damages.contains(expected), "\(damages)")
        #expect(try SQLiteStore.check(home.path).damages.map(\.description) == damages)
        let store = try home.open(StoreOptions(repair: true))
        #expect(!store.losses.isEmpty)
        #expect(Set(store.allRows()).isSubset(of: rows))
        try store.run([])
        #expect(home.damages().isEmpty)
    }

    @Test func `an old row in a new one's place is found`() throws {
        let old = StoreRow(.session, 1, [1, 2, 3])
        try home.open().run([[(.insert, old)], [(.update, StoreRow(.session, 1, [4, 5, 6]))]])
        let checksum = old.body.withUnsafeBytes { Int64(bitPattern: RowChecksum.of($0, .session, key: 1)) }
        try home.execute("UPDATE session SET body = x'010203', checksum = \(checksum)")
        #expect(home.damages() == ["session: the records are not those of the last commit"])
    }

    /// Up to which commit the store's mark goes.
    private func markedCommit() throws -> UInt64 {
        guard case .slot(let slot) = try CommitRecord.read("\(home.path)/martlet.db-mark") else { return 0 }
        return slot.commitNumber
    }

    @Test func `commits that the disk lost are missed`() throws {
        let store = try home.open()
        let box = ReportBox()
        let before = try markedCommit()
        try store.start(shards: 1) { box.add($0, $1) }
        for sequence in 1...3 {
            store.commit(JournalBatch(through: UInt64(sequence), [(.insert, rows[sequence])]), of: 0)
            #expect(box.wait(for: sequence))
        }
        // The mark follows what is told of a commit.
        while try markedCommit() < before + 3 { usleep(1000) }
        let crashed = try StoreHome()
        for name in ["martlet.db", "martlet.db-mark"] { try DiskFile.copy("\(home.path)/\(name)", to: "\(crashed.path)/\(name)") }
        store.close()
        #expect(throws: StoreError.self) { try crashed.open() }
        do {
            _ = try crashed.open()
        } catch {
            #expect(
                "\(error)".contains("martlet.db: the last 3 commits are missing, with what was acknowledged for them"), "\(error)")
        }
        let repaired = try crashed.open(StoreOptions(repair: true))
        #expect(repaired.allRows().isEmpty)
        #expect(repaired.seed == store.seed)
    }

    @Test(arguments: [20, 5000, 100_000, 200_000], [0, 4, 10, 300, 4000])
    func `a wrong byte in the log costs a page at most, not all that came after`(start: Int, offset: Int) throws {
        let store = try home.open()
        let box = ReportBox()
        try store.start(shards: 1) { box.add($0, $1) }
        for sequence in 0..<30 {
            store.commit(JournalBatch(through: 1, rows[(sequence * 10)..<(sequence * 10 + 10)].map { (.insert, $0) }), of: 0)
            #expect(box.wait(for: sequence + 1))
        }
        let crashed = try StoreHome()
        for name in ["martlet.db", "martlet.db-wal", "martlet.db-mark"] {
            try DiskFile.copy("\(home.path)/\(name)", to: "\(crashed.path)/\(name)")
        }
        store.close()
        let position = start < 32 ? start : (start / 4120) * 4120 + 32 + offset
        let descriptor = open(crashed.files.log, O_RDWR)
        var byte: UInt8 = 0
        try #require(pread(descriptor, &byte, 1, off_t(position)) == 1)
        byte ^= 0x21
        try #require(pwrite(descriptor, &byte, 1, off_t(position)) == 1)
        close(descriptor)
        #expect(throws: StoreError.self) { try crashed.open() }
        let repaired = try crashed.open(StoreOptions(repair: true))
        let saved = repaired.allRows()
        #expect(Set(rows).isSuperset(of: saved))
        #expect(saved.count >= 260, "\(saved.count) at \(position): \(repaired.losses)")
    }

    @Test func `files that are missing are damage, but for all of them`() throws {
        try fill()
        for name in ["martlet.db-mark", "martlet.db"] {
            let partial = try StoreHome()
            for other in ["martlet.db-mark", "martlet.db"] where other != name {
                try DiskFile.copy("\(home.path)/\(other)", to: "\(partial.path)/\(other)")
            }
            #expect(throws: StoreError.self, "\(name)") { try partial.open() }
            let repaired = try partial.open(StoreOptions(repair: true))
            #expect(repaired.losses.count > 0)
            #expect(repaired.allRows() == (name == "martlet.db" ? [] : rows))
        }
    }

    @Test func `a store that a later broker wrote is left alone`() throws {
        try fill()
        let body: [UInt8] = [9, 0, 0, 0, 1]
        let checksum = body.withUnsafeBytes { Int64(bitPattern: RowChecksum.of($0, tableNumber: MetaTable.number, key: 1)) }
        try home.execute("UPDATE meta SET body = x'0900000001', checksum = \(checksum) WHERE key = 1; PRAGMA user_version = 9")
        for repair in [false, true] {
            do {
                _ = try home.open(StoreOptions(repair: repair))
                Issue.record("opened")
            } catch {
                let complaint = "has version 9, which a later Martlet wrote; this Martlet reads version 3. Start the later one"
                #expect("\(error)".hasSuffix(complaint), "\(error)")
            }
        }
    }

    @Test func `a record that means nothing to the core goes when the store is repaired`() throws {
        try fill()
        var store = try home.open()
        #expect(store.load { _, key, _ in key != 256 }.count == 1)
        store.close()
        store = try home.open(StoreOptions(repair: true))
        #expect(store.losses.isEmpty)
        #expect(store.load { _, key, _ in key != 256 }.map(\.description) == ["entry 256: the record cannot be understood"])
        try store.run([])
        #expect(try home.open().allRows().count == 299)
    }

    private func fill() throws { try home.open().run([rows.map { (.insert, $0) }]) }
}
