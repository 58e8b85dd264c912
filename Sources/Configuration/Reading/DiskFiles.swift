import Glibc
import Platform

/// The files of this machine.
public struct DiskFiles: FileSource {
    public init() {}

    public func contents(ofFile path: String, bytesMax: Int) throws(FileFailure) -> [UInt8] {
        do throws(WholeFile.Failure) {
            return try WholeFile.bytes(of: path, bytesMax: bytesMax)
        } catch {
            switch error {
            case .isDirectory:
                throw FileFailure(operation: "read", path: FullPath.of(path), errorNumber: EISDIR, reason: "Is a directory")
            case .isTooLarge:
                throw FileFailure(
                    operation: "read", path: FullPath.of(path), errorNumber: 0, reason: "It is larger than \(bytesMax) bytes")
            case .refused(let error):
                throw FileFailure(
                    operation: error.operation.description, path: FullPath.of(path), errorNumber: error.errno, reason: error.reason)
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
        return FileFailure(operation: operation, path: FullPath.of(path), errorNumber: number, reason: reason)
    }
}
