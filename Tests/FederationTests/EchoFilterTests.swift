import MQTTCodec
import Testing

@testable import Federation

/// Own messages that come back.
@Suite struct EchoFilterTests {
    private var filter = EchoFilter()

    private static func with<Result>(
        _ topic: EncodedString, _ payload: String, _ identifier: UInt16, _ duplicate: Bool,
        _ body: (PublishView, UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result {
        let bytes = ControlPacket.publish(
            PublishPacket(
                topic: topic, packetIdentifier: identifier == 0 ? nil : identifier,
                qos: identifier == 0 ? .atMostOnce : .exactlyOnce,
                duplicate: duplicate, payload: Array(payload.utf8))
        ).encoded(version: .v311)
        return try bytes.withUnsafeBytes { all in
            let rest = UnsafeRawBufferPointer(rebasing: all[2...])
            let view = try PublishView.decode(firstByte: all[0], body: rest, version: .v311, from: .server)
            return try body(view, view.topic)
        }
    }

    private mutating func send(_ topic: EncodedString, _ payload: String, again: Bool = false, now: UInt64 = 0) throws {
        try Self.with(topic, payload, again ? 9 : 0, again) { filter.sent($0, $1, now: now) }
    }

    private mutating func isEcho(
        _ topic: EncodedString, _ payload: String, _ identifier: UInt16 = 0, again: Bool = false, now: UInt64 = 0
    ) throws -> Bool {
        try Self.with(topic, payload, identifier, again) { filter.isEcho($0, $1, now: now) }
    }

    @Test mutating func `what the other broker repeats is known again, until another message has its packet identifier`() throws {
        try send("a", "1")
        #expect(try isEcho("a", "1", 5))
        #expect(try isEcho("a", "1", 5, again: true))
        #expect(try !isEcho("a", "1", 6, again: true))
        #expect(try !isEcho("a", "2", 5))
        #expect(try !isEcho("a", "1", 5, again: true))
    }

    @Test mutating func `what comes for the first time may say that it is a repetition`() throws {
        try send("a", "1")
        #expect(try isEcho("a", "1", 5, again: true))
    }

    @Test mutating func `what is sent again comes back once`() throws {
        try send("a", "1")
        try send("a", "1", again: true)
        #expect(try isEcho("a", "1", 5))
        #expect(try !isEcho("a", "1", 6))
        // Of one that an earlier process has sent nothing is known.
        try send("a", "2", again: true)
        #expect(try isEcho("a", "2", 7))
    }

    @Test mutating func `the time without a connection does not count`() throws {
        try send("a", "1", now: 1000)
        filter.goOn(now: 1_000_000)
        #expect(try isEcho("a", "1", now: 1_000_000 + Limits.echoMillisecondsMax))
    }

    @Test mutating func `each message that was sent is known once`() throws {
        try send("a", "1")
        try send("a", "1")
        #expect(try isEcho("a", "1"))
        #expect(try isEcho("a", "1"))
        #expect(try !isEcho("a", "1"))
        #expect(try !isEcho("a", "2"))
        #expect(try !isEcho("b", "1"))
    }

    @Test mutating func `what has not come back in time is a stranger's`() throws {
        try send("a", "1", now: 1000)
        #expect(try !isEcho("a", "1", now: 1000 + Limits.echoMillisecondsMax + 1))
        try send("a", "2", now: 100_000)
        #expect(try isEcho("a", "2", now: 100_000 + Limits.echoMillisecondsMax))
    }

    @Test mutating func `no more than a bounded number is awaited`() throws {
        for number in 0...Limits.echoesMax { try send("a", "\(number)") }
        #expect(try !isEcho("a", "0"))
        #expect(try isEcho("a", "1"))
        #expect(try isEcho("a", "\(Limits.echoesMax)"))
    }
}
