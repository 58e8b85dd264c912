import BrokerModel
import Testing

@testable import Cluster

struct SessionRecordTests {
    private var whole: SessionRecord {
        var record = SessionRecord(
            epoch: 300,
            owners: [
                SessionRecord.Owner(node: NodeID(.max), leaseSequence: 7),
                SessionRecord.Owner(node: NodeID(1), leaseSequence: 200),
            ],
            identifier: Array("client".utf8), expiryInterval: .max)
        record.wills = [
            SavedWill(name: WillName(epoch: 299, number: 1 << 40), delayInterval: 0, message: [1, 2, 3]),
            SavedWill(name: WillName(epoch: 300, number: 1), delayInterval: .max, message: [], origin: [4]),
        ]
        record.awaySince = 1_700_000_000_000
        return record
    }

    @Test func `a record is read as it was written`() {
        #expect(SessionRecord(whole.encoded) == whole)
        var record = whole
        record.saved = SessionRecord.Saved(epoch: 299, state: [1, 2, 3], places: [])
        #expect(SessionRecord(record.encoded) == record)
        record.saved?.epoch = 0
        #expect(SessionRecord(record.encoded) == nil)
        let least = SessionRecord(epoch: 1, owners: [SessionRecord.Owner(node: NodeID(0), leaseSequence: 0)])
        #expect(SessionRecord(least.encoded) == least && least.encoded == [4, 1, 1, 0, 0, 0, 0, 0, 0, 0])
    }

    @Test(arguments: [false, true]) func `no part of a record is one, nor what has more behind it`(isSaved: Bool) {
        var record = whole
        if isSaved { record.saved = SessionRecord.Saved(epoch: 300, state: [1], places: [2, 3]) }
        let bytes = record.encoded
        for count in 0..<bytes.count { #expect(SessionRecord(Array(bytes.prefix(count))) == nil) }
        #expect(SessionRecord(bytes + [0]) == nil)
    }

    @Test func `numbers from which nothing could be reckoned are refused`() {
        var record = whole
        (record.epoch, record.awaySince) = (1 << 62 - 1, 1 << 62 - 1)
        #expect(SessionRecord(record.encoded) == record)
        #expect(record.dueWills(now: 1).isEmpty && record.dutyAt ?? 0 >= 1 << 62 - 1)
        record.awaySince += 1
        #expect(SessionRecord(record.encoded) == nil)
        (record.epoch, record.awaySince) = (1 << 62, 1)
        #expect(SessionRecord(record.encoded) == nil)
    }

    @Test func `the mark of an end has the last epoch, and is no record`() {
        let mark = SessionRecord.tombstone(endedAt: 1 << 61)
        #expect(SessionRecord.epoch(ofTombstone: mark) == 1 << 61 && SessionRecord(mark) == nil)
        for bytes in [[], [0], [1, 5], SessionRecord.tombstone(endedAt: 1 << 62)] as [[UInt8]] {
            #expect(SessionRecord.epoch(ofTombstone: bytes) == 0)
        }
    }

    @Test func `a record of another version, without an owner, or with another word for what was saved is refused`() {
        for version: UInt8 in [0, 1, 2, 3, 5] {
            var bytes = whole.encoded
            bytes[0] = version
            #expect(SessionRecord(bytes) == nil)
        }
        #expect(SessionRecord([4, 1, 0, 0, 0, 0, 0, 0]) == nil)
        #expect(SessionRecord([4, 1, 1, 0, 0, 0, 0, 0, 0, 2]) == nil)
    }
}
