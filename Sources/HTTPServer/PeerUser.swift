internal import Glibc
internal import Transports

/// The user at the other end of a Unix socket, as the kernel knows it since the connection was made: nobody can pretend to be another.
enum PeerUser {
    /// Its number; nil of a channel that is no Unix socket.
    static func of(_ channel: any ByteChannel) -> UInt32? {
        guard channel is SocketChannel else { return nil }
        // struct ucred: process, user, group.
        var credentials: (Int32, UInt32, UInt32) = (0, .max, .max)
        var size = socklen_t(MemoryLayout.size(ofValue: credentials))
        let result = getsockopt(channel.fileDescriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size)
        return result == 0 && credentials.1 != .max ? credentials.1 : nil
    }
}
