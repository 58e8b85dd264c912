import MQTTCodec
import Testing

@testable import Cluster

/// Writes down what a writer wants.
private final class RecordedLog: LogSink {
    var lines: [String] = []
    var sizes: [Int] = []

    func store(_ record: [UInt8], messageID: String, lane: Int, number: UInt64) {
        lines.append("store \(messageID)")
        sizes.append(record.count)
    }

    func stored(_ token: UInt64, at sequence: UInt64) { lines.append("stored \(token) at \(sequence)") }

    func failed(_ token: UInt64, _ failure: LogFailure) { lines.append("failed \(token) \(failure)") }

    func take() -> [String] {
        defer { lines = [] }
        return lines
    }
}

/// Conversations of a writer with an engine of which the test plays the part.
struct LogWriterTests {
    private let log = RecordedLog()
    private let name = "000000000000000A-2-0-"

    private func makeWriter(recordBytesMax: Int = 1000) -> LogWriter {
        LogWriter(node: NodeID(10), partition: 2, recordBytesMax: recordBytesMax, outageMilliseconds: 10_000)
    }

    private func append(_ writer: inout LogWriter, _ token: UInt64, publisher: UInt64 = 0, size: Int = 10, now: UInt64 = 0) {
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        [UInt8](repeating: 97, count: size).withUnsafeBytes { payload in
            [UInt8(97)].withUnsafeBytes { topic in
                let message = BusMessage(
                    topic: topic, properties: none, payload: payload, qos: .atLeastOnce)
                writer.append(.message(message), publisher: publisher, token: token, now: now, log)
            }
        }
    }

    @Test func `what waits for a connection in vain is refused, for it is in no log`() {
        var writer = makeWriter()
        append(&writer, 1, now: 100)
        append(&writer, 2, now: 5_000)
        #expect(writer.wakesAt == 10_100)
        writer.tick(now: 10_099, log)
        #expect(log.take() == [])
        writer.tick(now: 10_100, log)
        #expect(log.take() == ["failed 1 refused", "failed 2 refused"] && writer.waitingBytes == 0 && writer.wakesAt == nil)
        append(&writer, 3, now: 20_000)
        writer.attached(now: 29_000, log)
        #expect(log.take() == ["store \(name)1"])
    }

    @Test func `a place is passed when all that a publisher had given is in the log, or given up`() {
        var writer = makeWriter()
        #expect(writer.hasPassed(writer.place(of: 4)))
        append(&writer, 1)
        writer.attached(now: 0, log)
        let first = writer.place(of: 0)
        append(&writer, 2)
        let second = writer.place(of: 4)
        append(&writer, 3)
        append(&writer, 4, publisher: 1)
        #expect(!writer.hasPassed(first) && !writer.hasPassed(second))
        writer.answered(lane: 0, number: 1, .stored(at: 1), now: 1, log)
        #expect(writer.hasPassed(first) && !writer.hasPassed(second))
        writer.answered(lane: 0, number: 2, .refused, now: 1, log)
        #expect(writer.hasPassed(second) && !writer.hasPassed(writer.place(of: 1)))
        // Nobody answers, and what waits behind goes with it.
        append(&writer, 5)
        append(&writer, 6)
        let last = writer.place(of: 0)
        writer.tick(now: 10_001, log)
        #expect(writer.hasPassed(last) && writer.hasPassed(writer.place(of: 1)))
        writer.detached()
        append(&writer, 7, now: 10_001)
        let unsent = writer.place(of: 0)
        #expect(!writer.hasPassed(unsent))
        writer.tick(now: 20_001, log)
        #expect(writer.hasPassed(unsent))
    }

