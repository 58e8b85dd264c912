import BrokerCore
import BrokerModel
import Configuration
import Platform
import Testing

@testable import MartletServer
@testable import ServerLoops

/// Nothing that a peer has named makes a line of its own, or commands whoever looks at the log.
@Suite struct LogEscapeTests {
    private let forged =
        "Client x\n1700000000: New client connected\r\u{1b}[2J\u{7f}\u{85}\u{9b}\u{2028}\u{2029}\u{202e}\u{2066}\t."
    private let shown =
        "Client x\\u000a1700000000: New client connected\\u000d\\u001b[2J\\u007f\\u0085\\u009b\\u2028\\u2029\\u202e\\u2066\\u0009."

    @Test func `a line in a file stays one line, without the log's thread and with it`() throws {
        let directory = try TemporaryDirectory()
        var configuration = LoggingConfiguration()
        configuration.destinations = [.file(path: directory.file("log"))]
        configuration.hasTimestamp = false
        let log = try Log(configuration)
        log.write(.notice, forged)
        try log.start()
        log.write(.notice, forged)
        log.end(within: 60_000)
        #expect(directory.text(of: "log") == "\(shown)\n\(shown)\n")
    }

    @Test func `so it does as JSON, whose readers would take the escapes back`() throws {
        let directory = try TemporaryDirectory()
        var configuration = LoggingConfiguration()
        configuration.destinations = [.file(path: directory.file("log"))]
        configuration.hasTimestamp = false
        configuration.format = .json
        try Log(configuration).write(.notice, "a\nb")
        #expect(directory.text(of: "log") == #"{"level":"notice","message":"a\\u000ab"}"# + "\n")
    }

    @Test func `so it does below $SYS`() throws {
        var configuration = LoggingConfiguration()
        configuration.destinations = [.topic]
        configuration.hasTimestamp = false
        let log = try Log(configuration)
        let published = Published()
        log.outlet.connect { _, text in published.add(text) }
        log.write(.notice, forged)
        #expect(published.texts == [shown])
    }

    @Test func `what is harmless stays as it is`() {
        for text in ["", "Zürich 温度 🌡️ a\\b", "\ttopic (QoS 1)", "\u{a0}\u{2027}\u{202f}"] {
            #expect(LogEscape.escaped(text) == text)
        }
    }

    @Test func `why the broker ends may take more than one line`() throws {
        let directory = try TemporaryDirectory()
        var configuration = LoggingConfiguration()
        configuration.destinations = [.file(path: directory.file("log"))]
        configuration.hasTimestamp = false
        try Log(configuration).complain("one\ntwo")
        #expect(directory.text(of: "log") == "one\ntwo\n")
    }
}

private final class Published: Sendable {
    private let list = Locked<[String]>([])

    var texts: [String] { list.value }

    func add(_ text: String) { list.withLock { $0.append(text) } }
}
