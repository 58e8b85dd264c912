internal import CLinux
internal import Glibc
internal import Platform

extension SystemCall {
    /// The numbers of errors that a caller tells apart.
    enum ErrorNumber {
        static let addressInUse = EADDRINUSE
        static let addressNotAvailable = EADDRNOTAVAIL
        static let familyNotSupported = EAFNOSUPPORT

        /// The process or the system has no descriptor left.
        static let descriptorsExhausted: [Int32] = [EMFILE, ENFILE]
        /// A connection was gone, or refused by the network, before it could be accepted: accept(2) names these as its
        /// alone.
        static let connectionGone: [Int32] = [
            ECONNABORTED, EPROTO, EPERM, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH,
            ETIMEDOUT, ECONNRESET,
        ]
    }

    static func createSocket(family: Int32) throws(SystemError) -> FileDescriptor {
        FileDescriptor(rawValue: Int32(try value("socket") { linux_stream_socket(family) }))
    }

    /// Two Unix stream sockets that are connected to each other.
    static func createSocketPair() throws(SystemError) -> (FileDescriptor, FileDescriptor) {
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        var pair: (Int32, Int32) = (-1, -1)
        try value("socketpair") {
            withUnsafeMutableBytes(of: &pair) { bytes in
                socketpair(AF_UNIX, type, 0, bytes.assumingMemoryBound(to: Int32.self).baseAddress)
            }
        }
        return (FileDescriptor(rawValue: pair.0), FileDescriptor(rawValue: pair.1))
    }

    static func setOption(
        _ socket: FileDescriptor, level: Int32, option: Int32, to setting: Int32
    ) throws(SystemError) {
        var setting = setting
        try value("setsockopt") {
            setsockopt(socket.rawValue, level, option, &setting, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    /// - Parameters:
    ///   - socket: a connection.
    ///   - seconds: how long `close` lets the kernel send what waits; with 0 it is dropped, and the peer hears of a
    ///     reset.
    static func setOption(_ socket: FileDescriptor, linger seconds: Int32) throws(SystemError) {
        var setting = Glibc.linger(l_onoff: 1, l_linger: seconds)
        try value("setsockopt") {
            setsockopt(socket.rawValue, SOL_SOCKET, SO_LINGER, &setting, socklen_t(MemoryLayout<Glibc.linger>.size))
        }
    }

    static func option(_ socket: FileDescriptor, level: Int32, option: Int32) throws(SystemError) -> Int32 {
        var setting: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        try value("getsockopt") { getsockopt(socket.rawValue, level, option, &setting, &length) }
        return setting
    }

    static func bind(
        _ socket: FileDescriptor, to address: sockaddr_storage, length: socklen_t
    ) throws(SystemError) {
        var address = address
        try value("bind") { linux_bind(socket.rawValue, &address, length) }
    }

    /// Has the kernel refuse connections, until `listen`; the socket stays bound.
    static func stopListening(_ socket: FileDescriptor) {
        _ = outcome("shutdown") { shutdown(socket.rawValue, Int32(SHUT_RD)) }
    }

    static func listen(_ socket: FileDescriptor, backlog: Int32) throws(SystemError) {
        try value("listen") { Glibc.listen(socket.rawValue, backlog) }
    }

    /// Begins to connect. Returns true when it is done already, false when the socket will become writable.
    static func connect(
        _ socket: FileDescriptor, to address: sockaddr_storage, length: socklen_t
    ) throws(SystemError) -> Bool {
        var address = address
        // Not made again after a signal: the attempt goes on, as when it had not been interrupted.
        if linux_connect(socket.rawValue, &address, length) == 0 { return true }
        let number = errno
        guard number == EINPROGRESS || number == EINTR else { throw SystemError(errno: number, operation: "connect") }
        return false
    }

    static func localAddress(_ socket: FileDescriptor) throws(SystemError) -> (sockaddr_storage, socklen_t) {
        var address = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        try value("getsockname") { linux_socket_name(socket.rawValue, &address, &length) }
        return (address, length)
    }

    /// Accepts one connection, non-blocking and close-on-exec; its descriptor is the outcome's value.
    static func accept(_ socket: FileDescriptor, peer: inout sockaddr_storage) -> Outcome {
        outcome("accept") { linux_accept(socket.rawValue, &peer) }
    }

    /// Receives into the buffer; 0 bytes are the end of the stream.
    static func receive(_ socket: FileDescriptor, into buffer: UnsafeMutableRawBufferPointer) -> Outcome {
        outcome("recv") { linux_receive(socket.rawValue, buffer.baseAddress, buffer.count) }
    }

    /// Sends one run of bytes; raises no SIGPIPE.
    static func send(_ socket: FileDescriptor, _ bytes: UnsafeRawPointer, count: Int) -> Outcome {
        outcome("send") { linux_send(socket.rawValue, bytes, count) }
    }

    /// Sends at most 1024 runs of bytes with one call; raises no SIGPIPE.
    static func send(_ socket: FileDescriptor, _ slices: UnsafePointer<iovec>, sliceCount: Int) -> Outcome {
        outcome("sendmsg") { linux_send_vector(socket.rawValue, slices, sliceCount) }
    }

    /// Ends the sending direction. A peer that has gone already is no error.
    static func shutdownSending(_ socket: FileDescriptor) {
        _ = outcome("shutdown") { shutdown(socket.rawValue, Int32(SHUT_WR)) }
    }

    /// Makes an inherited descriptor non-blocking and close-on-exec; false if there is no such descriptor.
    static func adopt(_ descriptor: FileDescriptor) -> Bool {
        let flags = fcntl(descriptor.rawValue, F_GETFL)
        return flags >= 0 && fcntl(descriptor.rawValue, F_SETFL, flags | O_NONBLOCK) == 0
            && fcntl(descriptor.rawValue, F_SETFD, FD_CLOEXEC) == 0
    }

    /// Lets a socket hear of one network interface alone.
    static func bindToDevice(_ socket: FileDescriptor, _ name: String) throws(SystemError) {
        try value("setsockopt") {
            name.withCString { setsockopt(socket.rawValue, SOL_SOCKET, SO_BINDTODEVICE, $0, socklen_t(name.utf8.count)) }
        }
    }

    /// Makes a socket another user's, as far as the kernel asks whose it is: users share ports with themselves alone.
    static func give(_ descriptor: FileDescriptor, user: UInt32, group: UInt32) {
        _ = fchown(descriptor.rawValue, user, group)
    }

    /// A second descriptor of the same socket.
    static func duplicate(_ descriptor: FileDescriptor) throws(SystemError) -> FileDescriptor {
        FileDescriptor(rawValue: Int32(try value("fcntl") { fcntl(descriptor.rawValue, F_DUPFD_CLOEXEC, 0) }))
    }
}
