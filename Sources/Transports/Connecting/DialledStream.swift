internal import Bytes
internal import Glibc
public import Platform

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
    /// Bytes that were to be sent are lost. Where there are layers, what the peer has said last may still be read, and
    /// says more.
    func failedToWrite(_ error: SystemError, hasLayers: Bool)
}

/// The bytes of a connection that was made to somebody, in both directions. Belongs to the loop's thread, and to one
/// owner.
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

/// Races connections to a server's addresses: the next is begun when one fails or has not answered in time; the first
/// that stands wins (RFC 8305). Belongs to the loop's thread.
public final class Dialer {
    private let loop: EventLoop
    private var addresses: ArraySlice<SocketAddress>
    /// Where connections come from, one of each family at most; empty lets the kernel choose.
    private let locals: [SocketAddress]
    private var attempts: [Attempt] = []
    /// Of the address that failed last; nil if none has.
    public private(set) var lastFailure: DialFailure?
    /// When the next address has its turn; nil when there is none.
    public private(set) var nextDeadline: UInt64?
    private let finished: (SocketChannel?) -> Void
    private var isOver = false

    /// One connection in the making.
    private final class Attempt: EventHandler {
        let channel: SocketChannel
        let address: SocketAddress
        let loop: EventLoop
        var registration: Registration?
        unowned let dialer: Dialer

        init(_ channel: SocketChannel, to address: SocketAddress, _ dialer: Dialer) throws(SystemError) {
            (self.channel, self.address, self.dialer, loop) = (channel, address, dialer, dialer.loop)
            registration = try loop.register(channel.fileDescriptor, for: .writable, handler: self)
        }

        func ready(_ events: ReadyEvents) { dialer.answered(self) }

        func leave() {
            if let registration { loop.deregister(registration) }
            registration = nil
        }
    }

    /// `finished` is called once, perhaps at once; without a channel when no address is left.
    public init(
        _ addresses: [SocketAddress], from locals: [SocketAddress], loop: EventLoop,
        finished: @escaping (SocketChannel?) -> Void
    ) {
        (self.addresses, self.locals, self.loop, self.finished) = (addresses[...], locals, loop, finished)
    }

    /// Begins the next attempt, at the beginning and when its time has come.
    public func advance(now: UInt64) {
        while !isOver, let address = addresses.popFirst() {
            do throws(SystemError) {
                attempts.append(
                    try Attempt(try SocketChannel.connecting(to: address, from: local(for: address)), to: address, self))
                nextDeadline = addresses.isEmpty ? nil : now + Limits.raceMillisecondsMax
                return
            } catch {
                lastFailure = DialFailure(address: address, error: error)
            }
        }
        nextDeadline = nil
        if attempts.isEmpty { finish(nil) }
    }

    /// Throws where none of the addresses that connections may come from reaches that family.
    private func local(for address: SocketAddress) throws(SystemError) -> SocketAddress? {
        if locals.isEmpty || address.path != nil { return nil }
        guard let local = locals.first(where: { $0.isIPv6 == address.isIPv6 }) else {
            throw SystemError(errno: EAFNOSUPPORT, operation: "bind")
        }
        return local
    }

    /// Gives all up without a word.
    public func cancel() {
        isOver = true
        for attempt in attempts {
            attempt.leave()
            attempt.channel.close()
        }
        attempts = []
    }

    private func answered(_ attempt: Attempt) {
        guard !isOver, let index = attempts.firstIndex(where: { $0 === attempt }) else { return }
        attempts.remove(at: index)
        attempt.leave()
        if let error = attempt.channel.connectionError() {
            attempt.channel.close()
            lastFailure = DialFailure(address: attempt.address, error: error)
            advance(now: loop.nowMilliseconds)
        } else {
            cancel()
            finish(attempt.channel)
        }
    }

    private func finish(_ channel: SocketChannel?) {
        isOver = true
        nextDeadline = nil
        finished(channel)
    }
}

/// Why no connection to an address could be made.
public struct DialFailure: Sendable {
    public let address: SocketAddress
    public let error: SystemError

    package init(address: SocketAddress, error: SystemError) { (self.address, self.error) = (address, error) }
}

/// Asks for the addresses of names on threads of its own, for the answer may take long. Any thread may ask.
public final class NameResolver: Sendable {
    public typealias Answer = @Sendable (Result<[SocketAddress], ResolutionError>) -> Void

    private struct State {
        var questions: ArraySlice<(address: ListenAddress, answer: Answer)> = []
        var threadCount = 0
    }

    private let state = Locked(State())

    public init() {}

    /// Calls `answer` on another thread with the addresses, the two families in turn, IPv6 first; or says why there is
    /// none.
    public func resolve(_ host: String, port: UInt16, answer: @escaping Answer) {
        let needsThread = state.withLock { state in
            state.questions.append((ListenAddress(host: .named(host), port: port), answer))
            guard state.threadCount < Limits.resolverThreadsMax else { return false }
            state.threadCount += 1
            return true
        }
        guard needsThread else { return }
        do throws(SystemError) {
            _ = try NamedThread.start(name: "resolver") { self.work() }
        } catch {
            // Without a thread the answer is late for everybody, but there is one.
            work()
        }
    }

    /// Answers what is asked, and ends when nothing is.
    private func work() {
        while let question = next() {
            do throws(ResolutionError) {
                question.answer(.success(Self.interleaved(try question.address.resolve())))
            } catch {
                question.answer(.failure(error))
            }
        }
    }

    private func next() -> (address: ListenAddress, answer: Answer)? {
        state.withLock { state in
            let question = state.questions.popFirst()
            if question == nil { state.threadCount -= 1 }
            return question
        }
    }

    /// One of each family in turn (RFC 8305, section 4).
    package static func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
        let families = [addresses.filter { $0.isIPv6 }, addresses.filter { !$0.isIPv6 }]
        return (0..<(families.map(\.count).max() ?? 0)).flatMap { index in
            families.compactMap { index < $0.count ? $0[index] : nil }
        }
    }
}

extension Limits {
    /// Threads that ask for the addresses of names; what is asked beyond waits. Bytes: 1 MiB each at most.
    static let resolverThreadsMax = 4

    /// Milliseconds after which a connection to the next address is begun beside the one that has not answered (RFC
    /// 8305, section 5).
    static let raceMillisecondsMax: UInt64 = 250

    /// Bytes of an output that are gone and still stand in front of those that wait.
    static let sentBytesKeptMax = 1 << 20
}
