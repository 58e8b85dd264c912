import Glibc
import Platform

/// `pid_file`: tells scripts which process the broker is.
struct ProcessIdentifierFile {
    private let path: String

    /// Writes the process identifier, in place of what the file held.
    init(path: String) throws(ServerError) {
        self.path = path
        do throws(SystemError) {
            let file = try WrittenFile.openEmptied(path, mode: 0o644)
            defer { file.close() }
            var text = "\(getpid())\n"
            let written = text.withUTF8 { write(file.rawValue, $0.baseAddress, $0.count) }
            guard written > 0 else { throw SystemError(errno: errno, operation: "write") }
        } catch {
            throw .processIdentifierFile(path: path, reason: ServerError.reason(for: error, writing: path))
        }
    }

    /// Takes the file away. A directory that the broker's user may not write keeps it.
    func remove() { _ = unlink(path) }
}
