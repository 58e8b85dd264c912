public import BrokerModel
import Glibc

/// One line of the log before it has a shape: what it is about, when it was said, and its text.
public struct LogLine: Sendable {
    public let topic: LogTopics
    public let text: String
    /// Since 1970.
    public let seconds: Int
    public let nanoseconds: Int
    /// What it is about, for logs that programs read; nil for nothing in particular.
    public let fields: LogFields?

    public init(_ topic: LogTopics, _ text: String, seconds: Int, nanoseconds: Int = 0, fields: LogFields? = nil) {
        self.topic = topic
        self.text = text
        self.seconds = seconds
        self.nanoseconds = nanoseconds
        self.fields = fields
    }

    /// A line that is said now.
    package init(_ topic: LogTopics, _ text: String, fields: LogFields? = nil) {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        self.init(topic, text, seconds: now.tv_sec, nanoseconds: now.tv_nsec, fields: fields)
    }

    /// This line with what could look like another one escaped.
    var escaped: LogLine { LogLine(topic, LogEscape.escaped(text), seconds: seconds, nanoseconds: nanoseconds, fields: fields) }

    /// What a full queue counts it as.
    package var byteCount: Int { text.utf8.count + (fields == nil ? 64 : 1024) }
}

/// Makes a line of the log one line: what a peer put into a name must not look like a line of ours, nor command a
/// terminal.
enum LogEscape {
    /// The text with `\u000a` and the like in place of control characters, of what else ends a line, and of what turns
    /// the direction of writing. A tab at the front is ours.
    static func escaped(_ text: String) -> String {
        guard !isPlain(text), text.utf8.contains(where: mayBegin) else { return text }
        var escaped = ""
        for (position, scalar) in text.unicodeScalars.enumerated() {
            if isHarmful(scalar), position > 0 || scalar != "\t" {
                let digits = String(scalar.value, radix: 16)
                escaped += "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
            } else {
                escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// Whether it is printable ASCII alone, as most lines are. It looks at all bytes without a branch, so that many are
    /// looked at at once.
    private static func isPlain(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { bytes in
            var other: UInt8 = 0
            for byte in bytes { other |= (byte < 0x20 ? 1 : 0) | (byte > 0x7E ? 1 : 0) }
            return other == 0
        }
    }

    /// Whether a byte may be the first one of a scalar that is harmful; most lines have none.
    private static func mayBegin(_ byte: UInt8) -> Bool {
        switch byte {
        case 0..<0x20, 0x7F, 0xC2, 0xD8, 0xE2: true
        default: false
        }
    }

    private static func isHarmful(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        // C0, DEL and C1.
        case 0..<0x20, 0x7F..<0xA0: true
        // The separators of lines and paragraphs.
        case 0x2028, 0x2029: true
        // Marks, embeddings, overrides and isolates of a direction.
        case 0x061C, 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}
