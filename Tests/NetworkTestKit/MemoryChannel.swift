package import Bytes
internal import Glibc
package import Platform
package import Transports

/// A connection in memory: the broker's end, with what its peer does and what the network does to it.
package final class MemoryChannel: ByteChannel, Pollable, @unchecked Sendable {
    private let network: MemoryNetwork
    package private(set) lazy var fileDescriptor: Int32 = network.add(self)
    package let peerAddress: PeerAddress

    // The network.

    /// Bytes that one read brings at most.
    package var readBytesMax = Int.max
    /// Bytes that one write takes at most.
    package var writeBytesMax = Int.max
    /// What happens elsewhere while the broker reads: once.
    package var duringRead: (() -> Void)?
    /// Bytes that the network holds for a peer that does not read.
    package var roomBytes = 1 << 20

    // The broker's end.

    package private(set) var isClosed = false
    package private(set) var hasShutDown = false
    /// Whether it was closed with bytes of the peer's unread: a kernel resets the connection then, and what was sent
    /// last may be lost.
    package private(set) var wasReset = false
    /// How many reads and writes the broker has made.
    package private(set) var calls = 0

    // The peer's end.

    private var incoming: [UInt8] = []
    private var outgoing: [UInt8] = []
    package private(set) var peerHasEnded = false
    private var failure: SystemError?

    package init(network: MemoryNetwork, peerAddress: PeerAddress = PeerAddress(host: "192.0.2.7") ?? .local) {
        (self.network, self.peerAddress) = (network, peerAddress)
    }

    /// The peer sends.
    package func send(_ bytes: [UInt8]) { if !peerHasEnded, !isClosed { incoming += bytes } }

    /// The peer reads all that has come.
    package func take() -> [UInt8] {
        defer { outgoing = [] }
        return outgoing
    }

    /// The peer sends nothing more.
    package func end() { peerHasEnded = true }

    /// The connection breaks: reads and writes fail from now on.
    package func fail(_ number: Int32 = ECONNRESET) {
        failure = SystemError(errno: number, operation: "recv")
        incoming = []
        outgoing = []
    }

    /// How many bytes of the peer's the broker has not read.
    package var unreadCount: Int { incoming.count }

    package var readiness: ReadyEvents {
        if isClosed { return [] }
        if failure != nil { return [.readable, .writable, .error, .hangUp] }
        var ready: ReadyEvents = []
        if !incoming.isEmpty || peerHasEnded { ready.insert(.readable) }
        if outgoing.count < roomBytes { ready.insert(.writable) }
        if peerHasEnded, hasShutDown { ready.insert(.hangUp) }
        return ready
    }

    package func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        calls += 1
        duringRead.take()?()
        if isClosed { return .endOfStream }
        if let failure { return .failed(failure) }
        if incoming.isEmpty { return peerHasEnded ? .endOfStream : .wouldBlock }
        let count = min(incoming.count, buffer.count, readBytesMax)
        buffer.copyBytes(from: incoming[..<count])
        incoming.removeFirst(count)
        return .bytes(count)
    }

    package func write(_ slices: UnsafeBufferPointer<ByteSlice>) -> WriteResult {
        calls += 1
        if isClosed || hasShutDown { return .failed(SystemError(errno: EPIPE, operation: "send")) }
        if let failure { return .failed(failure) }
        var room = min(max(0, roomBytes - outgoing.count), writeBytesMax)
        let before = outgoing.count
        for slice in slices where room > 0 {
            let count = min(slice.count, room)
            outgoing += UnsafeRawBufferPointer(start: slice.base, count: count)
            room -= count
        }
        return outgoing.count > before ? .wrote(outgoing.count - before) : .wouldBlock
    }

    package func shutdownSending() { hasShutDown = true }

    package func close() {
        guard !isClosed else { return }
        wasReset = !incoming.isEmpty
        network.close(fileDescriptor)
        isClosed = true
    }
}

/// A listener in memory.
package final class MemoryAcceptor: Acceptor, EventHandler, Pollable {
    package let path: String? = nil
    private let network: MemoryNetwork
    private lazy var descriptor: Int32 = network.add(self)
    private var waiting: [MemoryChannel] = []
    private var service: (loop: EventLoop, registration: Registration, accept: (any ByteChannel) -> Void)?
    private var isStopped = false
    private var isSuspended = false

    package init(network: MemoryNetwork) { self.network = network }

    package func suspend() { isSuspended = true }

    package func resume() throws(SystemError) { isSuspended = false }

    /// A peer connects; nil when nobody listens any more.
    package func connect(from host: String = "192.0.2.7") -> MemoryChannel? {
        guard !isStopped, !isSuspended else { return nil }
        let channel = network.makeChannel(peerAddress: PeerAddress(host: host) ?? .local)
        waiting.append(channel)
        return channel
    }

    package var readiness: ReadyEvents { waiting.isEmpty ? [] : .readable }

    package func serve(
        on loop: EventLoop, accept: @escaping (any ByteChannel) -> Void, report: @escaping (ListenerReport) -> Void
    ) throws(SystemError) {
        service = (loop, try loop.register(descriptor, for: .readable, handler: self), accept)
    }

    package func ready(_ events: ReadyEvents) {
        while !waiting.isEmpty, let service { service.accept(waiting.removeFirst()) }
    }

    package func stop() {
        guard !isStopped else { return }
        isStopped = true
        if let service { service.loop.deregister(service.registration) }
        service = nil
        network.close(descriptor)
        // As the kernel does with those that nobody has accepted.
        for channel in waiting { channel.close() }
        waiting = []
    }
}
