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

    /// Takes over a socket of somebody else's, which is connected, or connecting. Throws when it is no stream socket;
    /// then it is closed.
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
    ///   - keepAlive: seconds of silence before the first probe, between two, and how many go unanswered; nil for no
    ///     probes.
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
    /// Two channels, each the other's far end: a connection inside the process. Throws when the process has no
    /// descriptor left.
    package static func pair() throws(SystemError) -> (SocketChannel, SocketChannel) {
        let (first, second) = try SystemCall.createSocketPair()
        return (SocketChannel(socket: first, peerAddress: .local), SocketChannel(socket: second, peerAddress: .local))
    }
}

/// A connection as a stream of bytes in each direction, whatever carries it. Never blocks, never interprets.
///
/// Owned by one loop's thread at a time. It may be handed to another, complete: deregister it on the one loop, send it
/// through a mailbox, register it on the other.
public protocol ByteChannel: AnyObject, Sendable {
    /// What to register on a loop. Not valid after `close()`.
    var fileDescriptor: Int32 { get }

    /// The other end, as it was when the connection was made.
    var peerAddress: PeerAddress { get }

    /// Reads once, at most as much as the buffer holds. The buffer must not be empty.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult

    /// Writes once, from the front of the slices; of more than 1024 slices only the first 1024.
    func write(_ slices: UnsafeBufferPointer<ByteSlice>) -> WriteResult

    /// Ends the sending direction after what has been written. The peer reads all of it, then the end of the stream.
    func shutdownSending()

    /// Lets the connection go. To be deregistered first; a second call does nothing.
    ///
    /// When bytes from the peer lie unread the kernel resets the connection, and the peer may lose what it was sent
    /// last. A farewell that must arrive is followed by `shutdownSending()`, reads until the end of the stream or a
    /// deadline, and only then by this.
    func close()
}

/// What a write to a channel came to.
public enum WriteResult {
    /// That many bytes were taken, from the front: perhaps fewer than were given.
    case wrote(Int)
    /// None was taken; the channel will become writable.
    case wouldBlock
    /// The connection is broken: reset, timed out, or out of the kernel's memory.
    case failed(SystemError)
}

/// What a read from a channel came to.
public enum ReadResult {
    /// That many bytes, at least 1, were put at the beginning of the buffer.
    case bytes(Int)
    /// Nothing is there now; the channel will become readable.
    case wouldBlock
    /// The peer has ended its sending direction. It may still be reading.
    case endOfStream
    /// A layer below MQTT does not go on with this peer. An explanation for the peer is on its way: end the connection
    /// gracefully.
    case refused(FilterRefusal)
    /// The connection is broken: reset, timed out, or out of the kernel's memory.
    case failed(SystemError)
}

extension UnsafeBufferPointer<ByteSlice> {
    /// The slices' memory as the kernel reads it; nil when there is none. The checks are constants that the compiler
    /// folds.
    var inputOutputVectors: UnsafePointer<iovec>? {
        precondition(
            MemoryLayout<ByteSlice>.stride == MemoryLayout<iovec>.stride
                && MemoryLayout<ByteSlice>.alignment == MemoryLayout<iovec>.alignment
                && MemoryLayout<ByteSlice>.offset(of: \.base) == MemoryLayout<iovec>.offset(of: \.iov_base)
                && MemoryLayout<ByteSlice>.offset(of: \.count) == MemoryLayout<iovec>.offset(of: \.iov_len))
        guard let baseAddress else { return nil }
        return UnsafeRawPointer(baseAddress).assumingMemoryBound(to: iovec.self)
    }
}

/// A connection whose caller waits for it: for a command that asks a question and ends.
public struct BlockingChannel {
    /// Why it does not go on, as the end of a sentence about the peer.
    public struct Failure: Error {
        public let reason: String
        /// The deadline has passed.
        public let isLate: Bool

        public init(_ reason: String, isLate: Bool = false) { (self.reason, self.isLate) = (reason, isLate) }
    }

    private var channel: any ByteChannel
    /// The channel, if it has layers.
    private var filtered: FilteredChannel?
    private var hasBegun = false

    /// Begins to connect.
    public init(to address: SocketAddress, _ layers: ClientLayers) throws(Failure) {
        do throws(SystemError) {
            channel = try layers.connecting(to: address, workspace: FilterWorkspace())
        } catch {
            throw Failure(error.reason)
        }
        filtered = channel as? FilteredChannel
    }

