internal import Glibc

/// A file without a name, for this process alone: the kernel takes it back when the last use of it is over, also after a crash.
///
/// Owned by whoever made it, and used on one thread at a time.
public final class NamelessFile {
    private let file: FileDescriptor
    private var length: Int = 0

    /// Makes one in a directory that this process may write to. It has a name that nobody can know for a moment.
    public init(in directory: String) throws(SystemError) {
        let path = "\(directory)/.martlet-\(String(RandomBytes.seed(), radix: 16))"
        let flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW
        file = FileDescriptor(rawValue: Int32(try SystemCall.value("open") { Glibc.open(path, flags, 0o600) }))
        try SystemCall.remove(path)
    }

    deinit { file.close() }

    /// Writes behind what is there, all of it or nothing: what is written of bytes that do not fit is overwritten by the next.
    public func append(_ bytes: [UInt8]) throws(SystemError) {
        var written = 0
        while written < bytes.count {
            written += try SystemCall.value("pwrite") {
                bytes.withUnsafeBytes {
                    pwrite(file.rawValue, $0.baseAddress.map { $0 + written }, $0.count - written, off_t(length + written))
                }
            }
        }
        length += bytes.count
    }

    /// What stands from an offset on, at most so many bytes.
    public func bytes(from offset: Int, count: Int) throws(SystemError) -> [UInt8] {
        let wanted = min(count, max(0, length - offset))
        var bytes = [UInt8](repeating: 0, count: wanted)
        var read = 0
        while read < wanted {
            let count = try SystemCall.value("pread") {
                bytes.withUnsafeMutableBytes {
                    pread(file.rawValue, $0.baseAddress.map { $0 + read }, wanted - read, off_t(offset + read))
                }
            }
            guard count > 0 else { break }
            read += count
        }
        return Array(bytes[..<read])
    }
}
