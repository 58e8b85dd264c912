internal import BrokerModel
internal import HTTPClient
internal import MQTTCodec
internal import Platform
internal import Security
internal import Transports

/// Where a server of logins is: a directory, a database.
enum ServerAddress: Sendable, Equatable {
    case host(String, port: UInt16)
    /// A Unix socket.
    case path(String)

    /// Asks for its addresses, which may take as long as a name server does.
    fileprivate func addresses() throws(SourceFailure) -> [SocketAddress] {
        do throws(ResolutionError) {
            switch self {
            case .host(let name, let port): return try ListenAddress(host: .named(name), port: port).resolve()
            case .path(let path): return try ListenAddress(host: .path(path), port: 0).resolve()
            }
        } catch {
            throw SourceFailure("has no address: \(error)", isLost: true)
        }
    }
}

/// Why a source of logins cannot say anything, in words that follow its name: `cannot be read: …`.
struct SourceFailure: Error, Equatable, CustomStringConvertible {
    let description: String
    /// Whether the server is at fault, or the way to it: what was asked may be asked again on another connection.
    let isLost: Bool

    init(_ description: String, isLost: Bool = false) { (self.description, self.isLost) = (description, isLost) }
}

/// What a connection to a server of logins goes over, and its caller waits for.
protocol ServerChannel {
    mutating func put(_ layers: ClientLayers) throws(BlockingChannel.Failure)

    /// - Parameters:
    ///   - output: what is to be sent; what was sent is taken off.
    ///   - deadline: in milliseconds of the monotonic clock.
    /// - Returns: what has come, maybe nothing; nil when the server has ended the stream.
    mutating func exchange(
        _ output: inout ArraySlice<UInt8>, deadline: UInt64
    ) throws(BlockingChannel.Failure) -> [UInt8]?

    func close()
}

extension BlockingChannel: ServerChannel {}

/// A connection to a server of logins, whose caller waits for it: a login's own thread.
///
/// Whatever the server does, an exchange ends at its deadline, and takes no more bytes than are allowed.
final class ServerConnection {
    private var channel: any ServerChannel
    private var input: [UInt8] = []
    private var head = 0
    private var deadline: UInt64
    private var bytesLeft = Limits.serverAnswerBytesMax
    private let workers: WorkerPool

    /// Waits until it stands.
    ///
    /// - Parameters:
    ///   - address: of the server.
    ///   - deadline: milliseconds of the monotonic clock.
    ///   - workers: whose thread waits; when they end, nothing is waited for any more.
    convenience init(to address: ServerAddress, deadline: UInt64, workers: WorkerPool) throws(SourceFailure) {
        let addresses = try address.addresses()
        let soon = min(deadline, MonotonicClock.milliseconds() + Limits.serverConnectMilliseconds)
        do throws(BlockingChannel.Failure) {
            self.init(
                over: try BlockingChannel(toFirstOf: addresses, deadline: soon), deadline: deadline, workers: workers)
        } catch {
            throw SourceFailure(error.isLate ? "does not answer" : "cannot be reached: \(error.reason)", isLost: true)
        }
    }

    /// Takes over a channel that stands.
    init(over channel: any ServerChannel, deadline: UInt64, workers: WorkerPool) {
        (self.channel, self.deadline, self.workers) = (channel, deadline, workers)
    }

    deinit { channel.close() }

    /// Begins another exchange.
    func begin(deadline: UInt64) { (self.deadline, bytesLeft) = (deadline, Limits.serverAnswerBytesMax) }

    /// From here on TLS, when both sides have agreed on it.
    func startTLS(_ context: TLSClientContext) throws(SourceFailure) {
        // What came in the clear behind the server's word could be anybody's.
        guard head == input.count else { throw SourceFailure("answers in the clear where TLS should begin", isLost: true) }
        do throws(BlockingChannel.Failure) {
            try channel.put(ClientLayers(tls: context))
        } catch {
            throw Self.lost(error)
        }
    }

    func send(_ bytes: [UInt8]) throws(SourceFailure) {
        var output = bytes[...]
        while !output.isEmpty { try exchange(&output) }
    }

    /// The next bytes, exactly so many.
    func receive(_ count: Int) throws(SourceFailure) -> [UInt8] {
        guard count <= Limits.serverAnswerBytesMax else { throw Self.tooLong }
        while input.count - head < count { try wait() }
        defer { head += count }
        return Array(input[head..<(head + count)])
    }

    /// The next bytes up to CR LF, which is taken off.
    func receiveLine() throws(SourceFailure) -> [UInt8] {
        var searched = head
        while true {
            if let end = input[searched...].firstIndex(of: 0x0A) {
                guard end > head, input[end - 1] == 0x0D else {
                    throw SourceFailure("answers what does not belong to its protocol", isLost: true)
                }
                defer { head = end + 1 }
                return Array(input[head..<(end - 1)])
            }
            let waiting = input.count - head
            try wait()
            searched = head + waiting
        }
    }

    private func wait() throws(SourceFailure) {
        var nothing: ArraySlice<UInt8> = []
        try exchange(&nothing)
    }