    /// Connects to the first of several addresses that answers, and waits until the connection stands; each has its
    /// share of the time.
    ///
    /// - Parameters:
    ///   - addresses: in the order in which they are tried.
    ///   - deadline: in milliseconds of the monotonic clock.
    public init(toFirstOf addresses: [SocketAddress], deadline: UInt64) throws(Failure) {
        channel = try Self.connected(toFirstOf: addresses, deadline: deadline)
    }

    private static func connected(toFirstOf addresses: [SocketAddress], deadline: UInt64) throws(Failure) -> SocketChannel {
        var failure = Failure("it has no address")
        for (index, address) in addresses.enumerated() {
            do throws(SystemError) {
                let socket = try SocketChannel.connecting(to: address)
                var entry = pollfd(fd: socket.fileDescriptor, events: Int16(POLLOUT), revents: 0)
                let now = MonotonicClock.milliseconds()
                let share = now < deadline ? (deadline - now) / UInt64(addresses.count - index) : 0
                guard poll(&entry, 1, Int32(clamping: share)) != 0 else {
                    failure = Failure("it does not answer in time", isLate: true)
                    continue
                }
                guard let error = socket.connectionError() else { return socket }
                failure = Failure(error.reason)
            } catch {
                failure = Failure(error.reason)
            }
        }
        throw failure
    }

    /// Puts layers on a connection that had none, when both sides have agreed on it: STARTTLS. The next write begins
    /// their handshakes.
    public mutating func put(_ layers: ClientLayers) throws(Failure) {
        do throws(SystemError) {
            channel = try layers.put(on: channel, workspace: FilterWorkspace())
        } catch {
            throw Failure(error.reason)
        }
        (filtered, hasBegun) = (channel as? FilteredChannel, false)
    }

    /// Waits until the peer has something for us or takes something, once, and does both.
    ///
    /// - Parameters:
    ///   - output: what is to be sent; what was sent is taken off.
    ///   - deadline: in milliseconds of the monotonic clock.
    /// - Returns: what has come, maybe nothing; nil when the peer has ended the stream.
    public mutating func exchange(_ output: inout ArraySlice<UInt8>, deadline: UInt64) throws(Failure) -> [UInt8]? {
        try waitForPeer(wantsToWrite: !output.isEmpty, deadline: deadline)
        filtered?.flush()
        if !output.isEmpty { try write(&output) }
        return try read()
    }

    /// Sends what the channel takes now.
    public func write(_ output: inout ArraySlice<UInt8>) throws(Failure) {
        let result = output.withUnsafeBytes { bytes -> WriteResult in
            guard let base = bytes.baseAddress else { return .wouldBlock }
            return withUnsafePointer(to: ByteSlice(base: base, count: bytes.count)) {
                channel.write(UnsafeBufferPointer(start: $0, count: 1))
            }
        }
        switch result {
        case .wrote(let count): output = output.dropFirst(count)
        case .wouldBlock: return
        case .failed(let error): throw Failure(error.reason)
        }
    }

    public func shutdownSending() { channel.shutdownSending() }

    public func close() { channel.close() }

    /// Waits until the socket has something for us, or room.
    private mutating func waitForPeer(wantsToWrite: Bool, deadline: UInt64) throws(Failure) {
        var entry = pollfd(fd: channel.fileDescriptor, events: Int16(POLLIN), revents: 0)
        // The peer's part of a handshake comes as bytes to read; a socket with room would only wake us again and again.
        // The first write begins it.
        let awaitsPeer = hasBegun && filtered?.awaitsPeer == true
        if filtered?.holdsBytes == true || wantsToWrite && !awaitsPeer { entry.events |= Int16(POLLOUT) }
        hasBegun = true
        let now = MonotonicClock.milliseconds()
        guard now < deadline, poll(&entry, 1, Int32(clamping: deadline - now)) != 0 else {
            throw Failure("it does not answer in time", isLate: true)
        }
    }

    private func read() throws(Failure) -> [UInt8]? {
        var chunk: [UInt8] = []
        let result = withUnsafeTemporaryAllocation(byteCount: Self.readBytes, alignment: 16) { buffer in
            let result = channel.read(into: buffer)
            if case .bytes(let count) = result { chunk = Array(buffer[..<count]) }
            return result
        }
        switch result {
        case .bytes, .wouldBlock: return chunk
        case .endOfStream: return nil
        case .refused(let refusal): throw Failure("\(refusal)")
        case .failed(let error): throw Failure(error.reason)
        }
    }

    /// What a channel with layers wants at least.
    private static let readBytes = 64 << 10
}

extension Limits {
    /// Pieces of one write: the kernel's UIO_MAXIOV. The rest goes with the next one.
    static let slicesPerWriteMax = 1024
}
