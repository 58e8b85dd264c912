import BrokerModel
import Testing

@testable import Cluster

struct SessionMessageTests {
    private let nodeMessages = [
        SessionMessage(.ask(cleanStart: true), node: NodeID(.max), epoch: 300, identifier: Array("client".utf8)),
        SessionMessage(.ask(cleanStart: false), node: NodeID(1), epoch: 1, identifier: []),
        SessionMessage(.fetch(offer: .max, number: 70_000), node: NodeID(7), epoch: 9, identifier: [0, 255]),
        SessionMessage(.drop, node: NodeID(7), epoch: 9, identifier: [1]),
        SessionMessage(.stay, node: NodeID(7), epoch: 9, identifier: [1]),
    ]
    private let answers: [SessionAnswer] = [
        .stopped(nil), .stopped(nil, hasSettledWills: true), .stopped(SessionAnswer.Offer(number: 1 << 60, epoch: 9)),
        .piece(number: 3, isLast: true, bytes: [1, 2, 3]),
        .piece(number: 0, isLast: false, bytes: []), .unknown, .dropped,
    ]

    private func nodeMessage(_ bytes: some Collection<UInt8>) -> SessionMessage? {
        Array(bytes).withUnsafeBytes { SessionMessage(reading: $0) }
    }

    private func answer(_ bytes: some Collection<UInt8>) -> SessionAnswer? {
        Array(bytes).withUnsafeBytes { SessionAnswer(reading: $0) }
    }

    @Test func `a message is read as it was written, and no part of it is one`() {
        for written in nodeMessages {
            let bytes = written.encoded
            #expect(nodeMessage(bytes) == written)
            for count in bytes.indices { #expect(nodeMessage(bytes.prefix(count)) == nil) }
        }
        #expect(nodeMessage([2] + nodeMessages[3].encoded.dropFirst()) == nil)
        #expect(nodeMessage([1, 9] + nodeMessages[3].encoded.dropFirst(2)) == nil)
    }

    @Test func `an answer is read as it was written`() {
        for written in answers { #expect(answer(written.encoded) == written) }
        #expect(answer([1, 1, 0, 0]) == nil && answer([1, 1, 0, 0, 2]) == nil)
        #expect(answer([]) == nil && answer([1]) == nil && answer([1, 5]) == nil && answer([1, 2, 0, 2]) == nil)
    }
}
