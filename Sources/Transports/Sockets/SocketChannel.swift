public import Bytes
internal import Glibc
public import Platform

/// A connection over TCP, without Nagle's delay, or over a Unix socket: non-blocking, close-on-exec.
public final class SocketChannel: ByteChannel, @unchecked Sendable {
    public let peerAddress: PeerAddress
    /// nil once it is closed.
    private var socket: FileDescriptor?

    /// Takes over a connected or connecting socket that is set up already.
    init(socket: FileDescriptor, peerAddress: PeerAddress) {
        self.socket = socket
        self.peerAddress = peerAddress
    }

    deinit {
        socket?.close()
    }

    /// Begins to connect. The channel becomes writable when it is done; then `connectionError()` tells how it went.
    ///
    /// - Parameters:
    ///   - address: the server's.
    ///   - local: of the same family, where the connection comes from; nil lets the kernel choose.
    public static func connecting(to address: SocketAddress, from local: SocketAddress? = nil) throws(SystemError) -> SocketChannel
    {
        let socket = try SystemCall.createSocket(family: address.family)
        let channel = SocketChannel(socket: socket, peerAddress: address.endpoint)
        if let local { try SystemCall.bind(socket, to: local.storage, length: local.length) }
        if address.path == nil { try SystemCall.setOption(socket, level: Int32(IPPROTO_TCP), option: TCP_NODELAY, to: 1) }
        _ = try SystemCall.connect(socket, to: address.storage, length: address.length)
        return channel
    }

    /// Takes over a socket of somebody else's, which is connected, or connecting. Throws when it is no stream socket; then it is closed.
    public static func adopting(_ descriptor: Int32) throws(SystemError) -> SocketChannel {
        let channel = SocketChannel(socket: FileDescriptor(rawValue: descriptor), peerAddress: .local)
        let kind = try SystemCall.option(FileDescriptor(rawValue: descriptor), level: SOL_SOCKET, option: SO_TYPE)
        guard kind == Int32(SOCK_STREAM.rawValue) else { throw SystemError(errno: EPROTOTYPE, operation: "connect") }
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) >= 0, fcntl(descriptor, F_SETFD, FD_CLOEXEC) >= 0 else {
            throw SystemError(errno: errno, operation: "fcntl")
        }
        return channel
    }

    /// Has the kernel find a connection over TCP dead by itself. Throws when it refuses a value.
    ///
    /// - Parameters:
    ///   - keepAlive: seconds of silence before the first probe, between two, and how many go unanswered; nil for no probes.
    ///   - userTimeout: milliseconds that sent bytes may stay unacknowledged; nil leaves it to the kernel.
    public func watch(
        keepAlive: (idle: Int, interval: Int, count: Int)?, userTimeout: Int?
    ) throws(SystemError) {
        guard let socket, peerAddress.family != .local else { return }
        let tcp = Int32(IPPROTO_TCP)
        if let keepAlive {
            try SystemCall.setOption(socket, level: SOL_SOCKET, option: SO_KEEPALIVE, to: 1)
            try SystemCall.setOption(socket, level: tcp, option: TCP_KEEPIDLE, to: Int32(clamping: keepAlive.idle))
            try SystemCall.setOption(socket, level: tcp, option: TCP_KEEPINTVL, to: Int32(clamping: keepAlive.interval))
            try SystemCall.setOption(socket, level: tcp, option: TCP_KEEPCNT, to: Int32(clamping: keepAlive.count))
        }
        if let userTimeout {
            try SystemCall.setOption(socket, level: tcp, option: TCP_USER_TIMEOUT, to: Int32(clamping: userTimeout))
        }
    }

    /// Why the connection could not be made or broke since, nil when nothing is wrong. Tells each failure once.
    public func connectionError() -> SystemError? {
        guard let socket else { return nil }
        do throws(SystemError) {
            let number = try SystemCall.option(socket, level: SOL_SOCKET, option: SO_ERROR)
            return number == 0 ? nil : SystemError(errno: number, operation: "connect")
        } catch {
            return error
        }
    }

    public var fileDescriptor: Int32 { socket?.rawValue ?? -1 }

    public func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        guard let socket else { return .endOfStream }
        precondition(!buffer.isEmpty, "an empty read looks like the end of the stream")
        return switch SystemCall.receive(socket, into: buffer) {
        case .done(0): .endOfStream
        case .done(let count): .bytes(count)
        case .wouldBlock: .wouldBlock
        case .failed(let error): .failed(error)
        }
    }

    public func write(_ slices: UnsafeBufferPointer<ByteSlice>) -> WriteResult {
        guard let socket else { return .failed(SystemError(errno: EPIPE, operation: "send")) }
        return switch Self.send(slices, to: socket) {
        case .done(let count): .wrote(count)
        case .wouldBlock: .wouldBlock
        case .failed(let error): .failed(error)
        }
    }

    public func shutdownSending() {
        guard let socket else { return }
        SystemCall.shutdownSending(socket)
    }

    public func close() {
        guard let socket else { return }
        self.socket = nil
        socket.close()
    }

    /// One slice goes by send, which spares the kernel the copy of a vector.
    private static func send(_ slices: UnsafeBufferPointer<ByteSlice>, to socket: FileDescriptor) -> SystemCall.Outcome {
        guard let vectors = slices.inputOutputVectors, !slices.isEmpty else { return .done(0) }
        if slices.count == 1 { return SystemCall.send(socket, slices[0].base, count: slices[0].count) }
        return SystemCall.send(socket, vectors, sliceCount: min(slices.count, Limits.slicesPerWriteMax))
    }
}

extension SocketChannel {
    /// Two channels, each the other's far end: a connection inside the process. Throws when the process has no descriptor left.
    package static func pair() throws(SystemError) -> (SocketChannel, SocketChannel) {
        let (first, second) = try SystemCall.createSocketPair()
        return (SocketChannel(socket: first, peerAddress: .local), SocketChannel(socket: second, peerAddress: .local))
    }
}
