import Glibc

/// Lines to the person at the terminal.
enum Console {
    static func say(_ line: String) { write(line, to: 1) }

    /// To standard error.
    static func complain(_ line: String) { write(line, to: 2) }

    /// To standard error, and the cursor stays behind it.
    static func prompt(_ text: String) { put(text, to: 2) }

    private static func write(_ line: String, to descriptor: Int32) {
        put(line + "\n", to: descriptor)
    }

    private static func put(_ text: String, to descriptor: Int32) {
        var text = text
        text.withUTF8 { _ = Glibc.write(descriptor, $0.baseAddress, $0.count) }
    }
}
