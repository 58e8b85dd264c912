import ClientStore
import TestBasics
import Testing

/// What every storage does, whatever it writes to.
@Suite(.timeLimit(.minutes(10))) struct StorageTests {
    @Test(arguments: StoreHome.Kind.allCases)
    func `what is committed is there for the next client`(kind: StoreHome.Kind) throws {
        let home = StoreHome(kind)
        let store = try home.open()
        try store.commitNow(.put(.identity, StoreKey("id"), [1, 2]), .put(.outbox, StoreKey(7), []))
        try store.commitNow(.put(.identity, StoreKey("id"), [3]))
        store.close()
        let again = try home.open()
        #expect(try again.rows(StoreQuery(.identity)).rows == [StoreRow(StoreKey("id"), [3])])
        #expect(try again.readNow(StoreQuery(.outbox, at: StoreKey(7))).rows == [StoreRow(StoreKey(7), [])])
        #expect(try again.rows(StoreQuery(.outbox, at: StoreKey(8))).rows.isEmpty)
        again.close()
    }

    @Test(arguments: StoreHome.Kind.allCases)
    func `what was committed survives a crash, and the lock does not`(kind: StoreHome.Kind) throws {
        let home = StoreHome(kind)
        for round in UInt64(1)...3 {
            let store = try home.open()
            try store.commitNow(.put(.outbox, StoreKey(round), [UInt8(round)]))
            store.crashNow()
        }
        let last = try home.open()
        #expect(try last.rows(StoreQuery(.outbox)).rows.map(\.body) == [[1], [2], [3]])
        last.close()
    }

    @Test(arguments: StoreHome.Kind.allCases)
    func `a second client is told that the store is in use, and by name`(kind: StoreHome.Kind) throws {
        let home = StoreHome(kind)
        let store = try home.open()
        let error = #expect(throws: StoreError.self) { _ = try home.open() }
        guard case .inUse(let name, _)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(name == (kind == .file ? home.path : "disk"))
        store.close()
        #expect(throws: StoreError.closed) { try store.commitNow(.remove(.entry, StoreKey("a"))) }
        #expect(throws: StoreError.closed) { _ = try store.rows(StoreQuery(.entry)) }
        try home.open().close()
    }

    @Test(arguments: StoreHome.Kind.allCases)
    func `rows come in the order of their keys, from either end, within a range`(kind: StoreHome.Kind) throws {
        let home = StoreHome(kind)
        let store = try home.open()
        defer { store.close() }
        for number in UInt64(1)...9 {
            try store.commitNow(
                .put(.inbox, StoreKey("chat").number(number), [UInt8(number)]),
                .put(.inbox, StoreKey("chat2").number(number), [100 + UInt8(number)]))
        }
        let chat = StoreKey("chat")
        func bodies(_ query: StoreQuery) throws -> [UInt8] { try store.rows(query).rows.map { $0.body[0] } }
        #expect(try bodies(StoreQuery(.inbox, under: chat)) == Array(1...9))
        #expect(try bodies(StoreQuery(.inbox, under: chat, limit: 2, isDescending: true)) == [9, 8])
        #expect(try bodies(StoreQuery(.inbox, from: chat.number(4), to: chat.number(7))) == [4, 5, 6])
        #expect(try bodies(StoreQuery(.inbox, limit: 3, isDescending: true)) == [109, 108, 107])
        #expect(try store.measure(StoreQuery(.inbox, under: chat)) == StoreMeasure(rows: 9, bytes: 9))
        try store.commitNow(.removeRange(.inbox, from: chat.number(2), to: chat.number(9)), .remove(.inbox, chat.number(9)))
        #expect(try bodies(StoreQuery(.inbox, under: chat)) == [1])
        try store.commitNow(.removeAll(.inbox, under: chat))
        #expect(try bodies(StoreQuery(.inbox)) == Array(101...109))
        try store.commitNow(.removeAll(.inbox))
        #expect(try bodies(StoreQuery(.inbox)) == [])
    }

    @Test(arguments: StoreHome.Kind.allCases, UInt64(1)...5)
    func `any changes leave the rows that an ordered list has`(kind: StoreHome.Kind, seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let home = StoreHome(kind)
        var store = try home.open()
        var model: [StoreKey: [UInt8]] = [:]
        for _ in 0..<60 {
            var batch = StoreBatch()
            for _ in 0..<random.below(8) {
                let key = StoreKey(["a", "b", "ab"][random.below(3)]).number(UInt64(random.below(20)))
                switch random.below(8) {
                case 0:
                    let end = StoreKey(["a", "b", "ab"][random.below(3)]).number(UInt64(random.below(20)))
                    batch.changes.append(.removeRange(.entry, from: key, to: end))
                    model = model.filter { $0.key < key || $0.key >= end }
                case 1, 2:
                    batch.changes.append(.remove(.entry, key))
                    model[key] = nil
                default:
                    let body = [UInt8](repeating: UInt8(random.below(256)), count: random.below(6000))
                    batch.changes.append(.put(.entry, key, body))
                    model[key] = body
                }
            }
            store.commit(batch) { #expect($0 == nil) }
            let isDescending = random.oneIn(2)
            var expected = model.sorted { $0.key < $1.key }.map { StoreRow($0.key, $0.value) }
            if isDescending { expected.reverse() }
            #expect(try store.readNow(StoreQuery(.entry, limit: 10, isDescending: isDescending)).rows == Array(expected.prefix(10)))
            if random.oneIn(10) {
                if random.oneIn(2) { store.crashNow() } else { store.close() }
                store = try home.open()
            }
        }
        store.close()
    }

    @Test(arguments: StoreHome.Kind.allCases)
    func `without room a batch fails or waits, as it wants, and nothing that was committed is lost`(kind: StoreHome.Kind) throws {
        let home = StoreHome(kind)
        let store = try home.open(bytesMax: 400_000)
        let large = [UInt8](repeating: 7, count: 100_000)
        var count: UInt64 = 0
        let error = #expect(throws: StoreError.self) {
            while count < 100 {
                try store.commitNow(.put(.outbox, StoreKey(count), large), waitsForRoom: false)
                count += 1
            }
        }
        #expect(error == .noRoom(kind == .file ? home.path : "disk"))
        #expect(count > 0)
        let box = AnswerBox<StoreError?>()
        store.commit(StoreBatch([.put(.inbox, StoreKey("a"), large)])) { box.put($0) }
        #expect(try store.rows(StoreQuery(.outbox)).rows.count == Int(count))
        #expect(box.count == 0)
        store.crashNow()
        let again = try home.open()
        #expect(try again.rows(StoreQuery(.outbox)).rows.allSatisfy { $0.body == large })
        #expect(try again.rows(StoreQuery(.outbox)).rows.count == Int(count))
        #expect(try again.rows(StoreQuery(.inbox)).rows.isEmpty)
        again.close()
    }

    @Test func `a batch that waits for room is committed when there is some`() throws {
        let home = StoreHome(.memory)
        let store = try MemoryStore(home.disk)
        home.disk.bytesMax = 1
        let box = AnswerBox<StoreError?>()
        store.commit(StoreBatch([.put(.inbox, StoreKey("a"), [1, 2])])) { box.put($0) }
        #expect(box.count == 0)
        home.disk.bytesMax = nil
        store.complete()
        #expect(box.take() == nil)
        #expect(try store.rows(StoreQuery(.inbox)).rows.count == 1)
    }

    @Test func `commits that are held are lost by a crash, or completed one by one`() throws {
        let disk = MemoryDisk()
        let store = try MemoryStore(disk)
        store.holdsCommits = true
        let box = AnswerBox<StoreError?>()
        for number in UInt64(1)...3 {
            store.commit(StoreBatch([.put(.outbox, StoreKey(number), [])])) { box.put($0) }
        }
        #expect(store.heldCount == 3)
        store.complete(2)
        #expect(box.count == 2)
        store.crash()
        let again = try MemoryStore(disk)
        #expect(try again.rows(StoreQuery(.outbox)).rows.map { $0.key.lastNumber } == [1, 2])
        #expect(box.count == 2)
    }
}
