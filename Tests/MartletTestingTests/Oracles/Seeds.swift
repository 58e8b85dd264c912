import Glibc
import MartletTesting
import TestBasics

/// The seeds that the oracles run: some dozens each, or what the environment says.
enum Seeds {
    private static let defaultCount: UInt64 = 25
    private static let perPart: UInt64 = 5

    static var parts: [ClosedRange<UInt64>] {
        if let seed = number("MARTLET_SEED") { return [seed...seed] }
        let count = max(1, number("MARTLET_SEEDS") ?? defaultCount)
        return stride(from: 1, through: count, by: Int(perPart)).map { $0...min(count, $0 + perPart - 1) }
    }

    private static func number(_ name: String) -> UInt64? {
        guard let text = getenv(name) else { return nil }
        return UInt64(String(cString: text))
    }
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
