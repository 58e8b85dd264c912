internal import Glibc

/// A file that is open for reading, from any place in it. It stays the same one whatever its name stands for meanwhile.
public final class ReadFile {
    private let file: FileDescriptor
    /// How many bytes it had when it was opened.
    public let byteCount: Int

    /// Opens a file; nil when it is none, but a directory or a pipe. Waits for nobody.
    public init?(_ path: String) throws(SystemError) {
        file = try SystemCall.open(path, flags: O_RDONLY | O_NONBLOCK)
        var status = stat()
        guard fstat(file.rawValue, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            file.close()
            return nil
        }
        byteCount = Int(status.st_size)
    }

    deinit { file.close() }

    /// What stands from an offset on, at most so many bytes.
    public func bytes(from offset: Int, count: Int) throws(SystemError) -> [UInt8] {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, count), alignment: 1)
        defer { room.deallocate() }
        let read = try SystemCall.value("pread") { pread(file.rawValue, room.baseAddress, count, off_t(offset)) }
        return Array(room[..<read])
    }
}
