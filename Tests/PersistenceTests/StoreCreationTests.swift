import BrokerModel
import Glibc
import Testing

@testable import Persistence

@Suite struct StoreCreationTests {
    private let home: StoreHome

    init() throws { home = try StoreHome() }

    private static let rows = [StoreRow(.session, 256, [1, 2]), StoreRow(.entry, 512, StoreRow.body(3, count: 5000))]

    private static func batch() -> JournalBatch { JournalBatch(through: 0, rows.map { (.insert, $0) }) }

    @Test func `a store is made with its rows, in a directory that is made for it`() throws {
        let directory = home.path + "/new"
        try SQLiteStore.create(directory, holding: Self.batch())
        #expect(StoreHome.names(in: directory) == ["martlet.db", "martlet.db-mark"])
        let store = try SQLiteStore.open(directory) { _, _ in }
        #expect(store.allRows() == Self.rows)
        try store.run([[(.delete, StoreRow(.session, 256, []))]])
        #expect(try SQLiteStore.open(directory) { _, _ in }.allRows() == [Self.rows[1]])
    }

    @Test(arguments: ["/a", "/a/"]) func `a directory may be named with a slash at its end`(directory: String) {
        #expect(StoreFiles(directory: directory).database == "/a/martlet.db")
    }

    @Test func `a store that is there stays as it is`() throws {
        let row = StoreRow(.flow, 256, [9])
        try home.open().run([[(.insert, row)]])
        #expect(throws: StoreError.self) { try SQLiteStore.create(home.path, holding: Self.batch()) }
        #expect(try home.open().allRows() == [row])
    }

    @Test(arguments: ["martlet.db", "martlet.db-wal", "martlet.db-mark"])
    func `what is left of a store is not written over`(name: String) throws {
        let store = try home.open()
        try store.run([[(.insert, Self.rows[0])]])
        let kept = "\(home.path)/\(name)"
        if name == "martlet.db-wal" { close(open(kept, O_CREAT | O_WRONLY, 0o600)) }
        for other in StoreHome.names(in: home.path).map({ "\(home.path)/\($0)" }) where other != kept { remove(other) }
        let error = #expect(throws: StoreError.self) { try SQLiteStore.create(home.path, holding: Self.batch()) }
        #expect(error.map { "\($0)" } == "\(kept) is there already")
    }

    @Test func `a broker that has the directory keeps others out`() throws {
        let commitRecord = try CommitRecord(home.files.commitRecord)
        let error = #expect(throws: StoreError.self) { try SQLiteStore.create(home.path, holding: Self.batch()) }
        #expect(error.map { "\($0)" } == "\(home.files.commitRecord) is in use by another process")
        withExtendedLifetime(commitRecord) {}
    }

    @Test func `a making that was cut off is begun anew`() throws {
        // All but the last step: the mark is there, and the database still has the draft's name.
        try SQLiteStore.create(home.path, holding: Self.batch())
        rename(home.files.database, home.files.draft)
        try SQLiteStore.create(home.path, holding: Self.batch())
        #expect(try home.open().allRows() == Self.rows)
    }

    @Test(.enabled(if: geteuid() == 0, "only root may give files away"))
    func `what root makes in another user's directory is that user's`() throws {
        let home = try StoreHome()
        try #require(chown(home.path, 12_345, 12_346) == 0)
        try SQLiteStore.create(home.path, holding: JournalBatch())
        for file in [home.files.database, home.files.commitRecord] {
            var status = stat()
            #expect(stat(file, &status) == 0)
            #expect(status.st_uid == 12_345 && status.st_gid == 12_346, "\(file)")
        }
    }
}
