import Testing

@testable import BrokerCore
@testable import BrokerModel

@Suite struct JournalTests {
    /// A number of the first shard.
    private func number(_ serial: UInt64) -> UInt64 { serial << 8 }

    private func rows(_ batch: JournalBatch?) -> [UInt64] {
        var keys: [UInt64] = []
        batch?.forEach { if $0.operation == .insert { keys.append($0.key >> 8) } }
        return keys
    }

    @Test(arguments: [UInt64(1) << 20, UInt64(1) << 52])
    func `entries whose numbers are far from each other take no room for what lies between`(distance: UInt64) {
        let journal = Journal(shard: 0)
        // Rising, falling, and in between.
        let serials: [UInt64] = [1, distance, 2, distance / 2, 4]
        for serial in serials { journal.insert(.entry, key: number(serial), [7]) }
        #expect(journal.entryOffsets.count <= 4096)
        #expect(journal.entryBody(number(distance))?.load(as: UInt8.self) == 7)
        #expect(journal.entryBody(number(distance - 1)) == nil)
        journal.delete(.entry, key: number(distance))
        journal.delete(.entry, key: number(2))
        #expect(journal.entryBody(number(distance)) == nil && journal.entryBody(number(2)) == nil)
        let expected: [UInt64] = [1, distance / 2, 4]
        #expect(rows(journal.takeBatch()) == expected, "what was taken back is not written")
    }

    @Test func `an entry may come after one with a higher number`() {
        let journal = Journal(shard: 0)
        for serial in [5, 9, 7, 3] as [UInt64] { journal.insert(.entry, key: number(serial), [UInt8(serial)]) }
        for serial in [5, 9, 7, 3] as [UInt64] {
            #expect(journal.entryBody(number(serial))?.load(as: UInt8.self) == UInt8(serial))
        }
        for serial in [9, 3, 7, 5] as [UInt64] { journal.delete(.entry, key: number(serial)) }
        #expect(journal.takeBatch() == nil)
    }

    /// A start with fewer shards writes and deletes rows of several, whose numbers differ in the shard alone.
    @Test func `an entry of one shard is not taken for one of another`() {
        let journal = Journal(shard: 0)
        let (first, second) = (number(41) | 2, number(42) | 1)
        journal.insert(.entry, key: first, [1])
        journal.insert(.entry, key: number(42) | 2, [2])
        journal.delete(.entry, key: second)
        #expect(journal.entryBody(first)?.load(as: UInt8.self) == 1)
        #expect(journal.entryBody(number(42) | 2)?.load(as: UInt8.self) == 2 && journal.entryBody(second) == nil)
        journal.insert(.entry, key: number(43) | 1, [3])
        #expect(journal.entryBody(number(43) | 1)?.load(as: UInt8.self) == 3 && journal.entryBody(number(43) | 2) == nil)
        var deleted: [UInt64] = []
        let batch = journal.takeBatch()
        batch?.forEach { if $0.operation == .delete { deleted.append($0.key) } }
        #expect(deleted == [second] && rows(batch).count == 3)
    }
}
