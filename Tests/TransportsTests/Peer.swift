import Platform
import Transports

/// A connecting end that collects what comes.
final class Peer: EventHandler {
    let channel: SocketChannel
    private(set) var received: [UInt8] = []
    private(set) var hasEnded = false
    private(set) var failure: SystemError?
    private let loop: EventLoop
    private var registration: Registration?

    init(connectingTo address: SocketAddress, on loop: EventLoop) throws {
        self.loop = loop
        channel = try SocketChannel.connecting(to: address)
        registration = try loop.register(channel.fileDescriptor, for: .readable, handler: self)
    }

    func ready(_ events: ReadyEvents) {
        switch channel.read(into: loop.scratch) {
        case .bytes(let count): received.append(contentsOf: loop.scratch[..<count])
        case .wouldBlock: break
        case .endOfStream, .refused:
            hasEnded = true
            leave()
        case .failed(let error):
            failure = error
            leave()
        }
    }

    func close() {
        leave()
        channel.close()
    }

    private func leave() {
        registration.map(loop.deregister)
        registration = nil
    }
}
