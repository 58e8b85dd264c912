import ClientCore
import MQTTCodec
import TestBasics
import Testing

@testable import ClientStore

/// The outbox against a store whose commits a test holds up, and that it crashes.
@Suite struct OutboxQueueTests {
    /// An outbox, its store, and a server that takes what it is sent.
    final class Bench {
        let disk = MemoryDisk()
        var store: MemoryStore
        var outbox: OutboxQueue
        var run = 0
        /// What the store has said that it has.
        var promised: [UInt8] = []
        /// What the server got, with repeats.
        var arrived: [UInt8] = []
        var inFlight: [OutboxMessage] = []
        private var waitingForStore: [(number: UInt64, payload: UInt8)] = []
        private let box = AnswerBox<(number: UInt64, error: StoreError?)>()
        private var readings: [(query: StoreQuery, box: AnswerBox<StoreRows>)] = []

        init() throws {
            store = try MemoryStore(disk)
            outbox = try OutboxQueue(prefix: "run0", in: store)
        }

        func add(_ payload: UInt8) {
            let (message, change) = outbox.add(Publication("t", Payload([payload]), qos: .atLeastOnce), now: 0)
            waitingForStore.append((message.number, payload))
            let box = box
            store.commit(StoreBatch([change])) { box.put((message.number, $0)) }
        }

        /// What the store has answered.
        func hear() {
            while box.count > 0 {
                let (number, error) = box.take()
                #expect(error == nil)
                outbox.stored(through: number)
                let first = waitingForStore.removeFirst()
                #expect(first.number == number)
                promised.append(first.payload)
            }
            while let (query, box) = readings.first, box.count > 0 {
                readings.removeFirst()
                for change in outbox.read(box.take(), of: query) { store.commit(StoreBatch([change])) { _ in } }
            }
            if let query = outbox.nextReading() {
                let box = AnswerBox<StoreRows>()
                readings.append((query, box))
                store.read(query) { if case .success(let rows) = $0 { box.put(rows) } }
            }
        }

        func send(window: Int) {
            while inFlight.count < window, case .send(let message)? = outbox.next(now: 0) {
                arrived.append(message.publication.payload[0])
                inFlight.append(message)
            }
        }

        func acknowledge() {
            guard !inFlight.isEmpty else { return }
            let message = inFlight.removeFirst()
            if let change = outbox.settled(message.number) { store.commit(StoreBatch([change])) { _ in } }
        }

        func crash() throws {
            store.crash()
            store = try MemoryStore(disk)
            run += 1
            outbox = try OutboxQueue(prefix: "run\(run)", in: store)
            (inFlight, waitingForStore, readings) = ([], [], [])
            while box.count > 0 { _ = box.take() }
        }

        func drain() {
            store.holdsCommits = false
            for _ in 0..<20_000 where outbox.count > 0 {
                hear()
                send(window: 10)
                acknowledge()
            }
        }
    }

