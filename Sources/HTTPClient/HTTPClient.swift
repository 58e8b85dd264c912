public import HTTP
public import Transports

/// Asks one server over HTTP/1.1: over connections that are kept, by TLS if the address wants it, in bounded numbers.
///
///     ask ─► [queue] ─► a connection that is kept, or a new one ─► the answer, whole ─► everybody who has asked the same
///
/// Whatever the server does, every question is answered, within `answerMilliseconds`: slow, silent, truncated and lying
/// answers are failures with words. Redirects are not followed. After several failures in a row nobody is asked for a
/// while, so that nobody waits for a server that is down. For any thread; the work is done on the thread of its loop.
public final class HTTPClient: Sendable {
    public let address: HTTPAddress
    private let pool: HTTPPool
    private let loop: HTTPClientLoop

    /// Throws what is wrong with the files of TLS.
    ///
    /// - Parameters:
    ///   - address: of the server. Its path is put in front of no question's target.
    ///   - settings: its bounds and times.
    ///   - loop: has to live as long.
    public init(
        to address: HTTPAddress, _ settings: HTTPClientSettings = HTTPClientSettings(), on loop: HTTPClientLoop
    ) throws(TLSFailure) {
        var context: TLSClientContext?
        if address.usesTLS {
            var tls = settings.tls ?? TLSClientSettings(serverName: address.host)
            if tls.serverName.isEmpty { tls.serverName = address.host }
            context = try TLSClientContext(tls)
        }
        (self.address, self.loop) = (address, loop)
        let connector = SocketConnector(address, tls: context, on: loop)
        pool = HTTPPool(address, settings, connector: connector, on: loop.events)
        loop.post { [loop, pool] in loop.add(pool) }
    }

    deinit { loop.post { [loop, pool] in loop.retire(pool) } }

    /// Asks.
    ///
    /// - Parameters:
    ///   - question: what the server is asked.
    ///   - reply: called once, on the client's own thread, unless the call is cancelled before.
    /// - Returns: what to cancel the question with when nobody waits for the answer any more.
    @discardableResult
    public func ask(
        _ question: HTTPQuestion, reply: @escaping @Sendable (Result<HTTPAnswer, HTTPClientFailure>) -> Void
    ) -> HTTPCall {
        let call = HTTPCall(pool, loop)
        loop.post { [pool] in pool.ask(question, call, reply: reply) }
        return call
    }
}

/// A question that was asked.
public final class HTTPCall: Sendable {
    private let pool: HTTPPool
    private let loop: HTTPClientLoop

    init(_ pool: HTTPPool, _ loop: HTTPClientLoop) { (self.pool, self.loop) = (pool, loop) }

    /// Nobody waits for the answer any more: it is not given, and if nobody else has asked the same, its connection
    /// ends. For any thread.
    public func cancel() { loop.post { [self] in pool.cancel(self) } }
}

/// What a client of HTTP is made of.
public struct HTTPClientSettings: Sendable, Equatable {
    /// What TLS is made of where the address wants it; an empty server name is the address's. nil: the system's
    /// authorities.
    public var tls: TLSClientSettings?
    /// Milliseconds until a connection stands.
    public var connectMilliseconds: UInt64 = 3000
    /// Milliseconds from the question until the answer is whole, with the time that it waits.
    public var answerMilliseconds: UInt64 = 5000
    /// The same for a question that is hurried.
    public var hurriedMilliseconds: UInt64 = 500
    /// Questions that are asked at the same time, each on a connection of its own.
    public var inFlightMax = 64
    /// Questions that wait for that; a further one fails as `busy`.
    public var queueMax = 10_000
    /// Bytes of an answer's body; a longer one is a failure.
    public var bodyBytesMax = 64 << 10
    /// The media types that an answer with a body may have, in lower case; empty for any.
    public var contentTypes: [String] = []
    /// Failures in a row, answers of 500 and above among them, after which nobody is asked for a while.
    public var failuresMax = 10
    /// Milliseconds of that while; then one question is tried.
    public var pauseMilliseconds: UInt64 = 10_000
    /// Milliseconds for which a connection is kept that nobody needs.
    public var idleMilliseconds: UInt64 = 30_000

    public init() {}
}

/// What a server is asked.
public struct HTTPQuestion: Sendable, Hashable {
    public var method: HTTPMethod
    /// Path and query, percent-encoded.
    public var target: String
    /// Without Host, Content-Length and Connection, which are the client's.
    public var fields: [Field]
    /// nil for a request without one.
    public var body: [UInt8]?

    /// Whether whoever asks can do without the answer, and waits for `hurriedMilliseconds` alone. That it does not come
    /// in that time says nothing against the server.
    public var isHurried = false

    /// A field of a request's head.
    public struct Field: Sendable, Hashable {
        public var name: String
        public var value: String

        public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
    }

    public init(_ method: HTTPMethod = .get, _ target: String, fields: [Field] = [], body: [UInt8]? = nil) {
        (self.method, self.target, self.fields, self.body) = (method, target, fields, body)
    }

    /// As it is sent. Nothing in it can end a line but what stands there to.
    func bytes(to host: String) -> [UInt8] {
        var all = HTTPFields()
        all.append("Host", host)
        for field in fields { all.append(field.name, field.value) }
        if let body { all.append("Content-Length", String(body.count)) }
        let clean = target.utf8.filter { $0 > 0x20 && $0 != 0x7F }
        let line = "\(method) \(String(decoding: clean, as: UTF8.self)) HTTP/1.1\r\n"
        return Array((all.all.reduce(line) { $0 + "\($1.name): \($1.value)\r\n" } + "\r\n").utf8) + (body ?? [])
    }
}

/// What a server has answered, whole.
public struct HTTPAnswer: Sendable, Equatable {
    public var status: HTTPStatus
    public var fields: HTTPFields
    public var body: [UInt8]

    public init(status: HTTPStatus, fields: HTTPFields = HTTPFields(), body: [UInt8] = []) {
        (self.status, self.fields, self.body) = (status, fields, body)
    }
}

/// Why there is no answer.
public struct HTTPClientFailure: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Kind: Sendable, Equatable {
        /// The server cannot be reached, or is silent.
        case unavailable
        /// Too many questions wait.
        case busy
        /// It answers what nobody can take.
        case badAnswer
    }

    public let kind: Kind
    /// What follows the server's name: `does not answer within 5 s`.
    public let description: String

    public init(_ kind: Kind, _ description: String) { (self.kind, self.description) = (kind, description) }
}
