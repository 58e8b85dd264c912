import Testing

@testable import Cluster

struct SessionLetterTests {
    private let letters = [
        SessionLetter(.ask(cleanStart: true), node: NodeID(.max), epoch: 300, identifier: Array("client".utf8)),
        SessionLetter(.ask(cleanStart: false), node: NodeID(1), epoch: 1, identifier: []),
        SessionLetter(.fetch(offer: .max, number: 70_000), node: NodeID(7), epoch: 9, identifier: [0, 255]),
        SessionLetter(.drop, node: NodeID(7), epoch: 9, identifier: [1]),
        SessionLetter(.stay, node: NodeID(7), epoch: 9, identifier: [1]),
    ]
    private let answers: [SessionAnswer] = [
        .stopped(nil), .stopped(nil, hasSettledWills: true), .stopped(SessionAnswer.Offer(number: 1 << 60, epoch: 9)),
        .piece(number: 3, isLast: true, bytes: [1, 2, 3]),
        .piece(number: 0, isLast: false, bytes: []), .unknown, .dropped,
    ]

    private func letter(_ bytes: some Collection<UInt8>) -> SessionLetter? {
        Array(bytes).withUnsafeBytes { SessionLetter(reading: $0) }
    }

    private func answer(_ bytes: some Collection<UInt8>) -> SessionAnswer? {
        Array(bytes).withUnsafeBytes { SessionAnswer(reading: $0) }
    }

    @Test func `a letter is read as it was written, and no part of it is one`() {
        for written in letters {
            let bytes = written.encoded
            #expect(letter(bytes) == written)
            for count in bytes.indices { #expect(letter(bytes.prefix(count)) == nil) }
        }
        #expect(letter([2] + letters[3].encoded.dropFirst()) == nil)
        #expect(letter([1, 9] + letters[3].encoded.dropFirst(2)) == nil)
    }

    @Test func `an answer is read as it was written`() {
        for written in answers { #expect(answer(written.encoded) == written) }
        #expect(answer([]) == nil && answer([1]) == nil && answer([1, 5]) == nil && answer([1, 2, 0, 2]) == nil)
    }
}
