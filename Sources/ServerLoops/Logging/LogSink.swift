package import Glibc
import Platform

/// Where log lines go. Used by one thread at a time: the log's own, or whoever logs before it runs.
package protocol LogSink: AnyObject {
    /// Takes a line; it may wait in memory until `flush`.
    func write(_ line: LogLine)
    /// Lets go of what waits. May block as long as the place behind it does.
    func flush()
    /// Closes and opens the file anew, if it is one: somebody has moved it away.
    func reopen() throws(LogFileError)
    /// Makes the file belong to the user that the broker becomes, if it is one.
    func give(to user: uid_t, group: gid_t)
}

extension LogSink {
    package func flush() {}
    package func reopen() throws(LogFileError) {}
    package func give(to user: uid_t, group: gid_t) {}
}

/// A log file that cannot be opened, and why, as sentences without the last full stop.
package struct LogFileError: Error, CustomStringConvertible {
    package let path: String
    package let reason: String

    package var description: String { "Unable to open log file \(FullPath.of(path)) for writing: \(reason)." }

    package init(
        path: String, reason: String
    ) {
        self.path = path
        self.reason = reason
    }
}
