import Glibc

/// Lines to the person at the terminal.
enum Console {
    static func say(_ line: String) { write(line, to: 1) }

    /// To standard error.
    static func complain(_ line: String) { write(line, to: 2) }

    private static func write(_ line: String, to descriptor: Int32) {
        var text = line + "\n"
        text.withUTF8 { _ = Glibc.write(descriptor, $0.baseAddress, $0.count) }
    }
}
