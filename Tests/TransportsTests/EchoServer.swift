import Platform
import Transports

/// Sends back what it receives. Holds what the peer does not read, up to a bound.
final class EchoConnection: EventHandler {
    let channel: SocketChannel
    private let loop: EventLoop
    private var registration: Registration?
    private var held: [UInt8] = []
    private let ended: (EchoConnection) -> Void

    init(_ channel: SocketChannel, on loop: EventLoop, ended: @escaping (EchoConnection) -> Void) {
        self.channel = channel
        self.loop = loop
        self.ended = ended
    }

    func start() throws {
        registration = try loop.register(channel.fileDescriptor, for: .readable, handler: self)
    }

    func ready(_ events: ReadyEvents) {
        if events.contains(.writable) { flush() }
        guard !events.isDisjoint(with: [.readable, .error, .hangUp]) else { return }
        switch channel.read(into: loop.scratch) {
        case .bytes(let count):
            held.append(contentsOf: loop.scratch[..<count])
            flush()
        case .wouldBlock: return
        case .endOfStream, .refused, .failed: end()
        }
    }

    private func flush() {
        guard let registration, !held.isEmpty else { return }
        switch channel.write(held) {
        case .wrote(let count): held.removeFirst(count)
        case .wouldBlock: break
        case .failed: return end()
        }
        loop.modify(registration, interest: held.isEmpty ? .readable : [.readable, .writable])
    }

    private func end() {
        guard let registration else { return }
        self.registration = nil
        loop.deregister(registration)
        channel.close()
        ended(self)
    }
}

/// A listener whose connections echo.
final class EchoServer {
    let loop: EventLoop
    private(set) var accepted = 0
    private(set) var ended = 0
    private(set) var reports: [ListenerReport] = []

    init(_ listener: Listener, on loop: EventLoop) throws {
        self.loop = loop
        try listener.start(
            on: loop,
            accept: { [unowned self] channel in
                accepted += 1
                try? EchoConnection(channel, on: loop) { [unowned self] _ in ended += 1 }.start()
            },
            report: { [unowned self] in reports.append($0) })
    }
}
