import BrokerModel
import Configuration
import Glibc
import JSON
import ServerLoops

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
        layout.hasColour = layout.isWatched && Terminal.takesColour(descriptor)
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
