import Glibc
import Testing

@testable import BrokerModel
@testable import Persistence

/// A disk that is full, or fails. One after another, since the failing of writes is the process's.
@Suite(.serialized, .timeLimit(.minutes(10))) struct FullDiskTests {
    private let home: StoreHome
    private let box = ReportBox()

    init() throws { home = try StoreHome(name: FailingWrites.marker) }

    /// On whose thread a batch is committed.
    enum Hand: CaseIterable {
        case writer, bringer

        func give(_ batch: JournalBatch, of shard: Int, to store: SQLiteStore) {
            switch self {
            case .writer: store.commit(batch, of: shard)
            case .bringer: store.commitHere(batch, of: shard)
            }
        }
    }

    @Test(arguments: [ENOSPC, EDQUOT], Hand.allCases)
    func `a batch waits for room, is told of once, and is committed when there is some`(number: Int32, hand: Hand) throws {
        defer { FailingWrites.set(0) }
        let store = try start()
        store.commit(batch(1, keys: 1...10), of: 0)
        #expect(box.wait(for: 1))
        FailingWrites.set(number)
        hand.give(batch(2, keys: 11...20), of: 0, to: store)
        #expect(box.wait(for: 3))
        // What comes then waits as well, and nobody is told again.
        hand.give(batch(1, keys: 21...30), of: 1, to: store)
        FailingWrites.set(0)
        #expect(box.wait(for: 7))
        #expect(box.words.prefix(3) == ["0 committed 1", "0 full", "1 full"], "\(box.logged)")
        #expect(Set(box.words.dropFirst(3)) == ["0 committed 2", "1 committed 1", "0 room", "1 room"])
        store.close()
        #expect(try home.open().allRows().map(\.key) == (1...30).map { $0 << 8 })
        #expect(box.logged.count == 1, "\(box.logged)")
    }

    @Test(arguments: Hand.allCases) func `an entry of the store's tail waits for room too`(hand: Hand) throws {
        defer { FailingWrites.set(0) }
        let store = try start()
        for number in UInt64(1)...3 { store.commit(entry(number), of: 0) }
        #expect(box.wait(for: 3))
        FailingWrites.set(ENOSPC)
        hand.give(entry(4), of: 0, to: store)
        #expect(box.wait(for: 5))
        FailingWrites.set(0)
        #expect(box.wait(for: 8))
        hand.give(entry(5), of: 0, to: store)
        #expect(box.wait(for: 9))
        store.close()
        #expect(try home.open().allRows().map(\.key) == (1...5).map { $0 << 8 })
        #expect(try SQLiteStore.check(home.path).damages.isEmpty)
    }

    @Test func `what comes when the log cannot be moved is not committed`() throws {
        defer { FailingWrites.set(0) }
        let store = try start()
        FailingWrites.set(0, database: EIO)
        // More than the log is to hold. What follows the commit is left for later.
        let rows = (UInt64(1)...1100).map { StoreRow(.message, $0 << 8, [UInt8](repeating: 7, count: 64 << 10)) }
        store.commitHere(JournalBatch(through: 1, rows.map { (.insert, $0) }), of: 0)
        #expect(box.wait(for: 1))
        store.commitHere(batch(2, keys: 2001...2001), of: 0)
        #expect(box.wait(for: 3))
        store.close()
        #expect(box.words == ["0 committed 1", "0 failed", "1 failed"], "\(box.logged)")
        FailingWrites.set(0)
        #expect(try home.open().allRows().count == 1100)
    }

    @Test func `a store that is full ends without a word, and without what waits`() throws {
        defer { FailingWrites.set(0) }
        let store = try start()
        FailingWrites.set(ENOSPC)
        store.commit(batch(1, keys: 1...10), of: 0)
        #expect(box.wait(for: 2))
        store.close()
        #expect(box.words == ["0 full", "1 full"])
        FailingWrites.set(0)
        #expect(try home.open().allRows().isEmpty)
    }

    @Test(arguments: Hand.allCases) func `a write that fails is the end of all commits`(hand: Hand) throws {
        defer { FailingWrites.set(0) }
        let store = try start()
        store.commit(batch(1, keys: 1...10), of: 0)
        #expect(box.wait(for: 1))
        FailingWrites.set(EIO)
        hand.give(batch(1, keys: 11...20), of: 1, to: store)
        #expect(box.wait(for: 3))
        #expect(box.words == ["0 committed 1", "0 failed", "1 failed"])
        FailingWrites.set(0)
        hand.give(batch(2, keys: 21...30), of: 0, to: store)
        store.close()
        #expect(box.words.count == 3)
        #expect(try home.open().allRows().map(\.key) == (1...10).map { $0 << 8 })
        #expect(box.logged.contains { $0.hasPrefix("The store has failed: ") }, "\(box.logged)")
    }

    @Test func `a log that cannot be moved into the database while the disk is full is the end of all commits`() throws {
        defer { FailingWrites.set(0) }
        let store = try start()
        store.commit(batch(1, keys: 1...10), of: 0)
        #expect(box.wait(for: 1))
        FailingWrites.set(ENOSPC, database: EIO)
        store.commit(batch(2, keys: 11...20), of: 0)
        #expect(box.wait(for: 5))
        #expect(box.words == ["0 committed 1", "0 full", "1 full", "0 failed", "1 failed"])
        FailingWrites.set(0)
        store.commit(batch(1, keys: 21...30), of: 1)
        store.close()
        #expect(box.words.count == 5)
        #expect(try home.open().allRows().map(\.key) == (1...10).map { $0 << 8 })
        #expect(box.logged.contains { $0.hasPrefix("The store has failed: moving the log into the database: ") }, "\(box.logged)")
    }

    @Test func `a sync that fails is the end of all commits`() throws {
        let store = try start()
        store.commit(batch(1, keys: 1...10), of: 0)
        #expect(box.wait(for: 1))
        // What takes every write and refuses to sync takes the log's place.
        let null = open("/dev/null", O_RDWR)
        defer { close(null) }
        for name in StoreHome.names(in: "/proc/self/fd") {
            guard let descriptor = Int32(name), FailingWrites.path(of: descriptor) == home.files.log else { continue }
            #expect(dup2(null, descriptor) == descriptor)
        }
        store.commit(batch(2, keys: 11...20), of: 0)
        #expect(box.wait(for: 3))
        #expect(box.words == ["0 committed 1", "0 failed", "1 failed"])
        store.close()
        #expect(try home.open().allRows().map(\.key) == (1...10).map { $0 << 8 })
    }

    @Test func `a store above its bound says so, takes what it is given, and has room when that makes some`() throws {
        var store = try start(StoreOptions(bytesMax: 400_000))
        let rows = (1...120).map { StoreRow(.entry, UInt64($0) << 8, StoreRow.body(UInt64($0), count: 4000)) }
        store.commit(JournalBatch(through: 1, rows.map { (.insert, $0) }), of: 0)
        #expect(box.wait(for: 3))
        #expect(box.words == ["0 committed 1", "0 full", "1 full"])
        store.commit(batch(1, keys: 500...501), of: 1)
        #expect(box.wait(for: 4))
        store.close()
        // Known from the start.
        store = try start(StoreOptions(bytesMax: 400_000))
        #expect(box.wait(for: 6))
        #expect(box.words.suffix(2) == ["0 full", "1 full"])
        store.commit(JournalBatch(through: 2, rows.prefix(60).map { (.delete, $0) }), of: 0)
        #expect(box.wait(for: 9))
        #expect(box.words.suffix(3) == ["0 committed 2", "0 room", "1 room"])
        store.close()
        #expect(try home.open().allRows().count == 62)
    }

    private func start(_ options: StoreOptions = StoreOptions()) throws -> SQLiteStore {
        let store = try SQLiteStore.open(home.path, options: options) { [box] in if $0 != .notice { box.log($0, $1) } }
        try store.start(shards: 2) { [box] in box.add($0, $1) }
        return store
    }

    private func entry(_ number: UInt64) -> JournalBatch { batch(number, keys: number...number) }

    private func batch(_ sequence: UInt64, keys: ClosedRange<UInt64>) -> JournalBatch {
        JournalBatch(through: sequence, keys.map { (.insert, StoreRow(.entry, $0 << 8, [1])) })
    }
}
