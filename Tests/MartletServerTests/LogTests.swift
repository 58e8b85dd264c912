import BrokerCore
import BrokerModel
import Configuration
import Glibc
import Platform
import Testing

@testable import MartletServer
@testable import ServerLoops

@Suite(.timeLimit(.minutes(10))) struct LogTests {
    private func configuration(_ path: String) -> LoggingConfiguration {
        var configuration = LoggingConfiguration()
        configuration.destinations = [.file(path: path)]
        configuration.hasTimestamp = false
        return configuration
    }

    @Test func `a file grows, line by line, before and after the log's thread runs`() throws {
        let directory = try TemporaryDirectory()
        let log = try Log(configuration(directory.file("log")))
        log.write(.notice, "one")
        #expect(directory.text(of: "log") == "one\n")
        try log.start()
        log.write(.notice, "two")
        log.write(.debug, "unwanted")
        log.end(within: 60_000)
        #expect(directory.text(of: "log") == "one\ntwo\n")
        log.write(.notice, "three")
        #expect(directory.text(of: "log") == "one\ntwo\nthree\n")
    }

    @Test func `a line in a file looks as the layout says, whatever is asked for`() throws {
        let formats: [(inout LoggingConfiguration) -> Void] = [
            { _ in }, { $0.hasTimestamp = false }, { $0.timestampFormat = "%s!" }, { $0.format = .json },
        ]
        for change in formats {
            let directory = try TemporaryDirectory()
            var configuration = LoggingConfiguration()
            configuration.destinations = [.file(path: directory.file("log"))]
            change(&configuration)
            let layout = LogLayout(configuration)
            let sink = try FileLog(path: directory.file("log"), layout: layout)
            let lines = [0, 9, 10, 1_700_000_000].map { LogLine(.notice, "é \($0)", seconds: $0) }
            for line in lines { sink.write(line) }
            sink.flush()
            #expect(directory.text(of: "log") == lines.map { layout.render($0) + "\n" }.joined())
        }
    }

    @Test func `lines of several threads come whole and in each thread's order`() throws {
        let directory = try TemporaryDirectory()
        let log = try Log(configuration(directory.file("log")))
        try log.start()
        let threads = try (0..<4).map { number in
            try NamedThread.start(name: "test") { for line in 0..<2000 { log.write(.notice, "\(number) \(line)") } }
        }
        for thread in threads { thread.join() }
        log.end(within: 60_000)
        let lines = try #require(directory.text(of: "log")).split(separator: "\n")
        #expect(lines.count == 8000)
        for number in 0..<4 {
            #expect(lines.filter { $0.hasPrefix("\(number) ") }.map(String.init) == (0..<2000).map { "\(number) \($0)" })
        }
    }

    @Test func `a file that was moved away is made anew`() throws {
        let directory = try TemporaryDirectory()
        let log = try Log(configuration(directory.file("log")))
        log.write(.notice, "one")
        rename(directory.file("log"), directory.file("old"))
        log.write(.notice, "two")
        log.reopen()
        log.write(.notice, "three")
        #expect(directory.text(of: "old") == "one\ntwo\n")
        #expect(directory.text(of: "log") == "three\n")
    }

    @Test func `a file that cannot be opened is named, with the reason`() throws {
        let error = #expect(throws: ServerError.self) { _ = try Log(configuration("/nowhere/log")) }
        #expect(
            error?.description
                == "Unable to open log file /nowhere/log for writing: the directory /nowhere does not exist. Make it: mkdir -p /nowhere."
        )
    }

    @Test func `a change that cannot be made leaves the log as it was`() throws {
        let directory = try TemporaryDirectory()
        let log = try Log(configuration(directory.file("log")))
        #expect(throws: ServerError.self) { try log.apply(configuration("/nowhere/log")) }
        log.write(.notice, "still here")
        #expect(directory.text(of: "log") == "still here\n")
        try log.apply(configuration(directory.file("other")))
        log.write(.notice, "elsewhere")
        #expect(directory.text(of: "other") == "elsewhere\n")
    }

    @Test func `a log that nobody reads holds nobody up, and what is lost is told`() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        let writer = try LogWriter(sinks: [DescriptorLog(descriptor: ends[1], layout: LogLayout())])
        try writer.start()
        let text = String(repeating: "x", count: 1 << 20)
        for _ in 0..<40 { writer.write(LogLine(.notice, text, seconds: 0)) }
        let reader = try NamedThread.start(name: "test") { [descriptor = ends[0]] in
            var part = [UInt8](repeating: 0, count: 1 << 16)
            var lines = ""
            while true {
                let count = read(descriptor, &part, part.count)
                guard count > 0 else { break }
                lines += String(decoding: part[..<count].filter { $0 != UInt8(ascii: "x") }, as: UTF8.self)
            }
            #expect(lines.contains("log lines were dropped"))
        }
        writer.end(within: 60_000)
        close(ends[1])
        reader.join()
    }

    @Test func `an end waits no longer than it may`() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        let writer = try LogWriter(sinks: [DescriptorLog(descriptor: ends[1], layout: LogLayout())])
        try writer.start()
        for _ in 0..<4 { writer.write(LogLine(.notice, String(repeating: "x", count: 1 << 20), seconds: 0)) }
        writer.end(within: 50)
        // The writer's thread ends once its reader is gone; SIGPIPE is not for this process.
        SignalSource.ignore(SIGPIPE)
        close(ends[0])
    }

    @Test func `without a destination nothing is wanted`() throws {
        var configuration = LoggingConfiguration()
        configuration.destinations = []
        #expect(try Log(configuration).topics == [])
    }
}
