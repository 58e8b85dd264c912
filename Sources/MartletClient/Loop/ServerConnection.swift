internal import Bytes
internal import ClientCore
internal import EpollLoop
internal import Platform
internal import Transports

/// A connection to a server as bytes in and out. Belongs to the loop's thread, and to one engine.
final class ServerConnection: EventHandler {
    /// How a connection comes to an end.
    enum End {
        /// The server closed it.
        case left
        case broken(SystemError)
        /// A layer below MQTT does not go on.
        case refused(FilterRefusal)
    }

    private let channel: any ByteChannel
    private let filtered: FilteredChannel?
    private let loop: ClientLoop
    private unowned let engine: ClientEngine
    private var registration: Registration?
    private var interest: Interest = .writable
    /// Whether the transport has taken or given anything: before that, a custom channel may be connecting.
    private(set) var isOpen = false
    private var hasSaidGoodbye = false
    /// Whether nothing is read because those who receive are too slow.
    var isPaused = false

    /// Whether a proxy has not let us through yet.
    var awaitsProxy: Bool { filtered?.awaitsProxy == true }

    /// Throws when the kernel refuses.
    init(_ channel: any ByteChannel, loop: ClientLoop, engine: ClientEngine) throws(SystemError) {
        (self.channel, self.loop, self.engine) = (channel, loop, engine)
        filtered = channel as? FilteredChannel
        registration = try loop.events.register(channel.fileDescriptor, for: interest, handler: self)
    }

    func ready(_ events: ReadyEvents) {
        loop.touch(engine)
        if events.contains(.writable) {
            filtered?.flush()
            isOpen = true
        }
        let mayRead = events.contains(.readable) || !events.isDisjoint(with: [.hangUp, .error])
        if mayRead, !isPaused || !events.isDisjoint(with: [.hangUp, .error]) { read() }
    }

    /// Reads once more what a layer has decoded and the socket will not tell of.
    private func read() {
        let room = UnsafeMutableRawBufferPointer(rebasing: loop.events.scratch[..<Limits.readBytesMax])
        switch channel.read(into: room) {
        case .bytes(let count): engine.received(UnsafeRawBufferPointer(rebasing: room[..<count]))
        case .wouldBlock: break
        case .endOfStream: engine.ended(self, .left)
        case .refused(let refusal): engine.ended(self, .refused(refusal))
        case .failed(let error): engine.ended(self, .broken(error))
        }
        if filtered?.hasMore == true, registration != nil { read() }
    }

    /// Sends what the session has for the server, as far as the transport takes it. Returns why it does not, if it is broken.
    ///
    /// - Parameter most: how many bytes may leave.
    func write(_ session: inout ClientSession, most: Int = .max) -> (count: Int, end: End?) {
        guard isOpen || filtered != nil else { return (0, nil) }
        var count = 0
        var isBlocked = false
        var end: End?
        while session.outputByteCount > 0, count < most, !isBlocked, end == nil {
            session.withOutput { bytes in
                guard let base = bytes.baseAddress else { return 0 }
                let slice = ByteSlice(base: base, count: min(bytes.count, most - count))
                switch withUnsafePointer(to: slice, { channel.write(UnsafeBufferPointer(start: $0, count: 1)) }) {
                case .wrote(let written):
                    count += written
                    return written
                case .wouldBlock:
                    isBlocked = true
                case .failed(let error):
                    end = .broken(error)
                }
                return 0
            }
        }
        let awaitsSocket = (isBlocked && filtered?.awaitsPeer != true) || filtered?.holdsBytes == true || !isOpen
        setInterest(awaitsSocket ? [.writable] : [])
        return (count, end)
    }

    private func setInterest(_ writing: Interest) {
        let wanted = isPaused ? writing : writing.union(.readable)
        guard wanted != interest, let registration else { return }
        interest = wanted
        loop.events.modify(registration, interest: wanted)
    }

    /// The last byte is written: lets the server read it before the connection ends.
    func sayGoodbye() {
        guard !hasSaidGoodbye else { return }
        hasSaidGoodbye = true
        isPaused = false
        channel.shutdownSending()
        setInterest(filtered?.holdsBytes == true ? [.writable] : [])
    }

    func close() {
        if let registration { loop.events.deregister(registration) }
        registration = nil
        channel.close()
    }
}
