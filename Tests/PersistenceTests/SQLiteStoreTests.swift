import Glibc
import Platform
import TestBasics
import Testing

@testable import BrokerModel
@testable import Persistence

@Suite(.timeLimit(.minutes(10))) struct SQLiteStoreTests {
    private let home: StoreHome

    init() throws { home = try StoreHome() }

    @Test func `a new store is empty, its owner's alone, and keeps its seed`() throws {
        let store = try home.open()
        let seed = store.seed
        #expect(store.allRows().isEmpty)
        try store.run([])
        #expect(try home.open().seed == seed)
        for name in StoreHome.names(in: home.path) {
            var status = stat()
            #expect(stat("\(home.path)/\(name)", &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600, "\(name)")
        }
    }

    @Test func `rows of every table and size come back, in the order of recovery`() throws {
        var rows: [StoreRow] = []
        for table in StoreTable.allCases {
            for (index, count) in [0, 1, 3, 150, 240, 241, 4000, 5000, 300_000].enumerated() {
                let key = UInt64(index) << 8 | 1
                rows.append(StoreRow(table, key, StoreRow.body(key, count: count)))
            }
            rows.append(StoreRow(table, UInt64(Int64.max), [1]))
            rows.append(StoreRow(table, 1 << 63, [2]))
            rows.append(StoreRow(table, .max, [3]))
        }
        try home.open().run([rows.shuffled().map { (.insert, $0) }])
        #expect(try home.open().allRows() == rows.sorted())
    }

    @Test func `changes of one key keep their order within a batch`() throws {
        let keys = (1...40).map { UInt64($0) << 8 }
        func row(_ key: UInt64, _ byte: UInt8) -> StoreRow { StoreRow(.flow, key, [byte]) }
        var changes: [(JournalRecord.Operation, StoreRow)] = []
        for key in keys { changes += [(.insert, row(key, 1)), (.update, row(key, 2)), (.update, row(key, 3))] }
        // Gone, and back again.
        for key in keys.prefix(20) { changes += [(.delete, row(key, 0)), (.insert, row(key, 4))] }
        // Gone for good, some twice.
        for key in keys.prefix(10) { changes += [(.delete, row(key, 0)), (.delete, row(key, 0))] }
        try home.open().run([changes])
        let expected = keys[10..<20].map { row($0, 4) } + keys[20...].map { row($0, 3) }
        #expect(try home.open().allRows() == expected)
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func `thousands of random changes agree with a dictionary`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var oracle: [StoreRow: [UInt8]] = [:]
        func place(_ row: StoreRow) -> StoreRow { StoreRow(row.table, row.key, []) }
        for _ in 0..<4 {
            var batches: [[(JournalRecord.Operation, StoreRow)]] = []
            for _ in 0..<10 {
                var changes: [(JournalRecord.Operation, StoreRow)] = []
                for _ in 0..<Int.random(in: 0...300, using: &random) {
                    let table = StoreTable.allCases.randomElement(using: &random) ?? .entry
                    let key = UInt64.random(in: 1...60, using: &random) << 8 | UInt64.random(in: 0...1, using: &random)
                    let row = StoreRow(
                        table, key, StoreRow.body(.random(in: 0...99, using: &random), count: .random(in: 0...200, using: &random)))
                    if Int.random(in: 0...2, using: &random) == 0 {
                        changes.append((.delete, place(row)))
                        oracle[place(row)] = nil
                    } else {
                        changes.append((oracle.updateValue(row.body, forKey: place(row)) == nil ? .insert : .update, row))
                    }
                }
                batches.append(changes)
            }
            try home.open().run(batches)
            #expect(try home.open().allRows() == oracle.map { StoreRow($0.key.table, $0.key.key, $0.value) }.sorted())
        }
    }

    @Test func `batches of many shards are all committed, each shard's in order`() throws {
        let store = try home.open()
        let box = ReportBox()
        try store.start(shards: 4) { box.add($0, $1) }
        for sequence in 1...25 {
            for shard in 0..<4 {
                let key = UInt64(sequence) << 8 | UInt64(shard)
                store.commit(JournalBatch(through: UInt64(sequence), [(.insert, StoreRow(.entry, key, [UInt8(shard)]))]), of: shard)
            }
        }
        #expect(box.wait(for: 100))
        for shard in 0..<4 {
            #expect(box.words.filter { $0.hasPrefix("\(shard) ") } == (1...25).map { "\(shard) committed \($0)" })
        }
        store.close()
        #expect(try home.open().allRows().count == 100)
    }

    @Test func `what waits at the end is committed`() throws {
        let store = try home.open()
        try store.start(shards: 1) { _, _ in }
        for sequence in 1...50 {
            store.commit(JournalBatch(through: UInt64(sequence), [(.insert, StoreRow(.message, UInt64(sequence), [1]))]), of: 0)
        }
        store.close()
        #expect(try home.open().allRows().count == 50)
    }

    @Test func `rows are read one by one, and those that are not there are nothing`() throws {
        let store = try home.open()
        let box = ReportBox()
        try store.start(shards: 2) { box.add($0, $1) }
        store.commit(
            JournalBatch(through: 1, [(.insert, StoreRow(.entry, 257, [1, 2])), (.insert, StoreRow(.message, 9, []))]), of: 1)
        #expect(box.wait(for: 1))
        let rows = [StoreRequest.Row(.entry, key: 257), .init(.entry, key: 258), .init(.message, key: 9)]
        store.read(StoreRequest(sessionIndex: 7, sessionKey: 8, entries: [], rows: rows), for: 1)
        #expect(box.wait(for: 2))
        #expect(box.words == ["1 committed 1", "1 rows"])
        #expect(box.answers.first?.bodies == [[1, 2], nil, []])
        #expect(box.answers.first?.request.sessionIndex == 7)
        store.close()
    }

    @Test func `a second broker is kept out until the first one ends`() throws {
        var first: SQLiteStore? = try home.open()
        #expect(throws: StoreError.self) { try home.open() }
        do {
            _ = try home.open(StoreOptions(repair: true))
        } catch {
            #expect("\(error)" == "\(home.path)/martlet.db-mark is in use by another process")
        }
        try first?.run([])
        first = nil
        _ = try home.open()
    }

    @Test func `a change of a row that is not there fails the store`() throws {
        let store = try home.open()
        let box = ReportBox()
        try store.start(shards: 2) { box.add($0, $1) }
        store.commit(JournalBatch(through: 1, [(.update, StoreRow(.session, 1, [1]))]), of: 0)
        #expect(box.wait(for: 2))
        #expect(box.words == ["0 failed", "1 failed"])
        store.commit(JournalBatch(through: 2, [(.insert, StoreRow(.session, 1, [1]))]), of: 0)
        store.close()
        #expect(box.words.count == 2)
        #expect(try home.open().allRows().isEmpty)
    }
}
