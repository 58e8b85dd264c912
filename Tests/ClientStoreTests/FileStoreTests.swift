import Glibc
import RowStore
import Testing

@testable import ClientStore

/// What only a store in a file does.
@Suite(.timeLimit(.minutes(10))) struct FileStoreTests {
    private let home = StoreHome(.file)

    /// Changes the file as no client does.
    private func tamper(_ sql: String) throws {
        let connection = try SQLiteConnection(home.path, .write)
        try connection.execute(sql)
    }

    @Test func `rows that are not what was written are named and left out`() throws {
        let store = try home.open()
        for number in UInt64(1)...4 { try store.commitNow(.put(.outbox, StoreKey(number), [1, 2, 3])) }
        try store.commitNow(.put(.inbox, StoreKey(1), [1, 2, 3]))
        store.close()
        try tamper("UPDATE outbox SET body = x'010204' WHERE substr(key, 8) = x'02'")
        // A right row at a wrong place is damaged too.
        try tamper("UPDATE outbox SET key = x'0000000000000009' WHERE substr(key, 8) = x'04'")
        try tamper("INSERT INTO outgoing SELECT * FROM inbox")
        let again = try home.open()
        let found = try again.readNow(StoreQuery(.outbox))
        #expect(found.rows.map { $0.key.lastNumber } == [1, 3])
        #expect(found.damages == [StoreDamage(.outbox, StoreKey(2)), StoreDamage(.outbox, StoreKey(9))])
        #expect(try again.rows(StoreQuery(.outgoing)).damages.count == 1)
        again.close()
    }

    @Test(arguments: [1, 2, 3]) func `a store of a build before the first release is refused and left alone`(version: Int64) throws
    {
        let store = try home.open()
        try store.commitNow(.put(.entry, StoreKey("a"), [1, 2, 3]))
        store.close()
        try tamper("PRAGMA user_version = \(version)")
        #expect(throws: StoreError.unreleased(home.path)) { _ = try home.open() }
        #expect(throws: StoreError.unreleased(home.path)) { _ = try StoreReader(home.path) }
        let connection = try SQLiteConnection(home.path, .read)
        #expect(try connection.integer("PRAGMA user_version") == version)
        #expect(try connection.integer("SELECT count(*) FROM entry") == 1)
        let words = "panel.db was written by a build from before the first release, and cannot be read: move it away"
        #expect("\(StoreError.unreleased("panel.db"))" == words)
    }

    @Test func `a file that is something else is refused and left alone`() throws {
        let file = open(home.path, O_RDWR | O_CREAT, 0o600)
        let text = [UInt8](repeating: 0x41, count: 5000)
        _ = write(file, text, text.count)
        Glibc.close(file)
        let error = #expect(throws: StoreError.self) { _ = try home.open() }
        #expect(error?.description.contains("panel.db is damaged") == true)
        unlink(home.path)
        let empty = open(home.path, O_RDWR | O_CREAT, 0o600)
        Glibc.close(empty)
        try tamper("CREATE TABLE notes (text)")
        #expect(throws: StoreError.foreign(home.path)) { _ = try home.open() }
        unlink(home.path)
        try home.open().close()
        try tamper("PRAGMA user_version = 99")
        #expect(throws: StoreError.newer(home.path)) { _ = try home.open() }
    }

    @Test func `a store that cannot be made says which file and why`() {
        #expect(throws: StoreError.failed("/nowhere/panel.db", "No such file or directory")) {
            _ = try FileStore("/nowhere/panel.db")
        }
    }

    @Test func `a reader sees what is committed, and that something was`() throws {
        let store = try home.open()
        let reader = try StoreReader(home.path)
        #expect(try reader.rows(StoreQuery(.entry)).rows.isEmpty)
        let version = try reader.version()
        #expect(try reader.version() == version)
        var before = stat()
        stat(reader.watchedPath, &before)
        try store.commitNow(.put(.entry, StoreKey("a"), [1]))
        #expect(try reader.version() != version)
        #expect(try reader.rows(StoreQuery(.entry)).rows == [StoreRow(StoreKey("a"), [1])])
        store.close()
        #expect(throws: StoreError.self) { _ = try StoreReader(home.path + "-none") }
    }

    @Test func `batches that wait are committed together, and their owners told in order`() throws {
        let store = try home.open()
        let box = AnswerBox<UInt64>()
        for number in UInt64(0)..<3000 {
            store.commit(StoreBatch([.put(.outbox, StoreKey(number), [1])])) { _ in box.put(number) }
        }
        for number in UInt64(0)..<3000 where box.take() != number { Issue.record("\(number) out of order") }
        store.close()
        #expect(try FileStore(home.path).measure(StoreQuery(.outbox)).rows == 3000)
    }

    @Test func `many stores share one thread`() throws {
        let homes = (0..<20).map { _ in StoreHome(.file) }
        let stores = try homes.map { try $0.open() }
        let box = AnswerBox<StoreError?>()
        for store in stores {
            for number in UInt64(0)..<20 { store.commit(StoreBatch([.put(.outbox, StoreKey(number), [])])) { box.put($0) } }
        }
        for store in stores { store.close() }
        for _ in 0..<400 { #expect(box.take() == nil) }
        for home in homes { #expect(try FileStore(home.path).measure(StoreQuery(.outbox)).rows == 20) }
    }

    @Test func `a store may be let go of on its own thread`() throws {
        let box = AnswerBox<Bool>()
        var store: FileStore? = try FileStore(home.path)
        store?.commit(StoreBatch([.put(.outbox, StoreKey(1), [])])) { [store] _ in
            withExtendedLifetime(store) {}
            box.put(true)
        }
        store = nil
        #expect(box.take())
    }

    @Test(arguments: [(StoreKey("a"), StoreKey("b")), (StoreKey("a"), StoreKey("ab")), (StoreKey(255), StoreKey(256))])
    func `keys are ordered as what they are made of`(keys: (StoreKey, StoreKey)) {
        #expect(keys.0 < keys.1)
    }

    @Test func `what a key is made of can be read from it`() {
        let key = StoreKey("chat").text("lobby").number(300)
        #expect(key.lastNumber == 300)
        #expect(key.text(behind: StoreKey("chat")) == Array("lobby".utf8))
        #expect(key.text(behind: StoreKey("other")) == nil)
        #expect(StoreKey(bytes: [1, 0xff]).end == StoreKey(bytes: [2]))
        #expect(StoreKey().end == nil)
        #expect(key.description == "chat%0lobby%0%0%0%0%0%0%0%1,")
    }
}
