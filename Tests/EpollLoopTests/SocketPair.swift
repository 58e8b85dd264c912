import Glibc

/// Two connected sockets inside the machine, non-blocking, closed at the end.
final class SocketPair {
    let near: Int32
    let far: Int32

    init() throws {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw NoSocketPair(errno: errno) }
        (near, far) = (ends[0], ends[1])
    }

    deinit {
        close(near)
        close(far)
    }

    struct NoSocketPair: Error {
        let errno: Int32
    }

    /// Makes `near` readable.
    func sayOne() {
        _ = write(far, [1] as [UInt8], 1)
    }
}
