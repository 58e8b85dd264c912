import Glibc

/// Where log lines go. Used by one thread at a time: the log's own, or whoever logs before it runs.
protocol LogSink: AnyObject {
    /// Takes a line; it may wait in memory until `flush`.
    func write(_ line: LogLine)
    /// Lets go of what waits. May block as long as the place behind it does.
    func flush()
    /// Closes and opens the file anew, if it is one: somebody has moved it away.
    func reopen() throws(ServerError)
    /// Makes the file belong to the user that the broker becomes, if it is one.
    func give(to user: uid_t, group: gid_t)
}

extension LogSink {
    func flush() {}
    func reopen() throws(ServerError) {}
    func give(to user: uid_t, group: gid_t) {}
}
