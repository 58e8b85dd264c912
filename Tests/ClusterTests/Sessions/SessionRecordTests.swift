import MQTTCodec
import Testing

@testable import Cluster

struct SessionRecordTests {
    private var whole: SessionRecord {
        var record = SessionRecord(
            epoch: 300,
            keepers: [
                SessionRecord.Keeper(node: NodeID(.max), leaseSequence: 7),
                SessionRecord.Keeper(node: NodeID(1), leaseSequence: 200),
            ],
            identifier: Array("client".utf8), userName: "Ω", expiryInterval: .max, cursors: [0, 1 << 40])
        record.subscriptions = [
            SessionRecord.Subscription(filter: "$share/g/a/#", options: 0b101, identifier: 268_435_455, positions: [5, 6]),
            SessionRecord.Subscription(filter: "+", options: 0, identifier: 0, positions: []),
        ]
        record.wills = [
            SessionRecord.LastWill(epoch: 299, delayInterval: 0, message: [1, 2, 3]),
            SessionRecord.LastWill(epoch: 300, delayInterval: .max, message: []),
        ]
        return record
    }

    @Test func `a record is read as it was written`() {
        #expect(SessionRecord(whole.encoded) == whole)
        let least = SessionRecord(epoch: 1, keepers: [SessionRecord.Keeper(node: NodeID(0), leaseSequence: 0)])
        #expect(SessionRecord(least.encoded) == least)
        #expect(least.encoded == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    @Test func `a record with what was saved is read as it was written, and is of the next version`() {
        var record = whole
        record.saved = SessionRecord.Saved(epoch: 299, state: [1, 2, 3], places: [])
        #expect(SessionRecord(record.encoded) == record)
        #expect(record.encoded.first == 2 && whole.encoded.first == 1)
        record.saved?.epoch = 0
        #expect(SessionRecord(record.encoded) == nil)
    }

    @Test(arguments: [false, true]) func `no part of a record is one, nor what has more behind it`(isSaved: Bool) {
        var record = whole
        if isSaved { record.saved = SessionRecord.Saved(epoch: 300, state: [1], places: [2, 3]) }
        let bytes = record.encoded
        for count in 0..<bytes.count { #expect(SessionRecord(Array(bytes.prefix(count))) == nil) }
        #expect(SessionRecord(bytes + [0]) == nil)
    }

    @Test func `a record of another version, without a keeper, or with what is no filter is refused`() {
        var bytes = whole.encoded
        bytes[0] = 2
        #expect(SessionRecord(bytes) == nil)
        #expect(SessionRecord([1, 1, 0, 0, 0, 0, 0, 0, 0]) == nil)
        #expect(SessionRecord([1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 2, 35, 35, 0, 0, 0, 0]) == nil)
        #expect(SessionRecord([1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 35, 0, 0, 0, 0]) != nil)
    }
}
