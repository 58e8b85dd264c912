import Glibc
import Testing

@testable import BrokerModel
@testable import Persistence

@Suite(.timeLimit(.minutes(10))) struct BackupTests {
    private let home: StoreHome
    private let rows = (1...500).map { StoreRow(.entry, UInt64($0) << 8, StoreRow.body(UInt64($0), count: $0)) }

    init() throws { home = try StoreHome() }

    @Test func `a store is checked and copied while a broker works with it`() throws {
        let store = try home.open()
        let box = ReportBox()
        try store.start(shards: 1) { box.add($0, $1) }
        store.commit(JournalBatch(through: 1, rows.map { (.insert, $0) }), of: 0)
        #expect(box.wait(for: 1))
        let summary = try SQLiteStore.check(home.path)
        #expect(summary.damages.isEmpty, "\(summary.damages)")
        #expect(summary.count(of: .entry) == 500)
        #expect(summary.count(of: .session) == 0)
        let copy = "\(home.path)/copy"
        #expect(try SQLiteStore.backup(home.path, to: copy).commitNumber == summary.commitNumber)
        // The broker goes on, and the copy stays as it is.
        store.commit(JournalBatch(through: 2, [(.delete, StoreRow(.entry, 256, []))]), of: 0)
        #expect(box.wait(for: 2))
        store.close()
        #expect(StoreHome.names(in: copy) == ["martlet.db", "martlet.db-mark"])
        let copied = try SQLiteStore.open(copy) { _, _ in }
        #expect(copied.allRows() == rows)
        #expect(copied.seed == store.seed)
        #expect(try home.open().allRows() == Array(rows.dropFirst()))
    }

    @Test func `a copy never takes the place of a store`() throws {
        try home.open().run([])
        let copy = "\(home.path)/copy"
        _ = try SQLiteStore.backup(home.path, to: copy)
        #expect(throws: StoreError.self) { try SQLiteStore.backup(home.path, to: copy) }
        #expect(throws: StoreError.self) { try SQLiteStore.check("\(home.path)/nowhere") }
        #expect(throws: StoreError.self) { try SQLiteStore.backup("\(home.path)/nowhere", to: "\(home.path)/other") }
    }

    @Test func `a check tells every record and what is wrong, and changes nothing`() throws {
        try home.open().run([rows.map { (.insert, $0) }])
        var keys: [UInt64] = []
        let summary = try SQLiteStore.check(home.path) { table, key, _ in
            keys.append(key)
            return key != 512
        }
        #expect(keys == rows.map(\.key))
        #expect(summary.damages.map(\.description) == ["entry 512: the record cannot be understood"])
        #expect(try home.open().allRows() == rows)
    }
}
