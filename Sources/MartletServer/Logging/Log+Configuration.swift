import BrokerModel
public import Configuration
import Glibc
import JSON
import Platform
public import ServerLoops

extension Log {
    /// The log that a configuration asks for. Throws when a file cannot be opened.
    public convenience init(_ configuration: LoggingConfiguration) throws(ServerError) {
        let outlet = LogOutlet()
        let sinks = try Self.sinks(for: configuration, outlet)
        do throws(SystemError) {
            try self.init(sinks: sinks, topics: Self.topics(of: configuration), outlet: outlet)
        } catch {
            throw .system(error)
        }
    }

    /// Goes on as another configuration asks. Throws, and goes on as before, when a file cannot be opened.
    func apply(_ configuration: LoggingConfiguration) throws(ServerError) {
        go(on: try Self.sinks(for: configuration, outlet), Self.topics(of: configuration))
    }

    private static func sinks(for configuration: LoggingConfiguration, _ outlet: LogOutlet) throws(ServerError) -> [any LogSink] {
        let layout = LogLayout(configuration)
        var sinks: [any LogSink] = []
        for destination in configuration.destinations {
            switch destination {
            case .standardOutput: sinks.append(DescriptorLog(descriptor: 1, layout: layout.shown(on: 1)))
            case .standardError: sinks.append(DescriptorLog(descriptor: 2, layout: layout.shown(on: 2)))
            case .syslog: sinks.append(SystemLog(localFacility: configuration.syslogLocalFacility, layout: layout))
            case .topic: sinks.append(TopicLog(layout: layout, outlet: outlet))
            case .file(let path): sinks.append(try file(path, layout))
            }
        }
        return sinks
    }

    private static func topics(of configuration: LoggingConfiguration) -> LogTopics {
        guard !configuration.destinations.isEmpty else { return [] }
        var topics: LogTopics = []
        let pairs: [(LogTypes, LogTopics)] = [
            (.error, .error), (.warning, .warning), (.notice, .notice), (.information, .information), (.debug, .debug),
            (.subscribe, .subscribe), (.unsubscribe, .unsubscribe), (.internal, .internalEvents),
            (.webSockets, .webSockets),
        ]
        for (type, topic) in pairs where configuration.types.contains(type) { topics.insert(topic) }
        return topics
    }

    private static func file(_ path: String, _ layout: LogLayout) throws(ServerError) -> FileLog {
        do throws(LogFileError) {
            return try FileLog(path: path, layout: layout)
        } catch {
            throw .logFile(path: error.path, reason: error.reason)
        }
    }
}

/// Lines to standard output or standard error.
final class DescriptorLog: LogSink {
    private let descriptor: Int32
    private let layout: LogLayout
    private var buffer = LineBuffer()

    init(descriptor: Int32, layout: LogLayout) {
        self.descriptor = descriptor
        self.layout = layout
    }

    func write(_ line: LogLine) {
        buffer.append(line, as: layout)
        if buffer.isFull { flush() }
    }

    func flush() { buffer.flush(to: descriptor) }
}

/// Lines to the machine's log. The time is the machine log's business.
final class SystemLog: LogSink {
    private let format: LogLayout

    /// `localFacility`: N of LOCALN; nil is DAEMON.
    init(localFacility: Int?, layout: LogLayout) {
        var format = layout
        format.hasTimestamp = false
        self.format = format
        Syslog.open(name: "martlet", localFacility: localFacility)
    }

    func write(_ line: LogLine) { Syslog.write(Self.severity(of: line.topic), format.render(line)) }

    private static func severity(of topic: LogTopics) -> Syslog.Severity {
        switch topic {
        case .error: .error
        case .warning: .warning
        case .information: .information
        case .debug, .internalEvents, .webSockets: .debug
        default: .notice
        }
    }
}

/// Lines as messages below `$SYS/broker/log`.
///
/// Lines about packets are left out, as mosquitto leaves them out: each message would make new ones.
final class TopicLog: LogSink {
    private let layout: LogLayout
    private let outlet: LogOutlet

    init(layout: LogLayout, outlet: LogOutlet) {
        self.layout = layout
        self.outlet = outlet
    }

    func write(_ line: LogLine) {
        guard let topic = Self.topic(of: line.topic) else { return }
        outlet.publish(topic, layout.render(line))
    }

