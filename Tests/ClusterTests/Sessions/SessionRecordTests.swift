import MQTTCodec
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
            identifier: Array("client".utf8), userName: "Ω", expiryInterval: .max, cursors: [0, 1 << 40])
        record.subscriptions = [
            SessionRecord.Subscription(filter: "$share/g/a/#", options: 0b101, identifier: 268_435_455, positions: [5, 6]),
            SessionRecord.Subscription(filter: "+", options: 0, identifier: 0, positions: []),
        ]
        record.wills = [
            SessionRecord.LastWill(name: WillName(epoch: 299, number: 1 << 40), delayInterval: 0, message: [1, 2, 3]),
            SessionRecord.LastWill(name: WillName(epoch: 300, number: 1), delayInterval: .max, message: [], origin: [4]),
        ]
        record.awaySince = 1_700_000_000_000
        return record
    }

    /// As nodes without wills in it write it.
    private var earlier: SessionRecord {
        var record = whole
        (record.wills, record.awaySince) = ([], 0)
        return record
    }

    @Test func `a record is read as it was written`() {
        #expect(SessionRecord(whole.encoded) == whole)
        let least = SessionRecord(epoch: 1, owners: [SessionRecord.Owner(node: NodeID(0), leaseSequence: 0)])
        #expect(SessionRecord(least.encoded) == least)
        #expect(least.encoded == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    @Test func `a record is of the earliest version that has room for what is in it`() {
        var record = earlier
        #expect(record.encoded.first == 1)
        record.saved = SessionRecord.Saved(epoch: 299, state: [1, 2, 3], places: [])
        #expect(SessionRecord(record.encoded) == record && record.encoded.first == 2)
        record.awaySince = 1
        #expect(SessionRecord(record.encoded) == record && record.encoded.first == 3)
        (record.awaySince, record.wills) = (0, whole.wills)
        #expect(SessionRecord(record.encoded) == record && record.encoded.first == 3)
        record.saved?.epoch = 0
        #expect(SessionRecord(record.encoded) == nil)
    }

    @Test func `a will of an earlier version has no number`() {
        var bytes = earlier.encoded
        #expect(bytes.removeLast() == 0)
        let read = SessionRecord(bytes + [1, 5, 7, 2, 8, 9])
        #expect(read?.wills == [SessionRecord.LastWill(name: WillName(epoch: 5, number: 0), delayInterval: 7, message: [8, 9])])
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
        let mark = SessionRecord.mark(ofEndAt: 1 << 61)
        #expect(SessionRecord.epoch(ofMark: mark) == 1 << 61 && SessionRecord(mark) == nil)
        for bytes in [[], [0], [1, 5], SessionRecord.mark(ofEndAt: 1 << 62)] as [[UInt8]] {
            #expect(SessionRecord.epoch(ofMark: bytes) == 0)
        }
    }

    @Test func `a record of another version, without a owner, or with what is no filter is refused`() {
        for version: UInt8 in [1, 2, 4] {
            var bytes = whole.encoded
            bytes[0] = version
            #expect(SessionRecord(bytes) == nil)
        }
        #expect(SessionRecord([1, 1, 0, 0, 0, 0, 0, 0, 0]) == nil)
        #expect(SessionRecord([1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 2, 35, 35, 0, 0, 0, 0]) == nil)
        #expect(SessionRecord([1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 35, 0, 0, 0, 0]) != nil)
    }
}
