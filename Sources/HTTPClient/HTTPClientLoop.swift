public import Platform
internal import Transports

/// The thread on which the clients of HTTP of a process do their work. For any thread.
public final class HTTPClientLoop: @unchecked Sendable {
    // Unchecked: what follows is the loop's thread's, but for the mailbox and the thread.
    let events: EventLoop
    let workspace = FilterWorkspace()
    let resolver = NameResolver()
    private let mailbox: Mailbox<@Sendable () -> Void>
    private let turn = Turn()
    private let thread: NamedThread

    /// Begins the thread. Throws when the system has no descriptor or thread left.
    ///
    /// - Parameter name: what `ps` and `top` show, at most 15 bytes.
    public init(name: String) throws(SystemError) {
        let events = try EventLoop(name: name)
        (self.events, mailbox) = (events, Mailbox(loop: events))
        turn.mailbox = mailbox
        thread = try NamedThread.start(name: name) { [events, turn] in events.run(turn) }
    }

    /// Ends the thread; what was asked and is not answered is not answered any more.
    public func stop() {
        events.stop()
        thread.join()
    }

    func post(_ work: @escaping @Sendable () -> Void) { mailbox.post(work) }

    // MARK: On its thread

    func add(_ pool: HTTPPool) { turn.pools.append(pool) }

    /// Nobody asks there any more.
    func retire(_ pool: HTTPPool) { pool.retire() }

    private final class Turn: LoopTurn, @unchecked Sendable {
        // Unchecked: the loop's thread's, once that runs.
        var mailbox: Mailbox<@Sendable () -> Void>?
        var pools: [HTTPPool] = []

        func beginTurn(now: UInt64) { mailbox?.drain { $0() } }

        func endOfTurn(now: UInt64) -> UInt64? {
            for pool in pools { pool.advance(now: now) }
            pools.removeAll { $0.isOver }
            return pools.compactMap(\.nextDeadline).min()
        }
    }
}

/// Connects to a server over the network. Belongs to its loop's thread.
final class SocketConnector: HTTPConnector, @unchecked Sendable {
    // Unchecked: it is used on the loop's thread alone, once it is made.
    private let address: HTTPAddress
    private let tls: TLSClientContext?
    private unowned let loop: HTTPClientLoop
    private var known: (addresses: [SocketAddress], until: UInt64)?
    private var attempts: [Attempt] = []
    private var isResolving = false

    init(_ address: HTTPAddress, tls: TLSClientContext?, on loop: HTTPClientLoop) {
        (self.address, self.tls, self.loop) = (address, tls, loop)
    }

    private final class Attempt {
        let finished: (Result<any ByteChannel, HTTPClientFailure>) -> Void
        let number: UInt64
        var dialer: Dialer?

        init(_ number: UInt64, _ finished: @escaping (Result<any ByteChannel, HTTPClientFailure>) -> Void) {
            (self.number, self.finished) = (number, finished)
        }
    }

    private var lastNumber: UInt64 = 0

    var nextDeadline: UInt64? { attempts.compactMap { $0.dialer?.nextDeadline }.min() }

    func advance(now: UInt64) {
        for attempt in attempts {
            if let dialer = attempt.dialer, let deadline = dialer.nextDeadline, deadline <= now { dialer.advance(now: now) }
        }
    }

    func connect(_ finished: @escaping (Result<any ByteChannel, HTTPClientFailure>) -> Void) -> UInt64 {
        lastNumber += 1
        let attempt = Attempt(lastNumber, finished)
        attempts.append(attempt)
        if let known, loop.events.nowMilliseconds < known.until {
            dial(attempt, known.addresses)
        } else if !isResolving {
            isResolving = true
            loop.resolver.resolve(address.host, port: address.port) { [self, loop] addresses in
                loop.post { [self] in resolved(addresses) }
            }
        }
        return attempt.number
    }

    func cancel(_ number: UInt64) {
        guard let place = attempts.firstIndex(where: { $0.number == number }) else { return }
        attempts.remove(at: place).dialer?.cancel()
    }

    private func resolved(_ found: Result<[SocketAddress], ResolutionError>) {
        isResolving = false
        let waiting = attempts.filter { $0.dialer == nil }
        switch found {
        case .success(let addresses):
            known = (addresses, loop.events.nowMilliseconds + Limits.addressMilliseconds)
            for attempt in waiting { dial(attempt, addresses) }
        case .failure(let error):
            for attempt in waiting { finish(attempt, .failure(HTTPClientFailure(.unavailable, "has no address: \(error)"))) }
        }
    }

    private func dial(_ attempt: Attempt, _ addresses: [SocketAddress]) {
        let dialer = Dialer(addresses, from: [], loop: loop.events) { [unowned self, unowned attempt] socket in
            guard let socket else {
                let reason = attempt.dialer?.lastFailure?.error.reason ?? "no address"
                return finish(attempt, .failure(HTTPClientFailure(.unavailable, "cannot be reached: \(reason)")))
            }
            do throws(SystemError) {
                finish(attempt, .success(try ClientLayers(tls: tls).put(on: socket, workspace: loop.workspace)))
            } catch {
                socket.close()
                finish(attempt, .failure(HTTPClientFailure(.unavailable, "cannot be reached: \(error.reason)")))
            }
        }
        attempt.dialer = dialer
        dialer.advance(now: loop.events.nowMilliseconds)
    }

    private func finish(_ attempt: Attempt, _ result: Result<any ByteChannel, HTTPClientFailure>) {
        attempts.removeAll { $0 === attempt }
        attempt.finished(result)
    }
}
