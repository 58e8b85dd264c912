import Glibc
import Platform
import Testing

@testable import BrokerModel
@testable import Persistence

/// Batches that are committed by whoever brings them.
@Suite(.timeLimit(.minutes(10))) struct CommitHereTests {
    private let home: StoreHome
    private let box = ReportBox()

    init() throws { home = try StoreHome() }

    @Test func `a batch is committed when the call returns, if nobody else commits`() throws {
        let store = try home.open()
        try store.start(shards: 1) { [box] in box.add($0, $1) }
        // The writer begins before it waits for batches.
        store.commit(batch(1, shard: 0), of: 0)
        #expect(box.wait(for: 1))
        var kept = 0
        for number in UInt64(2)...200 {
            store.commitHere(batch(number, shard: 0), of: 0)
            if box.words.last == "0 committed \(number)" { kept += 1 }
            #expect(box.wait(for: Int(number)))
        }
        #expect(kept > 0)
        store.close()
        #expect(box.words == (1...200).map { "0 committed \($0)" })
        #expect(try home.open().allRows().count == 200)
    }

    @Test func `callers and the writer do not get into each other's way`() throws {
        let store = try home.open()
        let shards = 4
        let boxes = (0..<shards).map { _ in ReportBox() }
        try store.start(shards: shards) { boxes[$0].add($0, $1) }
        let threads = try (0..<shards).map { shard in
            try NamedThread.start(name: "shard \(shard)") {
                for number in UInt64(1)...250 {
                    let batch = batch(number, shard: shard)
                    if (number + UInt64(shard)) % 3 == 0 {
                        store.commit(batch, of: shard)
                    } else {
                        store.commitHere(batch, of: shard)
                    }
                    if number % 2 == 0 { store.tidyUp() }
                    #expect(boxes[shard].wait(for: Int(number)))
                }
            }
        }
        threads.forEach { $0.join() }
        store.close()
        for (shard, box) in boxes.enumerated() { #expect(box.words == (1...250).map { "\(shard) committed \($0)" }) }
        #expect(try home.open().allRows().count == shards * 250)
    }

    @Test func `what nobody waits for is done when somebody tidies up, with the next commit, or at the end`() throws {
        let store = try home.open()
        try store.start(shards: 1) { [box] in box.add($0, $1) }
        store.commit(batch(1, shard: 0), of: 0)
        #expect(box.wait(for: 1))
        var late = 0
        for number in UInt64(2)...20 {
            store.commitHere(batch(number, shard: 0), of: 0)
            #expect(box.wait(for: Int(number)))
            if try markedCommit() < number { late += 1 }
            #expect(try markedCommit() >= number - 1)
            if number % 3 == 0 {
                store.tidyUp()
                for _ in 0..<10_000 where try markedCommit() < number { usleep(100) }
                #expect(try markedCommit() == number)
            }
        }
        #expect(late > 0)
        store.close()
        #expect(try markedCommit() == 20)
    }

    @Test func `before the store works, and after its end, nothing is committed`() throws {
        let store = try home.open()
        store.commitHere(batch(1, shard: 0), of: 0)
        try store.start(shards: 1) { [box] in box.add($0, $1) }
        store.close()
        store.commitHere(batch(2, shard: 0), of: 0)
        #expect(box.words == [])
        #expect(try home.open().allRows().isEmpty)
    }

    private func markedCommit() throws -> UInt64 {
        guard case .slot(let slot) = try CommitRecord.read(home.files.commitRecord) else { return 0 }
        return slot.commitNumber
    }
}

/// One row of a shard.
private func batch(_ number: UInt64, shard: Int) -> JournalBatch {
    JournalBatch(through: number, [(.insert, StoreRow(.flow, number << 8 | UInt64(shard), [UInt8(truncatingIfNeeded: number)]))])
}
