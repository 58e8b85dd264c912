import BrokerModel
import MQTTCodec
import Testing

@testable import Cluster

/// Writes down what a writer wants.
private final class RecordedLog: LogSink {
    var lines: [String] = []
    var sizes: [Int] = []
    var records: [[UInt8]] = []

    func store(_ record: [UInt8], messageID: String, partition: Int, queue: Int, number: UInt64) {
        lines.append("store \(messageID)")
        sizes.append(record.count)
        records.append(record)
    }

    func stored(_ waiter: LogWaiter, at sequence: UInt64, partition: Int) {
        lines.append("stored \(number(of: waiter)) at \(sequence)")
    }

    func failed(_ waiter: LogWaiter, _ failure: LogFailure, partition: Int) {
        lines.append("failed \(number(of: waiter)) \(failure)")
    }

    private func number(of waiter: LogWaiter) -> UInt64 {
        switch waiter {
        case .message(let number), .step(let number), .reader(let number): number
        case .nobody: 0
        }
    }

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

    private func attachedWriter() -> LogWriter {
        var writer = makeWriter()
        writer.attached(now: 0, log)
        return writer
    }

    private func append(_ writer: inout LogWriter, _ token: UInt64, publisher: UInt64 = 0, size: Int = 10, now: UInt64 = 0) {
        let entry = Bundle.message("a", payload: Array(repeating: 97, count: size))
        writer.append(entry[...], publisher: publisher, for: .message(batch: token), now: now, log)
    }

