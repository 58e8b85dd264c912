import Testing

@testable import Federation

/// Own messages that come back.
@Suite struct EchoFilterTests {
    private var filter = EchoFilter()

    private func bytes<Result>(_ text: String, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        Array(text.utf8).withUnsafeBytes(body)
    }

    private mutating func send(_ topic: String, _ payload: String, now: UInt64 = 0) {
        let (topic, payload) = (Array(topic.utf8), Array(payload.utf8))
        topic.withUnsafeBytes { topic in payload.withUnsafeBytes { filter.sent(topic, $0, now: now) } }
    }

    private mutating func isEcho(_ topic: String, _ payload: String, now: UInt64 = 0) -> Bool {
        let (topic, payload) = (Array(topic.utf8), Array(payload.utf8))
        return topic.withUnsafeBytes { topic in payload.withUnsafeBytes { filter.isEcho(topic, $0, now: now) } }
    }

    @Test mutating func `each message that was sent is known once`() {
        send("a", "1")
        send("a", "1")
        #expect(isEcho("a", "1"))
        #expect(isEcho("a", "1"))
        #expect(!isEcho("a", "1"))
        #expect(!isEcho("a", "2"))
        #expect(!isEcho("b", "1"))
    }

    @Test mutating func `what has not come back in time is a stranger's`() {
        send("a", "1", now: 1000)
        #expect(!isEcho("a", "1", now: 1000 + Limits.echoMillisecondsMax + 1))
        send("a", "2", now: 100_000)
        #expect(isEcho("a", "2", now: 100_000 + Limits.echoMillisecondsMax))
    }

    @Test mutating func `no more than a bounded number is awaited`() {
        for number in 0...Limits.echoesMax { send("a", "\(number)") }
        #expect(!isEcho("a", "0"))
        #expect(isEcho("a", "1"))
        #expect(isEcho("a", "\(Limits.echoesMax)"))
    }
}
