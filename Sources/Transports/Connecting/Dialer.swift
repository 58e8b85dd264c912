public import EpollLoop
internal import Glibc
internal import Platform

/// Why there is no connection to any of a server's addresses.
public struct DialError: Error, Sendable {
    /// The address that failed last; nil where none was tried.
    public let address: SocketAddress?
    /// What the kernel said of it.
    public let reason: String
}

/// Races connections to a server's addresses: the next is begun when one fails or has not answered in time; the first that stands wins
/// (RFC 8305). Belongs to the loop's thread.
public final class Dialer {
    private let loop: EventLoop
    private var addresses: ArraySlice<SocketAddress>
    /// Where connections come from, one of each family at most; empty lets the kernel choose.
    private let locals: [SocketAddress]
    private var attempts: [Attempt] = []
    /// Of the address that failed last; nil if none has.
    public private(set) var lastError: DialError?
    /// When the next address has its turn; nil when there is none.
    public private(set) var nextDeadline: UInt64?
    private let finished: (Result<SocketChannel, DialError>) -> Void
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

    /// `finished` is called once, perhaps at once.
    public init(
        _ addresses: [SocketAddress], from locals: [SocketAddress], loop: EventLoop,
        finished: @escaping (Result<SocketChannel, DialError>) -> Void
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
                lastError = DialError(address: address, reason: error.reason)
            }
        }
        nextDeadline = nil
        if attempts.isEmpty { finish(.failure(lastError ?? DialError(address: nil, reason: "it has no address"))) }
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
            lastError = DialError(address: attempt.address, reason: error.reason)
            advance(now: loop.nowMilliseconds)
        } else {
            cancel()
            finish(.success(attempt.channel))
        }
    }

    private func finish(_ result: Result<SocketChannel, DialError>) {
        isOver = true
        nextDeadline = nil
        finished(result)
    }
}