    /// mosquitto's name for where a line goes; nil for lines that are not published.
    static func topic(of topic: LogTopics) -> String? {
        switch topic {
        case .error: "$SYS/broker/log/E"
        case .warning: "$SYS/broker/log/W"
        case .notice: "$SYS/broker/log/N"
        case .information: "$SYS/broker/log/I"
        case .subscribe: "$SYS/broker/log/M/subscribe"
        case .unsubscribe: "$SYS/broker/log/M/unsubscribe"
        case .webSockets: "$SYS/broker/log/WS"
        default: nil
        }
    }
}

/// Lines to the end of a file.
final class FileLog: LogSink {
    let path: String
    private let layout: LogLayout
    private var buffer = LineBuffer()
    private var descriptor: FileDescriptor

    /// Opens the file, or makes it, readable for its owner and group.
    init(path: String, layout: LogLayout) throws(LogFileError) {
        self.path = path
        self.layout = layout
        descriptor = try Self.open(path)
    }

    deinit { descriptor.close() }

    func write(_ line: LogLine) {
        buffer.append(line, as: layout)
        if buffer.isFull { flush() }
    }

    func flush() { buffer.flush(to: descriptor.rawValue) }

    /// Goes on with the old file when the new one cannot be had.
    func reopen() throws(LogFileError) {
        flush()
        let opened = try Self.open(path)
        descriptor.close()
        descriptor = opened
    }

    func give(to user: uid_t, group: gid_t) {
        // A directory that is closed to that user makes the next opening fail, which is told then.
        WrittenFile.give(descriptor, toUser: user, group: group)
    }

    private static func open(_ path: String) throws(LogFileError) -> FileDescriptor {
        do throws(SystemError) {
            return try WrittenFile.openAppended(path)
        } catch {
            throw LogFileError(path: path, reason: ServerError.reason(for: error, writing: path))
        }
    }
}

/// Lines on their way to a descriptor: many with one write, and never half a line in it unless the line is too large
/// for it.
struct LineBuffer {
    private var bytes: [UInt8] = []

    mutating func append(_ line: LogLine, as layout: LogLayout) {
        if layout.isCustomary {
            append(number: UInt64(max(0, line.seconds)))
            append(": ")
            append(line.text)
        } else {
            append(layout.render(line))
        }
        bytes.append(UInt8(ascii: "\n"))
    }

    private mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { bytes.append(contentsOf: $0) }
    }

    private mutating func append(number: UInt64) {
        var divisor: UInt64 = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
    }

    var isFull: Bool { bytes.count >= Limits.logLineBytesMax }

    /// Writes all of it. What the descriptor does not take is given up: a log that nobody can read must not stop the
    /// broker.
    mutating func flush(to descriptor: Int32) {
        defer { bytes.removeAll(keepingCapacity: bytes.capacity <= 4 * Limits.logLineBytesMax) }
        bytes.withUnsafeBytes { bytes in
            var offset = 0
            while offset < bytes.count {
                let written = write(descriptor, bytes.baseAddress.map { $0 + offset }, bytes.count - offset)
                if written > 0 {
                    offset += written
                } else if written < 0, errno == EAGAIN {
                    // Somebody made the terminal or pipe that we share non-blocking.
                    var entry = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    guard poll(&entry, 1, -1) >= 0 || errno == EINTR else { return }
                } else if written == 0 || errno != EINTR {
                    return
                }
            }
        }
    }
}

/// How a line looks: mosquitto's `1700000000: text`, with another time or none, or a JSON object.
struct LogLayout: Sendable {
    var hasTimestamp = true
    /// For strftime; nil for seconds since 1970, or in JSON for RFC 3339.
    var timestampFormat: String?
    var format = LogFormat.text
    /// Whether somebody reads along: the time is a clock's then, if no other format is asked for.
    var isWatched = false
    var hasColour = false

    init() {}

    init(_ configuration: LoggingConfiguration) {
        hasTimestamp = configuration.hasTimestamp
        timestampFormat = configuration.timestampFormat
        format = configuration.format
    }

    /// Whether lines look as mosquitto's do where nothing is said: `LineBuffer` writes them itself then.
    var isCustomary: Bool { format == .text && hasTimestamp && timestampFormat == nil && !isWatched }

