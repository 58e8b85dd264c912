import BrokerModel
import Testing

@testable import MartletServer
@testable import ServerLoops

@Suite struct KeptLogLinesTests {
    private func line(_ number: Int) -> LogLine { LogLine(.notice, "line \(number)", seconds: number) }

    @Test func `a line comes back as it was`() throws {
        var kept = KeptLogLines()
        let all = LogFields(client: "client", user: "", address: "::1", topic: "t/1", reason: "Zürich 温度")
        kept.add(LogLine(.error, "first", seconds: 1_700_000_000, nanoseconds: 999_999_999, fields: all))
        kept.add(LogLine(.webSockets, "", seconds: 0, fields: LogFields(user: "u", reason: "r")))
        kept.add(LogLine(.debug, "third", seconds: -1, fields: LogFields()))
        kept.add(LogLine(.information, String(repeating: "x", count: 100_000), seconds: 5))
        let lines = kept.last(10)
        try #require(lines.count == 4)
        #expect(lines.map(\.topic) == [.error, .webSockets, .debug, .information])
        #expect(lines.map(\.seconds) == [1_700_000_000, 0, -1, 5] && lines[0].nanoseconds == 999_999_999)
        #expect(lines.map(\.text.utf8.count) == [5, 0, 5, 100_000])
        let first = try #require(lines[0].fields)
        #expect([first.client, first.user, first.address, first.topic, first.reason] == ["client", "", "::1", "t/1", "Zürich 温度"])
        let second = try #require(lines[1].fields)
        #expect([second.client, second.user, second.address, second.topic, second.reason] == [nil, "u", nil, nil, "r"])
        #expect(lines[2].fields != nil && lines[2].fields?.client == nil && lines[3].fields == nil)
    }

    @Test func `the last ones are asked for, oldest first, however many blocks they fill`() {
        var kept = KeptLogLines(linesMax: 10_000, bytesMax: 10 << 20)
        #expect(kept.last(5).isEmpty)
        for number in 0..<5000 { kept.add(line(number)) }
        #expect(kept.last(3).map(\.text) == ["line 4997", "line 4998", "line 4999"])
        #expect(kept.last(3000).map(\.seconds) == Array(2000..<5000))
        #expect(kept.last(.max).map(\.seconds) == Array(0..<5000))
        #expect(kept.last(-1).isEmpty)
    }

    @Test func `at least as many lines are kept as are wanted, and not many more`() {
        var kept = KeptLogLines(linesMax: 2000, bytesMax: 10 << 20)
        for number in 0..<20_000 { kept.add(line(number)) }
        let lines = kept.last(.max)
        #expect((2000..<4000).contains(lines.count))
        #expect(lines.map(\.seconds) == Array((20_000 - lines.count)..<20_000))
    }

    @Test func `large lines are bounded in bytes`() {
        var kept = KeptLogLines(linesMax: 2000, bytesMax: 1 << 20)
        let text = String(repeating: "x", count: 10_000)
        for number in 0..<1000 { kept.add(LogLine(.notice, text, seconds: number)) }
        let lines = kept.last(.max)
        #expect((50..<105).contains(lines.count) && lines.last?.seconds == 999)
        kept.add(LogLine(.notice, String(repeating: "x", count: 2 << 20), seconds: 0))
        #expect(kept.last(.max).isEmpty)
        kept.add(line(1))
        #expect(kept.last(.max).map(\.seconds) == [1])
    }
}
