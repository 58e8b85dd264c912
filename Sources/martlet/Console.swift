import Glibc
import MartletServer

/// Lines to the person at the terminal.
enum Console {
    static func say(_ line: String) { write(line, to: 1) }

    /// To standard error.
    static func complain(_ line: String) { write(marked(line), to: 2) }

    /// The line with its severity in a colour, where somebody sees it.
    private static func marked(_ line: String) -> String {
        guard Terminal.takesColour(2) else { return line }
        for (word, colour) in [("Error:", Terminal.Colour.red), ("Warning:", .yellow)] where line.hasPrefix(word) {
            return Terminal.coloured(word, colour) + line.dropFirst(word.count)
        }
        return line
    }

    /// To standard error, and the cursor stays behind it.
    static func prompt(_ text: String) { put(text, to: 2) }

    private static func write(_ line: String, to descriptor: Int32) {
        put(line + "\n", to: descriptor)
    }

    /// The text as it is. What does not go out is lost: whoever read it has gone.
    static func put(_ text: String, to descriptor: Int32) { put(Array(text.utf8), to: descriptor) }

    static func put(_ bytes: [UInt8], to descriptor: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 || errno == EINTR else { return }
            rest = rest.dropFirst(max(0, count))
        }
    }
}