    /// The line without an end of line.
    func render(_ line: LogLine) -> String {
        switch format {
        case .text: isWatched ? watched(line) : hasTimestamp ? "\(timestamp(of: line)): \(line.text)" : line.text
        case .json: json(line)
        }
    }

    /// The layout as a terminal shows it; unchanged elsewhere, and for a log that is no text.
    func shown(on descriptor: Int32) -> LogLayout {
        var layout = self
        layout.isWatched = format == .text && Terminal.isAttached(to: descriptor)
        layout.hasColour = layout.isWatched && Terminal.supportsColour(descriptor)
        return layout
    }

    private func watched(_ line: LogLine) -> String {
        let time = timestampFormat == nil ? Self.formatted(line.seconds, "%H:%M:%S", localtime_r) : nil
        let stamp = hasTimestamp ? "\(time ?? timestamp(of: line)) " : ""
        guard hasColour else { return stamp + line.text }
        return (stamp.isEmpty ? "" : Terminal.coloured(stamp, .faint))
            + (line.topic.colour.map { Terminal.coloured(line.text, $0) } ?? line.text)
    }

    private func json(_ line: LogLine) -> String {
        var object = JSONObject()
        if hasTimestamp { object.set("time", timestamp(of: line)) }
        object.set("level", line.topic.word)
        object.set("message", line.text)
        if let fields = line.fields {
            let named = [
                ("client", fields.client), ("user", fields.user), ("address", fields.address), ("topic", fields.topic),
                ("reason", fields.reason),
            ]
            for (name, value) in named { if let value { object.set(name, value) } }
        }
        return object.text
    }

    private func timestamp(of line: LogLine) -> String {
        if let timestampFormat { return Self.formatted(line.seconds, timestampFormat, localtime_r) ?? String(line.seconds) }
        switch format {
        case .text: return String(line.seconds)
        case .json:
            guard let second = Self.formatted(line.seconds, "%Y-%m-%dT%H:%M:%S", gmtime_r) else { return String(line.seconds) }
            let milliseconds = String(1000 + line.nanoseconds / 1_000_000).dropFirst()
            return "\(second).\(milliseconds)Z"
        }
    }

    private static func formatted(
        _ seconds: Int, _ format: String, _ split: (UnsafePointer<time_t>, UnsafeMutablePointer<tm>) -> UnsafeMutablePointer<tm>?
    ) -> String? {
        var seconds = seconds
        var parts = tm()
        guard split(&seconds, &parts) != nil else { return nil }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let start = buffer.baseAddress, strftime(start, buffer.count, format, &parts) > 0 else { return nil }
            return String(cString: start)
        }
    }
}

extension LogTopics {
    /// What it is shown in; nil for a terminal's own.
    fileprivate var colour: Terminal.Colour? {
        switch self {
        case .error: .red
        case .warning: .yellow
        case .debug: .faint
        default: nil
        }
    }

    /// As `log_type` names it.
    var word: String {
        switch self {
        case .debug: "debug"
        case .error: "error"
        case .warning: "warning"
        case .notice: "notice"
        case .information: "information"
        case .subscribe: "subscribe"
        case .unsubscribe: "unsubscribe"
        case .internalEvents: "internal"
        case .webSockets: "websockets"
        default: "notice"
        }
    }
}

/// Whether somebody watches a descriptor, and in colour.
public enum Terminal {
    /// Whether a descriptor is a terminal.
    public static func isAttached(to descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

    /// Whether colours are wanted there: not where NO_COLOR has a value, and not where the terminal calls itself dumb.
    public static func supportsColour(_ descriptor: Int32) -> Bool {
        guard isAttached(to: descriptor) else { return false }
        if let wish = getenv("NO_COLOR"), wish.pointee != 0 { return false }
        return getenv("TERM").map { String(cString: $0) != "dumb" } ?? false
    }

    /// A text between the sequences that give it a colour and take it away.
    public static func coloured(_ text: String, _ colour: Colour) -> String { "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m" }

    /// The colours in use, by their numbers in ECMA-48.
    public enum Colour: String {
        case red = "31"
        case yellow = "33"
        case faint = "2"
    }
}

/// A number with what it counts, to stand in a sentence: `1 session`, `2 sessions`.
enum CountedNoun {
    static func text(_ count: some BinaryInteger, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
}

extension Limits {
    /// Bytes gathered before they are written to a log.
    static let logLineBytesMax = 64 << 10
}