    private func exchange(_ output: inout ArraySlice<UInt8>) throws(SourceFailure) {
        if head == input.count || head > Limits.serverBytesKeptMax {
            input.removeFirst(head)
            head = 0
        }
        while true {
            let slice = min(deadline, MonotonicClock.milliseconds() + Limits.serverWaitMilliseconds)
            do throws(BlockingChannel.Failure) {
                guard let bytes = try channel.exchange(&output, deadline: slice) else {
                    throw BlockingChannel.Failure("it has ended the connection")
                }
                bytesLeft -= bytes.count
                input += bytes
                break
            } catch {
                guard error.isLate, slice < deadline, !workers.isEnding else { throw Self.lost(error) }
            }
        }
        if bytesLeft < 0 { throw Self.tooLong }
    }

    private static func lost(_ failure: BlockingChannel.Failure) -> SourceFailure {
        SourceFailure(failure.isLate ? "does not answer in time" : "does not answer: \(failure.reason)", isLost: true)
    }

    private static let tooLong = SourceFailure("answers more than \(Limits.serverAnswerBytesMax) bytes")
}

/// The connections to one server, which are kept for the next login, and whether it is asked at present: after several
/// failures in a row nobody waits for it for a while. For any thread.
final class ServerAccess<Connection: AnyObject>: Sendable {
    private struct State {
        var idle: [(connection: Connection, since: UInt64)] = []
        var breaker = CircuitBreaker(
            failuresMax: Limits.serverFailuresMax, pauseMilliseconds: Limits.serverPauseMilliseconds)
    }

    private let state = Locked(State())
    private let open: @Sendable (_ deadline: UInt64) throws(SourceFailure) -> Connection

    /// - Parameter open: makes a connection that may be asked at once.
    init(_ open: @escaping @Sendable (_ deadline: UInt64) throws(SourceFailure) -> Connection) { self.open = open }

    /// Asks on a connection that nobody else has meanwhile. `body` is called again on a new one, once, if a connection
    /// that was kept has been lost.
    func ask<Answer>(
        deadline: UInt64, _ body: (Connection) throws(SourceFailure) -> Answer
    ) throws(SourceFailure) -> Answer {
        try checkPause()
        do throws(SourceFailure) {
            if let kept = takeKept() {
                do throws(SourceFailure) {
                    return try ask(kept, body)
                } catch {
                    guard error.isLost, MonotonicClock.milliseconds() < deadline else { throw error }
                }
            }
            return try ask(try open(deadline), body)
        } catch {
            if error.isLost {
                state.withLock { _ = $0.breaker.failed(error.description, now: MonotonicClock.milliseconds()) }
            }
            throw error
        }
    }

    private func ask<Answer>(
        _ connection: Connection, _ body: (Connection) throws(SourceFailure) -> Answer
    ) throws(SourceFailure) -> Answer {
        let answer = try body(connection)
        state.withLock { state in
            state.breaker.succeeded()
            state.idle.append((connection, MonotonicClock.milliseconds()))
        }
        return answer
    }

    private func checkPause() throws(SourceFailure) {
        let pause: (milliseconds: UInt64, words: String)? = state.withLock { state in
            state.breaker.pause(now: MonotonicClock.milliseconds()).map { ($0, state.breaker.lastWords) }
        }
        guard let pause else { return }
        throw SourceFailure("is not asked for \(pause.milliseconds / 1000 + 1) s: \(pause.words)")
    }

    /// The one that was used last; those that were not needed for a while are closed.
    private func takeKept() -> Connection? {
        state.withLock { state in
            let now = MonotonicClock.milliseconds()
            state.idle.removeAll { now - $0.since > Limits.serverIdleMilliseconds }
            return state.idle.popLast()?.connection
        }
    }
}

extension WorkerPool {
    /// Has a server decide a login by name and password, on a thread that may wait for it.
    ///
    /// - Parameters:
    ///   - question: one without a password is not asked: many a directory says yes to it.
    ///   - milliseconds: how long the server may take, once it is the login's turn; and how long that may take. A
    ///     network that keeps failing waits for its turns, which says nothing of the server: such a login is told that
    ///     the broker is busy.
    ///   - reply: called once, now or later, on any thread.
    ///   - answer: asks the server, until the deadline in milliseconds of the monotonic clock.
    /// - Returns: what to tell when the client is gone; nil when nothing waits.
    func decide(
        _ question: LoginQuestion, within milliseconds: UInt64, _ reply: @escaping @Sendable (LoginAnswer) -> Void,
        by answer:
            @escaping @Sendable (_ userName: EncodedString, _ password: [UInt8], _ deadline: UInt64) throws(SourceFailure)
            -> LoginAnswer
    ) -> (any AbandonedLogin)? {
        guard let userName = question.userName, let password = question.password, !password.isEmpty else {
            reply(.next(question.userName == nil ? .noUserName : .noPassword))
            return nil
        }
        let came = MonotonicClock.milliseconds()
        let check = PasswordCheck(of: question.subject) {
            let now = MonotonicClock.milliseconds()
            guard now < came + milliseconds else { return reply(.busy) }
            do throws(SourceFailure) {
                reply(try answer(userName, password, now + milliseconds))
            } catch {
                reply(.failed(error.description))
            }
        } refuse: {
            reply(.busy)
        }
        submit(check)
        return check
    }
}
