internal import EpollLoop
internal import Glibc
internal import Platform
internal import Transports

/// Races connections to a server's addresses: the next is begun when one fails or has not answered in time; the first that stands wins
/// (RFC 8305). Belongs to the loop's thread.
final class Dialer {
    private let loop: ClientLoop
    private var addresses: ArraySlice<SocketAddress>
    /// Where connections come from, one of each family at most; empty lets the kernel choose.
    private let locals: [SocketAddress]
    private var attempts: [Attempt] = []
    /// Of the address that failed last; nil if none has.
    private(set) var lastFailure: DialFailure?
    /// When the next address has its turn; nil when there is none.
    private(set) var nextDeadline: UInt64?
    private let finished: (SocketChannel?) -> Void
    private var isOver = false

    /// One connection in the making.
    private final class Attempt: EventHandler {
        let channel: SocketChannel
        let address: SocketAddress
        let loop: ClientLoop
        var registration: Registration?
        unowned let dialer: Dialer

        init(_ channel: SocketChannel, to address: SocketAddress, _ dialer: Dialer) throws(SystemError) {
            (self.channel, self.address, self.dialer, loop) = (channel, address, dialer, dialer.loop)
            registration = try loop.events.register(channel.fileDescriptor, for: .writable, handler: self)
        }

        func ready(_ events: ReadyEvents) { dialer.answered(self) }

        func leave() {
            if let registration { loop.events.deregister(registration) }
            registration = nil
        }
    }

    /// `finished` is called once, perhaps at once; without a channel when no address is left.
    init(
        _ addresses: [SocketAddress], from locals: [SocketAddress], loop: ClientLoop,
        finished: @escaping (SocketChannel?) -> Void
    ) {
        (self.addresses, self.locals, self.loop, self.finished) = (addresses[...], locals, loop, finished)
    }

    /// Begins the next attempt, at the beginning and when its time has come.
    func advance(now: UInt64) {
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
    func cancel() {
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
            advance(now: loop.now)
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
struct DialFailure {
    let address: SocketAddress
    let error: SystemError
}
