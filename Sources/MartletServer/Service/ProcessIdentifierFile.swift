import EpollLoop
import Glibc

/// `pid_file`: tells scripts which process the broker is.
struct ProcessIdentifierFile {
    private let path: String

    /// Writes the process identifier, in place of what the file held.
    init(path: String) throws(ServerError) {
        self.path = path
        let descriptor = creat(path, 0o644)
        guard descriptor >= 0 else { throw Self.failure("creat", path) }
        defer { close(descriptor) }
        var text = "\(getpid())\n"
        let written = text.withUTF8 { write(descriptor, $0.baseAddress, $0.count) }
        guard written > 0 else { throw Self.failure("write", path) }
    }

    /// Takes the file away. A directory that the broker's user may not write keeps it.
    func remove() { _ = unlink(path) }

    private static func failure(_ operation: StaticString, _ path: String) -> ServerError {
        .processIdentifierFile(path: path, SystemError(errno: errno, operation: operation))
    }
}