    @Test(arguments: UInt64(1)...200)
    func `what the store has promised arrives, in order, whenever the client crashes`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let bench = try Bench()
        bench.store.holdsCommits = true
        var next: UInt8 = 0
        for _ in 0..<400 where next < 250 {
            switch random.below(9) {
            case 0, 1:
                next += 1
                bench.add(next)
            case 2, 3: bench.store.complete(random.below(4))
            case 4: bench.hear()
            case 5, 6: bench.send(window: 1 + random.below(4))
            case 7: bench.acknowledge()
            default:
                guard random.oneIn(5) else { continue }
                try bench.crash()
                bench.store.holdsCommits = true
            }
        }
        bench.drain()
        #expect(bench.outbox.count == 0 && bench.outbox.byteCount == 0, "seed \(seed)")
        var seen: Set<UInt8> = []
        let first = bench.arrived.filter { seen.insert($0).inserted }
        #expect(first == first.sorted(), "seed \(seed): \(bench.arrived)")
        #expect(Set(bench.promised).isSubset(of: seen), "seed \(seed)")
        #expect(try bench.store.rows(StoreQuery(.outbox)).rows.isEmpty)
    }

    @Test func `of very many messages few are in memory, and all arrive in order`() throws {
        let store = try MemoryStore()
        var outbox = try OutboxQueue(prefix: "a", in: store)
        let count: UInt64 = 20_000
        for number in 1...count {
            store.commit(StoreBatch([outbox.add(Publication("t", "x", qos: .atLeastOnce), now: 0).change])) { _ in }
            outbox.stored(through: number)
        }
        #expect(outbox.countInMemory == Limits.queueWindowMax)
        #expect(outbox.count == Int(count))
        var sent: UInt64 = 0
        while outbox.count > 0 {
            while let query = outbox.nextReading() { _ = outbox.read(try store.rows(query), of: query) }
            #expect(outbox.countInMemory <= Limits.queueWindowMax)
            guard case .send(let message)? = outbox.next(now: 0) else { break }
            sent += 1
            #expect(message.number == sent)
            let change = outbox.settled(message.number)
            store.commit(StoreBatch([try #require(change)])) { _ in }
        }
        #expect(sent == count)
    }

    @Test func `each message has an identifier that no other has, in no run`() throws {
        let store = try MemoryStore()
        var identifiers: Set<String> = []
        for run in 0..<3 {
            var outbox = try OutboxQueue(prefix: "client-\(run)", in: store)
            for _ in 0..<3 {
                let message = outbox.add(Publication("t"), now: 0).message
                identifiers.insert(try #require(message.identifier))
            }
        }
        #expect(identifiers.count == 9)
        var outbox = OutboxQueue(prefix: "a")
        var publication = Publication("t")
        publication.properties.messageIdentifier = "mine"
        #expect(outbox.add(publication, now: 0).message.identifier == "mine")
    }

    @Test func `a message ages in the outbox, and goes when it is too old`() throws {
        var outbox = OutboxQueue(prefix: "a")
        var publication = Publication("t", "x", qos: .atLeastOnce)
        publication.properties.messageExpiryInterval = 10
        for _ in 0..<2 { _ = outbox.add(publication, now: 1_000_000) }
        outbox.stored(through: 2)
        #expect(outbox.nextExpiry == 1_010_000)
        guard case .send(let message)? = outbox.next(now: 1_003_500) else {
            Issue.record("nothing to send")
            return
        }
        #expect(message.publication(at: 1_003_500).properties.messageExpiryInterval == 7)
        #expect(outbox.next(now: 1_009_999, maySend: false) == nil)
        guard case .expired(let old)? = outbox.next(now: 1_010_000, maySend: false) else {
            Issue.record("nothing too old")
            return
        }
        #expect(old.number == 2)
        #expect(outbox.count == 1)
    }

    @Test func `a message that is too old goes from behind one that is not, when it is stored and in memory`() throws {
        var outbox = OutboxQueue(prefix: "a")
        var changes: [StoreChange] = []
        for seconds: UInt32? in [nil, 30, 10, 20] {
            var publication = Publication("t", "x", qos: .atLeastOnce)
            publication.properties.messageExpiryInterval = seconds
            changes.append(outbox.add(publication, now: 0).change)
        }
        #expect(outbox.nextExpiry == nil)
        outbox.stored(through: 3)
        #expect(outbox.nextExpiry == 10_000)
        // The last one is not in the store yet, and nothing wakes for it.
        #expect(expired(&outbox, now: 25_000) == [3])
        #expect(outbox.nextExpiry == 30_000)
        outbox.stored(through: 4)
        #expect(outbox.nextExpiry == 20_000)
        #expect(expired(&outbox, now: 25_000) == [4])
        #expect(expired(&outbox, now: 40_000) == [2])
        #expect(outbox.nextExpiry == nil)
        #expect(outbox.count == 1)

        // The same of what an earlier run has left.
        let storage = try MemoryStore(MemoryDisk())
        storage.commit(StoreBatch(changes)) { #expect($0 == nil) }
        var later = try OutboxQueue(prefix: "b", in: storage)
        let asked = later.nextReading()
        let query = try #require(asked)
        _ = later.read(try storage.rows(query), of: query)
        #expect(later.nextExpiry == 10_000)
        #expect(expired(&later, now: 25_000) == [3, 4])
        #expect(later.nextExpiry == 30_000)
    }

    /// An outbox with more messages than are in memory, of which a few beyond these get too old after 10 s and the last
    /// after 20; the others never.
    private func longOutbox(in store: MemoryStore) throws -> OutboxQueue {
        var outbox = try OutboxQueue(prefix: "a", in: store)
        for number in 1...UInt64(3500) {
            var publication = Publication("t", "x", qos: .atLeastOnce)
            let seconds: [UInt64: UInt32] = [1200: 10, 2300: 10, 2301: 10, 3500: 20]
            publication.properties.messageExpiryInterval = seconds[number]
            store.commit(StoreBatch([outbox.add(publication, now: 0).change])) { _ in }
            outbox.stored(through: number)
        }
        return outbox
    }

    private func sweep(_ outbox: inout OutboxQueue, _ store: MemoryStore, now: UInt64) throws
        -> [UInt64]
    {
        var numbers: [UInt64] = []
        while let query = outbox.sweepReading(now: now) {
            #expect(outbox.sweepReading(now: now) == nil, "one at a time")
            let (expired, changes) = outbox.swept(try store.rows(query), of: query, now: now)
            store.commit(StoreBatch(changes)) { _ in }
            numbers += expired
        }
        return numbers
    }

    @Test(arguments: [false, true])
    func `what is too old and only in the store goes without being read`(isOpenedAnew: Bool) throws {
        let store = try MemoryStore()
        var outbox = try longOutbox(in: store)
        if isOpenedAnew { outbox = try OutboxQueue(prefix: "b", in: store) }
        #expect(outbox.nextExpiry == nil)
        #expect(outbox.nextSweep == 10_000)
        #expect(try sweep(&outbox, store, now: 9999) == [])
        #expect(try sweep(&outbox, store, now: 10_000) == [1200, 2300, 2301])
        #expect(outbox.count == 3497)
        // Not at once again, however soon the next one is too old.
        #expect(outbox.nextSweep == 20_000)
        #expect(outbox.nextSweep.map { $0 > 10_000 + Limits.sweepPauseMilliseconds } == true)
        #expect(try sweep(&outbox, store, now: 20_000) == [3500])
        #expect(outbox.nextSweep == nil)
        let rows = try store.rows(StoreQuery(.outbox)).rows
        #expect(rows.count == 3496 && outbox.byteCount == rows.reduce(0) { $0 + $1.body.count })
        while outbox.count > 0 {
            while let query = outbox.nextReading() { _ = outbox.read(try store.rows(query), of: query) }
            guard case .send(let message)? = outbox.next(now: 30_000) else { break }
            let change = outbox.settled(message.number)
            store.commit(StoreBatch([try #require(change)])) { _ in }
        }
        #expect(outbox.count == 0 && outbox.byteCount == 0)
    }

    @Test func `what goes while the store is looked through goes once`() throws {
        let store = try MemoryStore()
        var outbox = try longOutbox(in: store)
        let asked = outbox.sweepReading(now: 10_000)
        let query = try #require(asked)
        let rows = try store.rows(query)
        // One is taken back, and others come into memory, before the answer is there.
        let size = try #require(rows.rows.first { $0.key.lastNumber == 1200 }).body.count
        #expect(outbox.withdraw(1200, byteCount: size) != nil)
        let (expired, _) = outbox.swept(rows, of: query, now: 10_000)
        #expect(expired == [])
        #expect(outbox.count == 3499)
    }

    private func expired(_ outbox: inout OutboxQueue, now: UInt64) -> [UInt64] {
        var numbers: [UInt64] = []
        while case .expired(let message)? = outbox.next(now: now, maySend: false) { numbers.append(message.number) }
        return numbers
    }

    @Test func `it is full by messages or by bytes, and the oldest that waits may go`() throws {
        var outbox = OutboxQueue(bounds: OutboxBounds(messages: 3, bytes: 1000), prefix: "a")
        let small = Publication("t", "x", qos: .atLeastOnce)
        let large = Publication("t", Payload([UInt8](repeating: 0, count: 2000)), qos: .atLeastOnce)
        #expect(outbox.hasRoom(for: large))
        for _ in 0..<2 { _ = outbox.add(small, now: 0) }
        #expect(!outbox.hasRoom(for: large))
        #expect(outbox.hasRoom(for: small))
        _ = outbox.add(small, now: 0)
        #expect(!outbox.hasRoom(for: small))
        #expect(outbox.dropOldest() == nil)
        outbox.stored(through: 3)
        guard case .send? = outbox.next(now: 0) else {
            Issue.record("nothing to send")
            return
        }
        #expect(outbox.dropOldest()?.message.number == 2)
        #expect(outbox.hasRoom(for: small))
        #expect(outbox.countAhead(of: 3) == 1)
    }

    @Test func `a message is withdrawn once, and not when it is in flight`() throws {
        var outbox = OutboxQueue(prefix: "a")
        for _ in 0..<3 { _ = outbox.add(Publication("t", "x", qos: .atLeastOnce), now: 0) }
        outbox.stored(through: 3)
        _ = outbox.next(now: 0)
        #expect(outbox.withdraw(1, byteCount: 1) == nil)
        #expect(outbox.withdraw(2, byteCount: 1) != nil)
        #expect(outbox.withdraw(2, byteCount: 1) == nil)
        #expect(outbox.count == 2)
        guard case .send(let message)? = outbox.next(now: 0) else {
            Issue.record("nothing to send")
            return
        }
        #expect(message.number == 3)
    }

    @Test func `bytes are bounded as the store has them`() throws {
        for kind in 0..<4 {
            var publication = Publication("topic", "payload", qos: .atLeastOnce)
            if kind & 1 == 1 { publication.properties.messageExpiryInterval = 9 }
            if kind & 2 == 2 { publication.properties.messageIdentifier = "its own" }
            var outbox = OutboxQueue(prefix: "long prefix")
            _ = outbox.add(publication, now: 0)
            let before = outbox.byteCount
            outbox.bounds.bytes = before * 2 - 1
            #expect(!outbox.hasRoom(for: publication))
            outbox.bounds.bytes = before * 2
            #expect(outbox.hasRoom(for: publication))
            _ = outbox.add(publication, now: 0)
            #expect(outbox.byteCount == before * 2)
        }
    }

    @Test func `a message that the store had no room for is never sent`() throws {
        let disk = MemoryDisk()
        let store = try MemoryStore(disk)
        var outbox = try OutboxQueue(prefix: "a", in: store)
        disk.bytesMax = 1
        let (message, change) = outbox.add(Publication("t", "x", qos: .atLeastOnce), now: 0)
        let box = AnswerBox<StoreError?>()
        store.commit(StoreBatch([change], waitsForRoom: false)) { box.put($0) }
        #expect(box.take() == .noRoom("memory"))
        outbox.notStored(message.number, byteCount: message.row.body.count)
        #expect(outbox.count == 0)
        disk.bytesMax = nil
        let (second, again) = outbox.add(Publication("t", "y", qos: .atLeastOnce), now: 0)
        store.commit(StoreBatch([again])) { _ in }
        outbox.stored(through: second.number)
        #expect(outbox.next(now: 0) == .send(second))
    }

    @Test func `damaged messages are skipped and removed`() throws {
        let disk = MemoryDisk()
        let store = try MemoryStore(disk)
        var first = try OutboxQueue(prefix: "a", in: store)
        for _ in 0..<4 { store.commit(StoreBatch([first.add(Publication("t", "x", qos: .atLeastOnce), now: 0).change])) { _ in } }
        disk.damage(.outbox, StoreKey(2))
        store.commit(StoreBatch([.put(.outbox, StoreKey(3), [1])])) { _ in }
        var outbox = try OutboxQueue(prefix: "b", in: store)
        let reading = outbox.nextReading()
        let query = try #require(reading)
        let changes = outbox.read(try store.rows(query), of: query)
        store.commit(StoreBatch(changes)) { _ in }
        var numbers: [UInt64] = []
        while case .send(let message)? = outbox.next(now: 0) { numbers.append(message.number) }
        #expect(numbers == [1, 4])
        #expect(outbox.count == 2)
        #expect(try store.measure(StoreQuery(.outbox)).rows == 2)
    }

    @Test func `a message that an earlier run has sent does not come again when it is done while the store is read`() throws {
        let store = try MemoryStore()
        var first = try OutboxQueue(prefix: "a", in: store)
        let sent = first.add(Publication("t", "sent", qos: .exactlyOnce), now: 0)
        let waiting = first.add(Publication("t", "waiting", qos: .exactlyOnce), now: 0)
        store.commit(StoreBatch([sent.change, waiting.change])) { _ in }
        var outbox = try OutboxQueue(prefix: "b", in: store)
        outbox.restore(sent.message)
        let reading = outbox.nextReading()
        let query = try #require(reading)
        let rows = try store.rows(query)
        #expect(outbox.settled(sent.message.number) != nil)
        _ = outbox.read(rows, of: query)
        #expect(outbox.next(now: 0) == .send(waiting.message))
        #expect(outbox.next(now: 0) == nil)
    }
}
