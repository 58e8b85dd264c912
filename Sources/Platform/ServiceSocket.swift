internal import CLinux

/// One-way messages to the service manager that started the process.
public enum ServiceSocket {
    /// Sends a datagram to a Unix socket; `@` at the beginning of its path stands for the abstract namespace. What the manager does not
    /// take is lost.
    public static func send(_ text: String, to path: String) {
        var text = text
        text.withUTF8 { _ = linux_notify(path, $0.baseAddress, $0.count) }
    }
}
