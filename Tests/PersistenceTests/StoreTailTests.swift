import Glibc
import RowStore
import Testing

@testable import BrokerModel
@testable import Persistence

/// Entries that were committed one by one, without the state: each counts as one commit, and has to be there.
@Suite struct StoreTailTests {
    private let home: StoreHome
    private let head = (1...300).map { StoreRow(.entry, UInt64($0) << 8, StoreRow.body(UInt64($0), count: 100)) }

    init() throws { home = try StoreHome() }

    @Test func `new entries one by one write the state with the first commit and every 64th`() throws {
        try fill(tail: 200)
        // The head's commit writes it, then 63 do not.
        #expect(try writtenCommit() == 1 + 3 * 64)
        let summary = try SQLiteStore.check(home.path)
        #expect(summary.damages.isEmpty)
        #expect(summary.commitNumber == 201)
        #expect(summary.count(of: .entry) == 500)
        #expect(try home.open().allRows() == head + tail(200))
    }

    @Test(
        arguments: [
            [(.insert, StoreRow(.entry, 250 << 8 | 1, [1]))],
            [(.insert, StoreRow(.message, 900 << 8, [1]))],
            [(.insert, StoreRow(.entry, 900 << 8, [1])), (.insert, StoreRow(.entry, 901 << 8, [1]))],
            [(.delete, StoreRow(.entry, 300 << 8, []))],
        ] as [[(JournalRecord.Operation, StoreRow)]])
    func `any other commit writes the state`(changes: [(JournalRecord.Operation, StoreRow)]) throws {
        try fill(tail: 5)
        try home.open().run([[(.insert, StoreRow(.entry, 800 << 8, [0]))], [(.insert, StoreRow(.entry, 801 << 8, [0]))], changes])
        #expect(try writtenCommit() == 9)
        #expect(try SQLiteStore.check(home.path).commitNumber == 9)
    }

    @Test func `what goes out of the tail is known to be gone`() throws {
        let steps = tail(20).map { [(JournalRecord.Operation.insert, $0)] }
        try home.open().run(
            [head.map { (.insert, $0) }] + steps + [tail(10).map { (.delete, $0) }, [(.insert, StoreRow(.entry, 900 << 8, [1]))]])
        #expect(try writtenCommit() == 22)
        #expect(try SQLiteStore.check(home.path).commitNumber == 23)
        #expect(try home.open().allRows() == head + tail(20).dropFirst(10) + [StoreRow(.entry, 900 << 8, [1])])
        // And does not come back unnoticed.
        try home.execute("INSERT INTO entry SELECT \(301 << 8), checksum, body FROM entry WHERE key = \(311 << 8)")
        #expect(
            home.damages() == ["entry \(301 << 8): the record is damaged", "entry: the records are not those of the last commit"])
    }

    @Test(arguments: [
        ("DELETE FROM entry WHERE key = 81920", ["martlet.db: the last commit is missing, with what was acknowledged for them"]),
        (
            "DELETE FROM entry WHERE key > 80896",
            ["martlet.db: the last 4 commits are missing, with what was acknowledged for them"]
        ),
        ("DELETE FROM entry WHERE key = 512", ["entry: 1 record is missing"]),
        ("UPDATE entry SET body = x'00' WHERE key = 81920", ["entry 81920: the record is damaged"]),
        ("UPDATE entry SET checksum = 1 WHERE key = 81920", ["entry 81920: the record is damaged"]),
        (
            "UPDATE entry SET key = 513 WHERE key = 81920",
            [
                "martlet.db: the last commit is missing, with what was acknowledged for them", "entry 513: the record is damaged",
                "entry: the records are not those of the last commit",
            ]
        ),
    ])
    func `damage of the tail, or before it, is found`(change: String, expected: [String]) throws {
        try fill(tail: 20)
        try home.execute(change)
        #expect(home.damages() == expected)
        let store = try home.open(StoreOptions(repair: true))
        #expect(!store.losses.isEmpty)
        #expect(Set(store.allRows()).isSubset(of: head + tail(20)))
        try store.run([])
        #expect(home.damages() == [])
    }

    @Test func `numbers go on where they were, so that a tail is one after a start too`() throws {
        try fill(tail: 20)
        try home.open().run([(head + tail(20)).map { (.delete, $0) }])
        #expect(try home.open().highestKeys() == [.entry: 320 << 8])
    }

    @Test func `a copy has the tail`() throws {
        try fill(tail: 20)
        let copy = try StoreHome()
        #expect(try SQLiteStore.backup(home.path, to: copy.path).commitNumber == 21)
        #expect(try copy.open().allRows() == head + tail(20))
    }

    @Test(arguments: [UInt8(1), 2])
    func `a store of a build before the first release is refused and left alone`(version: UInt8) throws {
        try fill(tail: 3)
        let connection = try SQLiteConnection(home.files.database, .write)
        let meta = try MetaTable(connection)
        let body = try #require(try meta.read(.state) { Array($0) })
        try meta.update(.state, [version] + body[1...])
        try connection.execute("PRAGMA user_version = \(version)")
        let complaint =
            "\(home.path)/martlet.db has version \(version), which only builds before the first release wrote; this Martlet reads version 3. "
            + "Move \(home.path)/martlet.db and the files beside it whose names begin so away, to begin with an empty store"
        for repair in [false, true] {
            let error = #expect(throws: StoreError.self) { _ = try home.open(StoreOptions(repair: repair)) }
            #expect(error?.description == complaint)
        }
        #expect(throws: StoreError.self) { _ = try SQLiteStore.check(home.path) }
        #expect(try connection.integer("SELECT count(*) FROM entry") == 303)
        // The advice, followed.
        for file in [home.files.database, home.files.log, home.files.sharedMemory, home.files.commitRecord] {
            rename(file, file + ".old")
        }
        #expect(throws: Never.self) { _ = try home.open() }
    }

    @Test func `a store that says version 2 where its state does not is damaged`() throws {
        try fill(tail: 0)
        try home.execute("PRAGMA user_version = 2")
        #expect(home.damages() == ["martlet.db: its user_version is 2 in place of 3"])
    }

    /// Entries beyond the head's.
    private func tail(_ count: Int) -> [StoreRow] {
        (0..<count).map { StoreRow(.entry, UInt64(301 + $0) << 8, StoreRow.body(UInt64(301 + $0), count: 60)) }
    }

    private func fill(tail count: Int) throws {
        try home.open().run([head.map { (.insert, $0) }] + tail(count).map { [(.insert, $0)] })
    }

    /// The commit that the state was written with.
    private func writtenCommit() throws -> UInt64? {
        try MetaTable(SQLiteConnection(home.files.database, .read)).read(.state) { StoreState(decoding: $0) }?.commitNumber
    }
}