    @Test func `what waits when another incarnation begins fails, and the next records are that one's`() {
        var writer = attachedWriter()
        append(&writer, 1)
        append(&writer, 2)
        append(&writer, 3, publisher: 1)
        _ = log.take()
        writer.answered(queue: 1, number: 1, .stored(at: 7), now: 1, log)
        writer.detached()
        append(&writer, 4, publisher: 1)
        _ = log.take()
        writer.begin(as: NodeID(11), log)
        // Of the one under way nobody knows.
        #expect(log.take() == ["failed 1 unknown", "failed 2 unknown", "failed 4 refused"])
        #expect(writer.waitingBytes == 0 && writer.wakesAt == nil)
        append(&writer, 5)
        writer.attached(now: 2, log)
        #expect(log.take() == ["store 000000000000000B-2-0-2"])
        writer.answered(queue: 0, number: 1, .stored(at: 8), now: 3, log)
        #expect(log.take() == [])
        writer.answered(queue: 0, number: 2, .stored(at: 9), now: 3, log)
        #expect(log.take() == ["stored 5 at 9"])
        #expect(log.records.last.map { $0.withUnsafeBytes { Bundle($0)?.origin.node } } == NodeID(11))
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
        writer.answered(queue: 0, number: 1, .stored(at: 1), now: 1, log)
        #expect(writer.hasPassed(first) && !writer.hasPassed(second))
        writer.answered(queue: 0, number: 2, .refused, now: 1, log)
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

    @Test func `steps go into the record of their message`() {
        var writer = makeWriter(recordBytesMax: 60)
        let message = Bundle.message("a", payload: [97], qos: .exactlyOnce)
        for number in 1...3 as ClosedRange<UInt64> {
            let step = FlowStep(.received(digest: 5), UInt16(number), at: FlowStep.Place(epoch: 1, number: number))
            let entries = (number == 2 ? [] : message) + Bundle.step(step)
            let waiter: LogWaiter = number == 2 ? .step(batch: number) : .message(batch: number)
            writer.append(entries[...], publisher: 0, for: waiter, now: 0, log)
        }
        #expect(writer.waitingBytes == 2 * 7 + 8 + 9 + 9 - 8 + 9)
        writer.attached(now: 0, log)
        #expect(log.records.map { kinds($0) } == [["message", "1", "2", "message", "3"]])
        writer.answered(queue: 0, number: 1, .stored(at: 1), now: 1, log)
        #expect(log.take().suffix(3) == ["stored 1 at 1", "stored 2 at 1", "stored 3 at 1"] && writer.waitingBytes == 0)
        // A message and its step are in one record, however large they are.
        var small = makeWriter(recordBytesMax: 20)
        let entries = message + Bundle.step(FlowStep(.released, 9, at: FlowStep.Place(epoch: 1, number: 9)))
        small.append(entries[...], publisher: 0, for: .message(batch: 4), now: 0, log)
        small.attached(now: 0, log)
        #expect(kinds(log.records[1]) == ["message", "9"])
    }

    private func kinds(_ record: [UInt8]) -> [String] {
        var kinds: [String] = []
        record.withUnsafeBytes { bytes in
            let isWhole = Bundle.forEach(bytes) { entry in
                switch entry {
                case .message: kinds.append("message")
                case .step(_, let step): kinds.append("\(step.place.number)")
                case .will, .word: kinds.append("another")
                }
            }
            #expect(isWhole == true)
        }
        return kinds
    }

    @Test func `what comes while a record is under way goes together in the next one`() {
        var writer = makeWriter()
        append(&writer, 1)
        #expect(log.take() == [])
        writer.attached(now: 0, log)
        #expect(log.take() == ["store \(name)1"])
        for token in 2...4 { append(&writer, UInt64(token)) }
        #expect(log.take() == [] && writer.recordCount == 1)
        writer.answered(queue: 0, number: 1, .stored(at: 7), now: 3, log)
        #expect(log.take() == ["stored 1 at 7", "store \(name)2"])
        writer.answered(queue: 0, number: 2, .stored(at: 9), now: 6, log)
        #expect(log.take() == ["stored 2 at 9", "stored 3 at 9", "stored 4 at 9"])
        #expect(writer.waitingBytes == 0 && writer.wakesAt == nil)
    }

    @Test func `each queue has a record under way, and a publisher one queue`() {
        var writer = attachedWriter()
        for token in 0..<8 { append(&writer, UInt64(token), publisher: UInt64(token)) }
        #expect(log.take() == (0..<4).map { "store 000000000000000A-2-\($0)-1" })
        writer.answered(queue: 2, number: 1, .stored(at: 1), now: 1, log)
        #expect(log.take() == ["stored 2 at 1", "store 000000000000000A-2-2-2"])
    }

    @Test func `entries are packed up to a size, and a larger one has a record of its own`() {
        var writer = makeWriter(recordBytesMax: 100)
        writer.attached(now: 0, log)
        append(&writer, 0)
        for token in 1...6 { append(&writer, UInt64(token), size: 20) }
        append(&writer, 7, size: 500)
        append(&writer, 8)
        for number in 1...5 { writer.answered(queue: 0, number: UInt64(number), .stored(at: 1), now: 1, log) }
        // The header's 11 bytes, and 6 bytes for each entry beside its payload; those of more than 127 bytes have a
        // longer length.
        #expect(log.sizes == [27, 89, 89, 518, 27])
    }

    @Test func `without an answer the same record is sent again, under the same name`() {
        var writer = attachedWriter()
        append(&writer, 1)
        _ = log.take()
        #expect(writer.wakesAt == 2000)
        writer.tick(now: 1999, log)
        #expect(log.take() == [])
        writer.tick(now: 2000, log)
        #expect(log.take() == ["store \(name)1"])
        writer.answered(queue: 0, number: 1, .unavailable, now: 2100, log)
        writer.tick(now: 2350, log)
        #expect(log.take() == ["store \(name)1"])
        writer.detached()
        append(&writer, 2)
        writer.tick(now: 5000, log)
        #expect(log.take() == [])
        writer.attached(now: 6000, log)
        #expect(log.take() == ["store \(name)1"])
        writer.answered(queue: 0, number: 1, .stored(at: 4), now: 6001, log)
        writer.answered(queue: 0, number: 1, .stored(at: 4), now: 6002, log)
        #expect(log.take() == ["stored 1 at 4", "store \(name)2"])
    }

    @Test func `what is given up fails with all that waits behind it, and is not told to be stored later`() {
        var writer = attachedWriter()
        append(&writer, 1)
        append(&writer, 2, now: 5)
        append(&writer, 3, publisher: 1, now: 9000)
        _ = log.take()
        writer.detached()
        writer.tick(now: 10_000, log)
        #expect(log.take() == ["failed 1 unknown", "failed 2 unknown"])
        writer.answered(queue: 0, number: 1, .stored(at: 4), now: 10_001, log)
        #expect(log.take() == [])
        writer.attached(now: 10_002, log)
        append(&writer, 4, now: 10_003)
        #expect(log.take() == ["store 000000000000000A-2-1-1", "store \(name)2"])
    }

    @Test func `what the engine refuses fails alone`() {
        var writer = attachedWriter()
        append(&writer, 1)
        append(&writer, 2)
        _ = log.take()
        writer.answered(queue: 0, number: 1, .refused, now: 1, log)
        #expect(log.take() == ["failed 1 refused", "store \(name)2"])
    }

    @Test func `nothing more is to be read while too much waits`() {
        var writer = makeWriter()
        for token in 0..<17 { append(&writer, UInt64(token), size: 1 << 20) }
        #expect(writer.isFull)
    }

    @Test func `what a log has no room for is not there, and messages are refused until there is`() {
        var writer = attachedWriter()
        append(&writer, 1, size: 300)
        append(&writer, 2)
        #expect(log.take() == ["store \(name)1"])
        writer.answered(queue: 0, number: 1, .noRoom, now: 100, log)
        // What waits behind it might fit, and would be in front of it when that comes again.
        #expect(log.take() == ["failed 1 noRoom", "failed 2 noRoom"])
        #expect(writer.lacksRoom && writer.waitingBytes == 0 && writer.wakesAt == 1100)
        append(&writer, 3, publisher: 1, now: 200)
        #expect(log.take() == ["failed 3 noRoom"])
        // What is no message is tried, and says nothing of larger ones when it is stored.
        let step = Bundle.step(FlowStep(.released, 1, at: FlowStep.Place(epoch: 1, number: 1)))
        writer.append(step[...], publisher: 0, for: .step(batch: 4), now: 300, log)
        writer.answered(queue: 0, number: 2, .stored(at: 1), now: 400, log)
        #expect(log.take() == ["store \(name)2", "stored 4 at 1"] && writer.lacksRoom)
        writer.tick(now: 1099, log)
        #expect(log.take() == [])
        writer.tick(now: 1100, log)
        #expect(log.take() == ["store \(name)3"] && log.sizes.last.map { $0 >= log.sizes[0] } == true)
        writer.answered(queue: 0, number: 3, .noRoom, now: 1200, log)
        #expect(writer.wakesAt == 2200 && writer.lacksRoom)
        writer.tick(now: 2200, log)
        writer.answered(queue: 0, number: 4, .stored(at: 2), now: 2300, log)
        // Nobody waits for what says nothing.
        #expect(log.take() == ["failed 0 noRoom", "store \(name)4", "stored 0 at 2"])
        #expect(!writer.lacksRoom && writer.wakesAt == nil && writer.waitingBytes == 0)
        append(&writer, 5, now: 2400)
        #expect(log.take() == ["store \(name)5"])
        // Readers know of no such session, and the record can be read.
        let entries = log.records[3].withUnsafeBytes { bytes in
            var count = 0
            let isWhole = Bundle.forEach(bytes) { if case .step(_, let step) = $0, step.place.epoch == 0 { count += 1 } }
            return isWhole == true ? count : 0
        }
        #expect(entries == 1)
    }

    @Test func `a record that may have been stored before is tried on, whatever the log has room for`() {
        var writer = attachedWriter()
        append(&writer, 1)
        writer.tick(now: 2000, log)
        #expect(log.take() == ["store \(name)1", "store \(name)1"])
        writer.answered(queue: 0, number: 1, .noRoom, now: 2100, log)
        #expect(writer.lacksRoom && log.take() == [] && writer.wakesAt == 2350)
        writer.tick(now: 2350, log)
        #expect(log.take() == ["store \(name)1"])
        writer.answered(queue: 0, number: 1, .stored(at: 3), now: 2400, log)
        #expect(log.take() == ["stored 1 at 3"] && !writer.lacksRoom)
    }

    @Test func `a large record that finds no room does not have smaller ones refused for longer than it takes to look`() {
        var writer = attachedWriter()
        append(&writer, 1, size: 5000)
        writer.answered(queue: 0, number: 1, .noRoom, now: 100, log)
        #expect(writer.wakesAt == 100)
        writer.tick(now: 100, log)
        #expect(log.take() == ["store \(name)1", "failed 1 noRoom", "store \(name)2"] && log.sizes[1] < 1100)
        writer.answered(queue: 0, number: 2, .stored(at: 1), now: 110, log)
        #expect(!writer.lacksRoom)
    }
}
