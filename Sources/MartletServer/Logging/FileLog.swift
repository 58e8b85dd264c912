import Glibc
import Platform
import ServerLoops

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
