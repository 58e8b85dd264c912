internal import Glibc
internal import Platform

/// The file that a Unix socket is bound to: it must not exist when the socket is bound, and outlives its process. It is removed when the last
/// listener that has it lets go of it.
final class UnixSocketFile: Sendable {
    private let path: String

    init(path: String) { self.path = path }

    deinit { try? SystemCall.remove(path) }

    /// Makes way for a socket: removes the file that a dead one has left behind. Throws EADDRINUSE when somebody listens there, and
    /// when the file is none of a socket.
    static func makeWay(at path: String, for address: SocketAddress) throws(SystemError) {
        guard let status = SystemCall.status(of: path) else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else { throw SystemError(errno: EADDRINUSE, operation: "bind") }
        let probe = try SystemCall.createSocket(family: AF_UNIX)
        defer { probe.close() }
        do throws(SystemError) {
            _ = try SystemCall.connect(probe, to: address.storage, length: address.length)
        } catch {
            // Nobody accepts there any more.
            guard error.errno == ECONNREFUSED else {
                throw error.errno == EAGAIN ? SystemError(errno: EADDRINUSE, operation: "bind") : error
            }
            try SystemCall.remove(path)
            return
        }
        throw SystemError(errno: EADDRINUSE, operation: "bind")
    }

    /// Owner and group may connect, as with mosquitto.
    static let mode: UInt32 = 0o770
}
