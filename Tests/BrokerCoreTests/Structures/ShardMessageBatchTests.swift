import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore

@Suite struct ShardMessageBatchTests {
    /// What the receiver reads of one piece.
    private struct Piece: Equatable {
        var kind = ShardMessageHeader.Kind.shardMessage
        var texts: [String] = []
        var session: UInt64 = 0
        var stamp: UInt64 = 0
        var receipt: UInt64 = 0
    }

    @Test func `a message goes behind 32 bytes, and 56 more if it is for one session, retained, or taken once`() {
        #expect(MemoryLayout<ShardMessageHeader>.size == 32)
        #expect(MemoryLayout<ShardMessageDetail>.size == 56)
    }

    @Test(arguments: [0, 100, 100_000]) func `what goes in comes out, in order, whatever was expected`(expected: Int) {
        let batch = ShardMessageBatch(expected: expected)
        let ledger = MessageLedger()
        var pieces: [Piece] = []
        for number in 0..<400 {
            if number % 7 == 3 {
                batch.append(.barrier(token: UInt64(number)))
                pieces.append(Piece())
                continue
            }
            let message = StructureMessage.make(
                "t/\(number)", payload: Array(String(repeating: "p", count: number % 90).utf8), ledger: ledger)
            let detail = number % 3 == 0 ? ShardMessageDetail(sessionKey: UInt64(number), stamp: .max, receipt: 5) : nil
            batch.append(Publication(message), as: detail == nil ? .publish : .shared, detail)
            pieces.append(
                Piece(
                    kind: detail == nil ? .publish : .shared, texts: ["t/\(number)", String(repeating: "p", count: number % 90)],
                    session: detail?.sessionKey ?? 0, stamp: detail?.stamp ?? 0, receipt: detail?.receipt ?? 0))
        }
        var read: [Piece] = []
        batch.forEach { header, detail, bytes in
            let topic = UnsafeRawBufferPointer(start: bytes, count: Int(header.topicLength))
            let payload = UnsafeRawBufferPointer(start: bytes + topic.count, count: Int(header.payloadLength))
            let texts = [topic, payload].map { String(decoding: $0, as: UTF8.self) }
            read.append(
                Piece(
                    kind: header.kind, texts: header.kind == .shardMessage ? [] : texts, session: detail.sessionKey,
                    stamp: detail.stamp,
                    receipt: detail.receipt))
        }
        #expect(read == pieces)
        #expect(batch.shardMessages.count == pieces.count { $0.kind == .shardMessage })
    }
}
