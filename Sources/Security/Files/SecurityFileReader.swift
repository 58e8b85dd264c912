internal import Glibc

/// Reads a file of users, rules or keys from the disk.
enum SecurityFileReader {
    static func contents(of path: String) throws(SecurityFileError) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("cannot be opened", path) }
        defer { _ = close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure("cannot be read", path) }
        guard status.st_mode & S_IFMT != S_IFDIR else { throw SecurityFileError(file: path, message: "is a directory.") }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count == 0 { return bytes }
            if count < 0 {
                if errno == EINTR { continue }
                throw failure("cannot be read", path)
            }
            bytes += chunk[..<count]
            guard bytes.count <= Limits.fileBytesMax else {
                throw SecurityFileError(file: path, message: "is larger than \(Limits.fileBytesMax >> 20) MiB.")
            }
        }
    }

    private static func failure(_ what: String, _ path: String) -> SecurityFileError {
        let number = errno
        return SecurityFileError(
            file: path, message: "\(what): \(strerror(number).map { String(cString: $0) } ?? "error \(number)").")
    }
}
