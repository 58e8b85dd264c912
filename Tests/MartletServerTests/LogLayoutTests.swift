import BrokerModel
import Configuration
import Testing

@testable import MartletServer
@testable import ServerLoops

@Suite struct LogLayoutTests {
    private let line = LogLine(.notice, "Client \"a\" said\t\u{1}é\\", seconds: 1_700_000_000, nanoseconds: 12_345_678)

    private func layout(_ change: (inout LoggingConfiguration) -> Void) -> LogLayout {
        var configuration = LoggingConfiguration()
        change(&configuration)
        return LogLayout(configuration)
    }

    @Test func `a line begins with the seconds since 1970, as mosquitto's do`() {
        #expect(layout { _ in }.render(line) == "1700000000: \(line.text)")
    }

    @Test func `the time may have a format or be left out`() {
        #expect(layout { $0.timestampFormat = "%s!" }.render(line) == "1700000000!: \(line.text)")
        #expect(layout { $0.hasTimestamp = false }.render(line) == line.text)
    }

    @Test func `a format that writes nothing leaves the seconds`() {
        #expect(layout { $0.timestampFormat = "%" }.render(line).hasSuffix(line.text))
        #expect(layout { $0.timestampFormat = String(repeating: "%A", count: 200) }.render(line) == "1700000000: \(line.text)")
    }

    @Test func `a JSON line is an object with time, level and message`() {
        #expect(
            layout { $0.format = .json }.render(line)
                == #"{"time":"2023-11-14T22:13:20.012Z","level":"notice","message":"Client \"a\" said\t\u0001é\\"}"#)
        #expect(
            layout {
                $0.format = .json
                $0.hasTimestamp = false
            }.render(LogLine(.error, "no", seconds: 0)) == #"{"level":"error","message":"no"}"#)
    }

    @Test func `a JSON line has the fields that it is about`() {
        let fields = LogFields(client: "a\"b", user: "anna", address: "::1", topic: "t/1", reason: "no")
        #expect(
            layout {
                $0.format = .json
                $0.hasTimestamp = false
            }.render(LogLine(.notice, "m", seconds: 0, fields: fields))
                == #"{"level":"notice","message":"m","client":"a\"b","user":"anna","address":"::1","topic":"t/1","reason":"no"}"#)
        #expect(layout { _ in }.render(LogLine(.notice, "m", seconds: 1, fields: fields)) == "1: m")
    }

    @Test func `somebody who watches sees a clock, and colours if they are wanted`() {
        var watched = layout { _ in }
        watched.isWatched = true
        let text = watched.render(LogLine(.error, "Error: no", seconds: 1_700_000_000))
        #expect(text.count == "hh:mm:ss Error: no".count && text.hasSuffix(" Error: no") && text.contains(":"))
        watched.hasColour = true
        watched.hasTimestamp = false
        #expect(watched.render(LogLine(.error, "Error: no", seconds: 0)) == "\u{1B}[31mError: no\u{1B}[0m")
        #expect(watched.render(LogLine(.warning, "Warning: no", seconds: 0)) == "\u{1B}[33mWarning: no\u{1B}[0m")
        #expect(watched.render(LogLine(.notice, "yes", seconds: 0)) == "yes")
    }

    @Test func `every kind of line has its topic but those about packets`() {
        #expect(TopicLog.topic(of: .error) == "$SYS/broker/log/E")
        #expect(TopicLog.topic(of: .warning) == "$SYS/broker/log/W")
        #expect(TopicLog.topic(of: .notice) == "$SYS/broker/log/N")
        #expect(TopicLog.topic(of: .information) == "$SYS/broker/log/I")
        #expect(TopicLog.topic(of: .subscribe) == "$SYS/broker/log/M/subscribe")
        #expect(TopicLog.topic(of: .unsubscribe) == "$SYS/broker/log/M/unsubscribe")
        #expect(TopicLog.topic(of: .debug) == nil)
    }
}
