import Glibc

/// The files of this machine.
public struct DiskFiles: FileSource {
    public init() {}

    public func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("open", path) }
        defer { _ = close(descriptor) }

        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count == 0 { return bytes }
            if count < 0 {
                if errno == EINTR { continue }
                throw failure("read", path)
            }
            bytes += chunk[..<count]
            guard bytes.count <= bytesMax else {
                throw FileFailure(
                    operation: "read", path: path, errorNumber: 0, reason: "It is larger than \(bytesMax) bytes")
            }
        }
    }

    public func names(inDirectory path: String) throws(FileFailure) -> [String] {
        guard let directory = opendir(path) else { throw failure("opendir", path) }
        defer { _ = closedir(directory) }

        var names: [String] = []
        while let entry = readdir(directory) {
            // The name is a C string of at most 256 bytes inside the entry, which lives until the next readdir.
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names
    }

    private func failure(_ operation: String, _ path: String) -> FileFailure {
        let number = errno
        let reason = strerror(number).map { String(cString: $0) } ?? "error \(number)"
        return FileFailure(operation: operation, path: path, errorNumber: number, reason: reason)
    }
}
