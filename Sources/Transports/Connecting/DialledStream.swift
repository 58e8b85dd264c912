internal import Bytes
package import EpollLoop
package import Platform

/// The owner of a `DialledStream`. Called on the loop's thread.
package protocol StreamOwner: AnyObject {
    /// What bytes are read into.
    var room: UnsafeMutableRawBufferPointer { get }
    /// Whether nothing is to be read just now; after a change `DialledStream.settle` is called.
    var isPaused: Bool { get }
    /// Bytes have come; they are valid during the call.
    func received(_ bytes: UnsafeRawBufferPointer)
    /// The stream may have taken some of what has waited.
    func wrote()
    /// The peer's side has ended; nil if it did so in order.
    func ended(_ reason: String?)
    /// What was to be sent is lost. Where there are layers, what the peer has said last may still be read, and says more.
    func failedToWrite(_ error: SystemError, hasLayers: Bool)
}

/// The bytes of a connection that was made to somebody, in both directions. Belongs to the loop's thread, and to one owner.
package final class DialledStream: EventHandler {
    private var channel: any ByteChannel
    private var filtered: FilteredChannel?
    private let events: EventLoop
    private unowned let owner: any StreamOwner
    private var registration: Registration?
    private var interest: Interest = .readable
    private var output: [UInt8] = []
    private var head = 0

    /// Throws when the kernel refuses.
    package init(_ channel: any ByteChannel, on events: EventLoop, for owner: any StreamOwner) throws(SystemError) {
        (self.channel, self.events, self.owner) = (channel, events, owner)
        filtered = channel as? FilteredChannel
        registration = try events.register(channel.fileDescriptor, for: interest, handler: self)
    }

    /// Bytes that the connection has not taken.
    package var waitingBytes: Int { output.count - head }

    /// Puts layers on top, before anything was sent. Throws when OpenSSL has no memory.
    package func put(_ layers: ClientLayers, workspace: FilterWorkspace) throws(SystemError) {
        channel = try layers.put(on: channel, workspace: workspace)
        filtered = channel as? FilteredChannel
    }

    package func ready(_ ready: ReadyEvents) {
        if ready.contains(.writable) {
            filtered?.flush()
            write()
            if registration != nil { owner.wrote() }
        }
        guard registration != nil, !ready.isDisjoint(with: [.readable, .hangUp, .error]) else { return }
        repeat { read() } while registration != nil && filtered?.hasMore == true
    }

    private func read() {
        let room = owner.room
        switch channel.read(into: room) {
        case .bytes(let count): owner.received(UnsafeRawBufferPointer(rebasing: room[..<count]))
        case .wouldBlock: break
        case .endOfStream: owner.ended(nil)
        case .refused(let refusal): owner.ended("\(refusal)")
        case .failed(let error): owner.ended(error.reason)
        }
        // A handshake may be done, and what has waited for it may go.
        guard waitingBytes > 0 else { return settle() }
        write()
        if registration != nil { owner.wrote() }
    }

    package func send(_ bytes: [UInt8]) {
        guard registration != nil else { return }
        if head == output.count { (output, head) = (bytes, 0) } else { output.append(contentsOf: bytes) }
        write()
    }

    private func write() {
        guard registration != nil else { return }
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
        if head == output.count || failure != nil {
            (output, head) = ([], 0)
        } else if head > Limits.sentBytesKeptMax {
            output.removeFirst(head)
            head = 0
        }
        if let failure { owner.failedToWrite(failure, hasLayers: filtered != nil) }
        settle()
    }

    /// Asks to hear of what it waits for.
    package func settle() {
        guard let registration else { return }
        var wanted: Interest = owner.isPaused ? [] : .readable
        let awaitsPeer = filtered?.awaitsPeer == true
        if filtered?.holdsBytes == true || (waitingBytes > 0 && !awaitsPeer) { wanted.insert(.writable) }
        if awaitsPeer { wanted.insert(.readable) }
        guard wanted != interest else { return }
        interest = wanted
        events.modify(registration, interest: wanted)
    }

    /// Lets the peer read what was written, and goes.
    package func close() {
        guard deregister() else { return }
        channel.shutdownSending()
        channel.close()
    }

    /// Goes, and takes back what the kernel has not sent.
    package func abandon() {
        guard deregister() else { return }
        // Of a socket that is no TCP connection, the kernel keeps nothing.
        try? SystemCall.setOption(FileDescriptor(rawValue: channel.fileDescriptor), linger: 0)
        channel.close()
    }

    /// Whether it was there until now.
    private func deregister() -> Bool {
        guard let registration else { return false }
        events.deregister(registration)
        self.registration = nil
        return true
    }
}
