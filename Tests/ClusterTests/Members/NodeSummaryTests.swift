import Testing

@testable import Cluster

/// What nodes write to each other about themselves, and for administrators.
@Suite struct NodeSummaryTests {
    private func sample() -> NodeSummary {
        var summary = NodeSummary(node: NodeID(0x0123_4567_89AB_CDEF))
        (summary.name, summary.version, summary.address) = ("hall-1", "1.2.3", "hall-1.example:1883")
        (summary.startedAt, summary.clientsConnected, summary.sessions) = (1_700_000_000_000, 7, 12)
        (summary.receivedRate, summary.sentRate, summary.dropped) = (300, 900, .max)
        (summary.isDraining, summary.asks, summary.trouble) = (true, true, "the store is full")
        (summary.hasStore, summary.clock) = (true, 1_700_000_000_000)
        return summary
    }

    private func read(_ bytes: [UInt8]) -> NodeSummary? { bytes.withUnsafeBytes { NodeSummary(reading: $0) } }

    @Test func `a summary comes back as it was`() {
        #expect(read(sample().encoded) == sample())
        #expect(read(NodeSummary(node: NodeID(1)).encoded) == NodeSummary(node: NodeID(1)))
    }

    @Test func `what a later version adds is passed over`() {
        let bytes = sample().encoded + [200, 1, 3, 1, 2, 3] + [8, 1, 9]
        var expected = sample()
        expected.sentRate = 9
        #expect(read(bytes) == expected)
    }

    @Test func `bytes that are cut off or changed are refused or read, and never trap`() {
        let bytes = sample().encoded
        for count in 0..<bytes.count { _ = read(Array(bytes.prefix(count))) }
        #expect(read([]) == nil && read([2] + bytes.dropFirst()) == nil && read(Array(bytes.prefix(8))) == nil)
        for index in bytes.indices {
            for value in [0, 1, 0x7F, 0x80, 0xFF] as [UInt8] {
                var changed = bytes
                changed[index] = value
                _ = read(changed)
            }
        }
        #expect(read(bytes + Array(repeating: 0, count: 20_000)) == nil)
    }

    @Test func `long texts are cut`() {
        var summary = NodeSummary(node: NodeID(1))
        summary.trouble = String(repeating: "x", count: 5000)
        #expect(read(summary.encoded)?.trouble.utf8.count == 1024)
    }

    @Test func `questions and answers come back as they were`() {
        let question = NodeQuestion(role: "admin", method: "DELETE", target: "/a/ä?b=1", who: "bob@hall-1", cursor: "")
        #expect(question.encoded.withUnsafeBytes { NodeQuestion(reading: $0) } == question)
        let answer = NodeAnswer(status: 404, body: Array("{}".utf8))
        #expect(answer.encoded.withUnsafeBytes { NodeAnswer(reading: $0) } == answer)
        for count in 0..<question.encoded.count {
            #expect(Array(question.encoded.prefix(count)).withUnsafeBytes { NodeQuestion(reading: $0) } == nil)
        }
        for bytes in [[], [1], [2, 200, 1], [1, 50], [1, 0xFF, 0xFF]] as [[UInt8]] {
            #expect(bytes.withUnsafeBytes { NodeAnswer(reading: $0) } == nil)
        }
    }
}
