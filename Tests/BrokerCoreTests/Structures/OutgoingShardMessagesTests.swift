import MQTTCodec
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What a shard has for the others at the end of its turn.
@Suite struct OutgoingShardMessagesTests {
    private var shardMessages = OutgoingShardMessages(from: 1, shardCount: 3)

    /// Posts what there is: the shards with how much they got, and under which serial.
    private mutating func posted() -> [(shard: Int, count: Int, serial: UInt64)] {
        var posted: [(Int, Int, UInt64)] = []
        shardMessages.post { posted.append(($0, $1.shardMessages.count, $1.serial)) }
        shardMessages.checkInvariants()
        return posted
    }

    @Test mutating func `a batch goes to whom there is something for, once`() {
        shardMessages.append(.statisticsRequest, to: 2)
        shardMessages.append(.barrierPassed(token: 1), to: 2)
        #expect(shardMessages.isThere(for: 2) && !shardMessages.isThere(for: 0) && shardMessages.byteCount > 0)
        let batches = posted()
        #expect(batches.map(\.shard) == [2] && batches.map(\.count) == [2] && batches.map(\.serial) == [0])
        #expect(posted().isEmpty && shardMessages.byteCount == 0)
    }

    @Test mutating func `a serial is that of one batch`() {
        shardMessages.append(.statisticsRequest, to: 0)
        shardMessages.stamp(7, on: 0)
        shardMessages.append(.statisticsRequest, to: 2)
        #expect(posted().map(\.serial) == [7, 0])
        shardMessages.append(.statisticsRequest, to: 0)
        #expect(posted().map(\.serial) == [0])
    }

    @Test mutating func `SUBACK waits until all others have passed its barrier`() {
        let connection = ConnectionID(slot: 4, generation: 0)
        _ = shardMessages.hold(.suback(SubackPacket(packetIdentifier: 9, reasonCodes: []), []), connection, forCluster: false)
        #expect(shardMessages.isBarred)
        #expect(posted().map(\.shard) == [0, 2], "everybody but itself is asked")
        let (first, last, again) = (shardMessages.passed(1), shardMessages.passed(1), shardMessages.passed(1))
        #expect(first == nil && last?.connection == connection && again == nil)
        guard case .suback(let answer, _) = last?.answer else { return #expect(Bool(false), "not what was held") }
        #expect(answer.packetIdentifier == 9)
        #expect(!shardMessages.isBarred)
    }
}
