import BrokerCore
import Glibc
import RowStore
import Testing

@testable import BrokerModel
@testable import Persistence

/// A directory for a store, gone at the end.
final class StoreHome: Sendable {
    let path: String

    /// - Parameters:
    ///   - name: part of the directory's name.
    ///   - parent: `/dev/shm` where many files come and go, and no sync is to cost anything.
    init(name: String = "store", under parent: String = "/tmp") throws {
        var template = Array("\(parent)/martlet-\(name)-XXXXXX".utf8CString)
        let made = try #require(mkdtemp(&template))
        path = String(cString: made)
    }

    deinit { Self.remove(path) }

    var files: StoreFiles { StoreFiles(directory: path) }

    func open(_ options: StoreOptions = StoreOptions()) throws(StoreError) -> SQLiteStore {
        try SQLiteStore.open(path, options: options) { _, _ in }
    }

    /// The names in a directory, in order.
    static func names(in path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    static func remove(_ path: String) {
        for name in names(in: path) { remove("\(path)/\(name)") }
        Glibc.remove(path)
    }
}

extension StoreHome {
    /// What is wrong with the store, as the operator reads it.
    func damages() -> [String] {
        do {
            let store = try open()
            return store.load { _, _, _ in true }.map(\.description)
        } catch {
            guard case .damaged(_, let damages) = error else { return ["\(error)"] }
            return damages.map(\.description)
        }
    }

    /// Changes the database behind the broker's back.
    func execute(_ sql: String) throws {
        let connection = try SQLiteConnection(files.database, .write)
        try connection.execute(sql)
    }
}

extension SQLiteStore {
    /// Every row, in the order in which it is loaded; fails the test on damage.
    func allRows() -> [StoreRow] {
        var rows: [StoreRow] = []
        let damages = load { table, key, body in
            rows.append(StoreRow(table, key, Array(body)))
            return true
        }
        #expect(damages.isEmpty, "\(damages)")
        return rows
    }

    /// Starts, commits one batch after another for shard 0, and closes.
    func run(_ batches: [[(JournalRecord.Operation, StoreRow)]]) throws {
        let box = ReportBox()
        try start(shards: 1) { box.add($0, $1) }
        for (index, changes) in batches.enumerated() {
            commit(JournalBatch(through: UInt64(index + 1), changes), of: 0)
            #expect(box.wait(for: index + 1))
        }
        #expect(box.words == batches.indices.map { "0 committed \($0 + 1)" })
        close()
    }
}

/// A row that a test keeps.
struct StoreRow: Hashable, Comparable {
    let table: StoreTable
    let key: UInt64
    let body: [UInt8]

    init(_ table: StoreTable, _ key: UInt64, _ body: [UInt8]) {
        self.table = table
        self.key = key
        self.body = body
    }

    /// In the order in which a store loads them.
    static func < (left: StoreRow, right: StoreRow) -> Bool {
        (place(left.table), left.key) < (place(right.table), right.key)
    }

    private static func place(_ table: StoreTable) -> Int { StoreTable.inOrderOfRecovery.firstIndex(of: table) ?? .max }

    /// Bytes that tell the row from every other.
    static func body(_ key: UInt64, count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: key &* 0x9E37_79B9 &+ UInt64($0) &* (key | 1) >> 3) }
    }
}

extension JournalBatch {
    /// A batch as a shard would give it.
    convenience init(through sequence: UInt64, _ changes: [(JournalRecord.Operation, StoreRow)]) {
        self.init()
        for (operation, row) in changes {
            row.body.withUnsafeBytes { body in
                append(JournalRecord(operation, row.table, key: row.key, body: UnsafeRawBufferPointer(rebasing: body[...])))
            }
        }
        lastSequence = sequence
    }
}
