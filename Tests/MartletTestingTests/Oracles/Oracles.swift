import MQTTCodec
import MartletTesting
import TestBasics

extension Seeds {
    /// Some dozens for each oracle.
    static var ofOracles: [ClosedRange<UInt64>] { parts(25, perPart: 5) }
}

extension Simulation {
    /// Does bad things to the clients' connections, and to the clock, for so long.
    func disturb(_ clients: () -> [Client], for duration: Duration, _ random: inout SeededGenerator) async {
        let end = now + duration
        while now < end {
            await advance(by: min(end - now, .milliseconds(Int.random(in: 0...8000, using: &random))))
            guard let client = clients().randomElement(using: &random) else { continue }
            switch random.below(6) {
            case 0: cut(client, afterBytes: Int.random(in: 0...200, using: &random))
            case 1: cut(client, afterReceiving: Int.random(in: 0...200, using: &random))
            case 2:
                stall(client)
                await advance(by: .milliseconds(Int.random(in: 0...100_000, using: &random)))
                resume(client)
            case 3: jump(by: .milliseconds(Int.random(in: 0...90_000, using: &random)))
            default: client.reconnectNow()
            }
        }
    }
}

extension Simulation {
    /// Waits for tasks, but not for ever, where one that never ends would only be stopped by the number of steps.
    /// Throws what they throw.
    func end(of tasks: [Task<Void, any Error>], within duration: Duration = .seconds(7200)) async throws {
        let ended = Got()
        for (number, task) in tasks.enumerated() {
            Task {
                _ = await task.result
                ended.all.append(("", "\(number)"))
            }
        }
        let limit = now + duration
        while ended.all.count < tasks.count, now < limit { await advance(by: .seconds(1)) }
        guard ended.all.count == tasks.count else { throw Unended(count: tasks.count - ended.all.count, seed: seed) }
        for task in tasks { try await task.value }
    }

    /// Somebody waits though nothing is in the way any more.
    struct Unended: Error, CustomStringConvertible {
        let count: Int
        let seed: UInt64

        var description: String { "seed \(seed): \(count) tasks still wait long after all faults are gone" }
    }
}

extension Simulation {
    /// Whether a row on a disk ends with a message's payload, as all do that have one, and has its topic in it, unless
    /// it is an outbox's.
    func isStored(_ message: PublishPacket, in table: String, on disk: String) -> Bool {
        let rows = stored(in: table, on: disk)
        return rows.contains { row in
            row.body.suffix(message.payload.count).elementsEqual(message.payload)
                && (table == "outbox" || row.body.contains(message.topic.bytes))
        }
    }

    /// Whether a disk knows that a message of QoS 2 was received, and under which identifier: by that it is known again
    /// after a crash.
    func isReceiptStored(_ message: PublishPacket, on disk: String) -> Bool {
        message.qos != .exactlyOnce
            || stored(in: "incoming", on: disk).contains { row in
                row.key.suffix(2).reduce(0) { $0 << 8 | UInt16($1) } == message.packetIdentifier
            }
    }
}

/// What must be so of the messages that somebody got.
struct ArrivalOracle {
    /// The messages that must have come, in the order of their publication, by topic.
    var expected: [(topic: String, payload: String, qos: QoS)]

    /// - Parameters:
    ///   - mayRepeat: whether a message of QoS 1 may come several times.
    ///   - others: whether there may be messages that are not expected.
    func problems(in got: [(topic: String, payload: String)], others: Bool = false) -> [String] {
        var problems: [String] = []
        for topic in Set(expected.map(\.topic)).sorted() {
            let wanted = expected.filter { $0.topic == topic }
            let came = got.filter { $0.topic == topic }.map(\.payload)
            var lastPlace = -1
            for message in wanted {
                guard let place = came.firstIndex(of: message.payload) else {
                    problems.append("\(topic) \(message.payload) is lost")
                    continue
                }
                let count = came.count { $0 == message.payload }
                if message.qos == .exactlyOnce, count > 1 { problems.append("\(topic) \(message.payload) came \(count) times") }
                if place < lastPlace { problems.append("\(topic) \(message.payload) came too early") }
                lastPlace = place
            }
            let unknown = came.filter { payload in !wanted.contains { $0.payload == payload } }
            if !others, !unknown.isEmpty { problems.append("\(topic) \(unknown[0]) was not published") }
        }
        return problems
    }
}