    @Test func `what comes while a record is under way goes together in the next one`() {
        var writer = makeWriter()
        append(&writer, 1)
        #expect(log.take() == [])
        writer.attached(now: 0, log)
        #expect(log.take() == ["store \(name)1"])
        for token in 2...4 { append(&writer, UInt64(token)) }
        #expect(log.take() == [] && writer.recordCount == 1)
        writer.answered(lane: 0, number: 1, .stored(at: 7), now: 3, log)
        #expect(log.take() == ["stored 1 at 7", "store \(name)2"])
        writer.answered(lane: 0, number: 2, .stored(at: 9), now: 6, log)
        #expect(log.take() == ["stored 2 at 9", "stored 3 at 9", "stored 4 at 9"])
        #expect(writer.waitingBytes == 0 && writer.wakesAt == nil)
    }

    @Test func `each lane has a record under way, and a publisher one lane`() {
        var writer = makeWriter()
        writer.attached(now: 0, log)
        for token in 0..<8 { append(&writer, UInt64(token), publisher: UInt64(token)) }
        #expect(log.take() == (0..<4).map { "store 000000000000000A-2-\($0)-1" })
        writer.answered(lane: 2, number: 1, .stored(at: 1), now: 1, log)
        #expect(log.take() == ["stored 2 at 1", "store 000000000000000A-2-2-2"])
    }

    @Test func `entries are packed up to a size, and a larger one has a record of its own`() {
        var writer = makeWriter(recordBytesMax: 100)
        writer.attached(now: 0, log)
        append(&writer, 0)
        for token in 1...6 { append(&writer, UInt64(token), size: 20) }
        append(&writer, 7, size: 500)
        append(&writer, 8)
        for number in 1...5 { writer.answered(lane: 0, number: UInt64(number), .stored(at: 1), now: 1, log) }
        // The header's 11 bytes, and 6 bytes for each entry beside its payload; those of more than 127 bytes have a longer length.
        #expect(log.sizes == [27, 89, 89, 518, 27])
    }

    @Test func `without an answer the same record is sent again, under the same name`() {
        var writer = makeWriter()
        writer.attached(now: 0, log)
        append(&writer, 1)
        _ = log.take()
        #expect(writer.wakesAt == 2000)
        writer.tick(now: 1999, log)
        #expect(log.take() == [])
        writer.tick(now: 2000, log)
        #expect(log.take() == ["store \(name)1"])
        writer.answered(lane: 0, number: 1, .unavailable, now: 2100, log)
        writer.tick(now: 2350, log)
        #expect(log.take() == ["store \(name)1"])
        writer.detached()
        append(&writer, 2)
        writer.tick(now: 5000, log)
        #expect(log.take() == [])
        writer.attached(now: 6000, log)
        #expect(log.take() == ["store \(name)1"])
        writer.answered(lane: 0, number: 1, .stored(at: 4), now: 6001, log)
        writer.answered(lane: 0, number: 1, .stored(at: 4), now: 6002, log)
        #expect(log.take() == ["stored 1 at 4", "store \(name)2"])
    }

    @Test func `what is given up fails with all that waits behind it, and is not told to be stored later`() {
        var writer = makeWriter()
        writer.attached(now: 0, log)
        append(&writer, 1)
        append(&writer, 2, now: 5)
        append(&writer, 3, publisher: 1, now: 9000)
        _ = log.take()
        writer.detached()
        writer.tick(now: 10_000, log)
        #expect(log.take() == ["failed 1 unknown", "failed 2 unknown"])
        writer.answered(lane: 0, number: 1, .stored(at: 4), now: 10_001, log)
        #expect(log.take() == [])
        writer.attached(now: 10_002, log)
        append(&writer, 4, now: 10_003)
        #expect(log.take() == ["store 000000000000000A-2-1-1", "store \(name)2"])
    }

    @Test func `what the engine refuses fails alone`() {
        var writer = makeWriter()
        writer.attached(now: 0, log)
        append(&writer, 1)
        append(&writer, 2)
        _ = log.take()
        writer.answered(lane: 0, number: 1, .refused, now: 1, log)
        #expect(log.take() == ["failed 1 refused", "store \(name)2"])
    }

    @Test func `nothing more is to be read while too much waits`() {
        var writer = makeWriter()
        for token in 0..<17 { append(&writer, UInt64(token), size: 1 << 20) }
        #expect(writer.isFull)
    }
}
