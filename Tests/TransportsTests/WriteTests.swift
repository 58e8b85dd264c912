import Bytes
import Glibc
import Platform
import Testing

@testable import Transports

@Suite struct WriteTests {
    let loop: EventLoop
    let listener: Listener
    let peer: Peer
    let channel: SocketChannel

    init() throws {
        let loop = try EventLoop(name: "write")
        let listener = try Listener(address: .loopbackIPv4(port: 0), reusePort: false)
        var accepted: SocketChannel?
        try listener.start(on: loop, accept: { accepted = $0 }, report: { _ in })
        peer = try Peer(connectingTo: listener.boundAddress, on: loop)
        #expect(loop.run { accepted != nil })
        channel = try #require(accepted)
        listener.stop()
        self.loop = loop
        self.listener = listener
    }

    /// Sends what is left whenever it may.
    final class Sender: EventHandler {
        private(set) var rest: ArraySlice<UInt8>
        private(set) var isBlocked = false
        private let channel: SocketChannel

        init(_ bytes: [UInt8], to channel: SocketChannel) {
            rest = bytes[...]
            self.channel = channel
        }

        func ready(_ events: ReadyEvents) {
            switch channel.write(Array(rest.prefix(1 << 16))) {
            case .wrote(let count): rest = rest.dropFirst(count)
            case .wouldBlock: isBlocked = true
            case .failed(let error): Issue.record(error)
            }
        }
    }

    @Test func `a peer that does not read makes writes short, and writable again once it reads`() throws {
        let sent = (0..<(1 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let sender = Sender(sent, to: channel)
        try SystemCall.setOption(.init(rawValue: channel.fileDescriptor), level: SOL_SOCKET, option: SO_SNDBUF, to: 1 << 16)
        try SystemCall.setOption(.init(rawValue: peer.channel.fileDescriptor), level: SOL_SOCKET, option: SO_RCVBUF, to: 1 << 16)
        // The peer's handler is not called while the loop does not run: nobody reads.
        var writes = 0
        while !sender.isBlocked {
            sender.ready(.writable)
            writes += 1
        }
        #expect(writes < 1000)
        #expect(!sender.rest.isEmpty)
        let registration = try loop.register(channel.fileDescriptor, for: .writable, handler: sender)
        #expect(
            loop.run {
                if sender.rest.isEmpty { loop.modify(registration, interest: []) }
                return peer.received.count == sent.count
            })
        #expect(peer.received == sent)
        #expect(sender.rest.isEmpty)
        loop.deregister(registration)
    }

    @Test func `one write takes at most 1024 slices, from the front`() throws {
        let bytes = (0..<3000).map { UInt8(truncatingIfNeeded: $0) }
        let result = bytes.withUnsafeBytes { raw in
            let slices = (0..<1500).map { ByteSlice(base: raw.baseAddress! + $0 * 2, count: 2) }
            return slices.withUnsafeBufferPointer { channel.write($0) }
        }
        #expect(result.count == 2048)
        #expect(loop.run { peer.received.count == 2048 })
        #expect(peer.received == Array(bytes.prefix(2048)))
    }

    @Test func `several slices arrive in order, empty ones among them`() throws {
        let bytes = Array("abcdefgh".utf8)
        let result = bytes.withUnsafeBytes { raw in
            let slices = [(0, 3), (3, 0), (3, 1), (4, 4)].map { ByteSlice(base: raw.baseAddress! + $0.0, count: $0.1) }
            return slices.withUnsafeBufferPointer { channel.write($0) }
        }
        #expect(result.count == 8)
        #expect(loop.run { peer.received.count == 8 })
        #expect(peer.received == bytes)
    }

    @Test func `nothing to write is nothing written`() {
        #expect(channel.write(UnsafeBufferPointer(start: nil, count: 0)).count == 0)
    }

    @Test func `an accepted connection has no Nagle delay, does not block and is not inherited`() throws {
        let socket = FileDescriptor(rawValue: channel.fileDescriptor)
        #expect(try SystemCall.option(socket, level: Int32(IPPROTO_TCP), option: TCP_NODELAY) != 0)
        #expect(fcntl(socket.rawValue, F_GETFL) & O_NONBLOCK != 0)
        #expect(fcntl(socket.rawValue, F_GETFD) & FD_CLOEXEC != 0)
        guard case .wouldBlock = channel.read(into: loop.scratch) else {
            Issue.record("an idle connection has nothing to read")
            return
        }
    }

    @Test func `a peer that resets is a failure of the read, and a write after it raises no signal`() throws {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(peer.channel.fileDescriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
        peer.close()
        #expect(channel.awaitFailure()?.errno == ECONNRESET)
        guard case .failed(let error) = channel.write([1]) else {
            Issue.record("a write to a broken connection fails")
            return
        }
        #expect(error.errno == EPIPE)
    }

    @Test func `a closed channel reads its end, refuses to write, and may be closed again`() {
        channel.close()
        channel.close()
        channel.shutdownSending()
        guard case .endOfStream = channel.read(into: loop.scratch), case .failed = channel.write([1]) else {
            Issue.record("a closed channel is at its end")
            return
        }
        #expect(channel.fileDescriptor == -1)
    }
}
