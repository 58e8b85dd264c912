import Bytes
import EpollLoop
import Platform
import Transports

/// A bridge's connection to another broker, as bytes in and out. Belongs to the loop's thread, and to one runner.
final class BridgeConnection: EventHandler {
    private let channel: any ByteChannel
    private let filtered: FilteredChannel?
    private let events: EventLoop
    private unowned let runner: BridgeRunner
    private var registration: Registration?
    private var interest: Interest = .readable
    private var output: [UInt8] = []
    private var head = 0

    /// Throws when the kernel refuses.
    init(_ channel: any ByteChannel, on events: EventLoop, for runner: BridgeRunner) throws(SystemError) {
        (self.channel, self.events, self.runner) = (channel, events, runner)
        filtered = channel as? FilteredChannel
        registration = try events.register(channel.fileDescriptor, for: interest, handler: self)
    }

    /// Bytes that the connection has not taken.
    var waitingBytes: Int { output.count - head }

    func ready(_ ready: ReadyEvents) {
        if ready.contains(.writable) {
            filtered?.flush()
            write()
        }
        guard registration != nil, !ready.isDisjoint(with: [.readable, .hangUp, .error]) else { return }
        repeat { read() } while registration != nil && filtered?.hasMore == true
    }

    private func read() {
        let room = runner.room
        switch channel.read(into: room) {
        case .bytes(let count): runner.received(UnsafeRawBufferPointer(rebasing: room[..<count]))
        case .wouldBlock: break
        case .endOfStream: runner.ended("the other broker closed the connection")
        case .refused(let refusal): runner.ended("\(refusal)")
        case .failed(let error): runner.ended(error.reason)
        }
        // A handshake may be done, and what has waited for it may go.
        if registration != nil, waitingBytes > 0 { write() }
    }

    func send(_ bytes: [UInt8]) {
        guard registration != nil else { return }
        if head == output.count { (output, head) = (bytes, 0) } else { output.append(contentsOf: bytes) }
        write()
    }

    private func write() {
        var failure: SystemError?
        output.withUnsafeBytes { bytes in
            while head < bytes.count, failure == nil {
                guard let base = bytes.baseAddress else { return }
                let slice = ByteSlice(base: base + head, count: bytes.count - head)
                switch withUnsafePointer(to: slice, { channel.write(UnsafeBufferPointer(start: $0, count: 1)) }) {
                case .wrote(let count): head += count
                case .wouldBlock: return
                case .failed(let error): failure = error
                }
            }
        }
        if head == output.count {
            (output, head) = ([], 0)
        } else if head > 1 << 20 {
            output.removeFirst(head)
            head = 0
        }
        if let failure {
            // What the peer has said last may still be there to be read, and says more.
            if filtered == nil { return runner.ended(failure.reason) }
        }
        settle()
    }

    /// Asks to hear of what it waits for.
    func settle() {
        guard let registration else { return }
        var wanted: Interest = runner.isPaused ? [] : .readable
        let awaitsPeer = filtered?.awaitsPeer == true
        if filtered?.holdsBytes == true || (waitingBytes > 0 && !awaitsPeer) { wanted.insert(.writable) }
        if awaitsPeer { wanted.insert(.readable) }
        guard wanted != interest else { return }
        interest = wanted
        events.modify(registration, interest: wanted)
    }

    /// Lets the other broker read what was written, and goes.
    func close() {
        if let registration { events.deregister(registration) }
        registration = nil
        channel.shutdownSending()
        channel.close()
    }
}
