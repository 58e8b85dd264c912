public import HTTP
internal import JSON
internal import JSONReader
internal import Platform
public import Transports

/// A broker that is asked over its Unix socket or over TCP, with TLS or without: one connection a request.
public struct BrokerService: ControlService, Sendable {
    /// How one says who one is.
    public enum Credentials: Sendable {
        /// Over a Unix socket the broker sees which user of the machine asks.
        case none
        case token(String)
    }

    private let address: ControlAddress
    private let layers: ClientLayers
    private let credentials: Credentials
    private let patienceMilliseconds: UInt64
    private let advice: String

    /// - `layers`: TLS, if the address wants it.
    /// - `patienceMilliseconds`: until the answer to a request is whole.
    /// - `advice`: what to try when nobody answers, as sentences.
    public init(
        _ address: ControlAddress, _ layers: ClientLayers, _ credentials: Credentials, patienceMilliseconds: UInt64,
        advice: String = ""
    ) {
        (self.address, self.layers, self.credentials) = (address, layers, credentials)
        (self.patienceMilliseconds, self.advice) = (patienceMilliseconds, advice)
    }

    /// Whether somebody listens at a Unix socket.
    public static func isHeard(_ address: ControlAddress) -> Bool {
        guard case .unixSocket(let path) = address,
            let address = try? ListenAddress(host: .path(path), port: 0).resolve().first,
            let channel = try? BlockingChannel(to: address, ClientLayers())
        else { return false }
        channel.close()
        return true
    }

    public func answer(to request: ControlRequest) throws(ControlError) -> ControlAnswer {
        let deadline = MonotonicClock.milliseconds() + patienceMilliseconds
        var answer = ControlAnswer(status: 0, body: [])
        try exchange(request, HTTPResponseReader(to: request.method, bodyBytesMax: Limits.answerBytesMax), { deadline }) { event in
            switch event {
            case .head(let head): answer.status = head.status.rawValue
            case .body(let piece): answer.body += piece
            case .needsMore, .end: break
            }
            return true
        }
        return answer
    }

    public func follow(_ request: ControlRequest, _ take: (ServerSentEvent) -> Bool) throws(ControlError) {
        let began = MonotonicClock.milliseconds()
        var refusal: ControlAnswer?
        var events = ServerSentEventReader()
        var failure: HTTPResponseError?
        // The broker sends a comment every 15 s: one that is silent for longer has gone.
        var silentSince = began
        try exchange(request, HTTPResponseReader(bodyBytesMax: nil), { silentSince + Self.silenceMilliseconds }) { event in
            silentSince = MonotonicClock.milliseconds()
            switch event {
            case .head(let head):
                if head.status != .ok { refusal = ControlAnswer(status: head.status.rawValue, body: []) }
            case .body(let piece):
                if let answer = refusal {
                    refusal?.body += piece
                    return answer.body.count < Limits.answerBytesMax
                }
                do throws(HTTPResponseError) {
                    for event in try events.read(piece) where !take(event) { return false }
                } catch {
                    failure = error
                    return false
                }
            case .needsMore, .end: break
            }
            return true
        }
        if let refusal { throw ControlError(refusal) }
        if let failure { throw ControlError(.unreachable, "What \(address) answers \(failure).") }
    }

    // MARK: One connection

    /// Sends the request to the first address that takes it, and reads until the answer ends or `take` returns false.
    private func exchange(
        _ request: ControlRequest, _ reader: HTTPResponseReader, _ deadline: () -> UInt64,
        _ take: (HTTPResponseReader.Event) -> Bool
    ) throws(ControlError) {
        var failure = ControlError(.unreachable, "\(address) has no address.")
        for address in try addresses() {
            do throws(BlockingChannel.Failure) {
                var channel = try BlockingChannel(to: address, layers)
                defer { channel.close() }
                var output = bytes(of: request)[...]
                let size = output.count
                // Nothing is sent twice: another address is tried only where this one has not taken a byte.
                let first: [UInt8]?
                do throws(BlockingChannel.Failure) {
                    first = try channel.exchange(&output, deadline: deadline())
                } catch  where output.count == size {
                    failure = nobody(error.reason)
                    continue
                }
                try read(first, &channel, &output, reader, deadline, take)
                return
            } catch {
                throw nobody(error.reason)
            }
        }
        throw failure
    }

    private func nobody(_ reason: String) -> ControlError {
        ControlError(.unreachable, "\(address): \(reason)." + (advice.isEmpty ? "" : " \(advice)"))
    }

    private func read(
        _ first: [UInt8]?, _ channel: inout BlockingChannel, _ output: inout ArraySlice<UInt8>, _ reader: HTTPResponseReader,
        _ deadline: () -> UInt64, _ take: (HTTPResponseReader.Event) -> Bool
    ) throws(BlockingChannel.Failure) {
        var reader = reader
        var chunk = first
        while true {
            do throws(HTTPResponseError) {
                if let chunk { reader.append(chunk) } else { try reader.finish() }
                var event = try reader.next()
                while event != .needsMore {
                    if event == .end || !take(event) { return }
                    event = try reader.next()
                }
            } catch {
                throw BlockingChannel.Failure("what it answers \(error)")
            }
            chunk = try channel.exchange(&output, deadline: deadline())
        }
    }

    private func addresses() throws(ControlError) -> [SocketAddress] {
        let address =
            switch address {
            case .unixSocket(let path): ListenAddress(host: .path(path), port: 0)
            case .tcp(let host, let port, _): ListenAddress(host: .named(host), port: port)
            }
        do throws(ResolutionError) {
            return try address.resolve()
        } catch {
            throw ControlError(.unreachable, "\(error).")
        }
    }

    private func bytes(of request: ControlRequest) -> [UInt8] {
        var fields: HTTPFields = ["Host": address.host, "Accept": "*/*", "Connection": "close"]
        if case .token(let token) = credentials { fields.append("Authorization", "Bearer \(token)") }
        let body = Array((request.body ?? "").utf8)
        if request.body != nil { fields.append("Content-Type", "application/json") }
        if request.body != nil || request.method == .post || request.method == .put {
            fields.append("Content-Length", String(body.count))
        }
        let head = fields.all.reduce("\(request.method) \(request.target) HTTP/1.1\r\n") { $0 + "\($1.name): \($1.value)\r\n" }
        return Array((head + "\r\n").utf8) + body
    }

    private static let silenceMilliseconds: UInt64 = 60_000
}

/// Where a broker's HTTP API is.
public enum ControlAddress: Equatable, Sendable {
    case unixSocket(path: String)
    case tcp(host: String, port: UInt16, usesTLS: Bool)

    /// Where it is on a machine with Martlet installed, and nobody has said otherwise.
    public static let packagedSocket = "/run/martlet/http.sock"

    /// This machine's, where a broker without a configuration has it.
    public static let standard = ControlAddress.tcp(host: "127.0.0.1", port: 9883, usesTLS: false)

    /// Reads `http://host:port`, `https://host`, `unix:/path`; nil for anything else, and for a URL with a user, a path
    /// or a query.
    public init?(url: String) {
        if url.hasPrefix("unix:/") {
            self = .unixSocket(path: String(url.dropFirst(5)))
            return
        }
        let usesTLS = url.lowercased().hasPrefix("https://")
        guard usesTLS || url.lowercased().hasPrefix("http://") else { return nil }
        var rest = url.dropFirst(usesTLS ? 8 : 7)
        if rest.last == "/" { rest = rest.dropLast() }
        let isNumericIPv6 = rest.first == "["
        guard let end = isNumericIPv6 ? rest.firstIndex(of: "]") : rest.firstIndex(of: ":") ?? rest.endIndex else { return nil }
        let host = isNumericIPv6 ? rest[..<end].dropFirst() : rest[..<end]
        let behind = isNumericIPv6 ? rest[end...].dropFirst() : rest[end...]
        let isName: (UInt8) -> Bool = { byte in
            byte > 0x20 && byte < 0x7F && !"/?#@[]\\\"".utf8.contains(byte) && (isNumericIPv6 || byte != UInt8(ascii: ":"))
        }
        guard !host.isEmpty, host.utf8.allSatisfy(isName) else { return nil }
        guard !behind.isEmpty else {
            self = .tcp(host: String(host), port: usesTLS ? 443 : 80, usesTLS: usesTLS)
            return
        }
        guard behind.first == ":", behind.dropFirst().utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = UInt16(behind.dropFirst()), port > 0
        else { return nil }
        self = .tcp(host: String(host), port: port, usesTLS: usesTLS)
    }

    /// What the field Host says: a Unix socket is this machine.
    var host: String {
        switch self {
        case .unixSocket: "localhost"
        case .tcp(let host, let port, let usesTLS):
            (host.contains(":") ? "[\(host)]" : host) + (port == (usesTLS ? 443 : 80) ? "" : ":\(port)")
        }
    }
}

extension ControlAddress: CustomStringConvertible {
    /// As a person gives it.
    public var description: String {
        switch self {
        case .unixSocket(let path): path
        case .tcp(_, _, let usesTLS): (usesTLS ? "https://" : "http://") + host
        }
    }
}

/// One question or order to the API.
public struct ControlRequest: Sendable, Equatable {
    public var method: HTTPMethod
    /// Percent-encoded, with the query.
    public var target: String
    /// JSON; nil for none.
    public var body: String?

    /// - `segments`: of the path below `/api/martlet/v1`, as they are.
    /// - `query`: names and values as they are; those without a value are left out.
    public init(_ method: HTTPMethod, _ segments: [String], query: [(String, String?)] = [], body: String? = nil) {
        self.method = method
        target = Self.target("/api/martlet/v1", segments, query)
        self.body = body
    }

    /// A question.
    public init(_ segments: [String]) { self.init(.get, segments) }

    /// Outside the API: `/readyz`.
    public init(plain path: String, query: [(String, String?)] = []) {
        method = .get
        target = Self.target(path, [], query)
    }

    private static func target(_ path: String, _ segments: [String], _ query: [(String, String?)]) -> String {
        let pairs = query.compactMap { name, value in value.map { "\(name)=\(PercentCoding.encode($0))" } }
        let path = segments.reduce(path) { $0 + "/" + PercentCoding.encode($1) }
        return path + (pairs.isEmpty ? "" : "?" + pairs.joined(separator: "&"))
    }
}

/// What came back.
public struct ControlAnswer: Sendable, Equatable {
    public var status: Int
    public var body: [UInt8]

    public init(status: Int, body: [UInt8]) { (self.status, self.body) = (status, body) }

    var isSuccess: Bool { (200..<300).contains(status) }
}

/// What answers requests: a broker, or a test.
public protocol ControlService {
    /// The whole answer, whatever its status.
    func answer(to request: ControlRequest) throws(ControlError) -> ControlAnswer

    /// A stream of events: each is given to `take` until that returns false or the stream ends. Answers other than 200
    /// are thrown.
    func follow(_ request: ControlRequest, _ take: (ServerSentEvent) -> Bool) throws(ControlError)
}

/// Why a command did not do what it was to do: the end of the process.
public struct ControlError: Error, Equatable, CustomStringConvertible {
    /// With what the process ends.
    public enum Code: Int32, Sendable {
        /// The broker does not do it, or finds something wrong.
        case refused = 1
        /// There is no answer.
        case unreachable = 2
        /// Log in, or as somebody else.
        case notAllowed = 3
        /// There is no such client, bridge, token, topic or trace.
        case notFound = 4
    }

    public let code: Code
    /// A sentence. Nothing in it moves a terminal's cursor.
    public let description: String

    init(_ code: Code, _ words: String) { (self.code, description) = (code, TerminalText.line(words)) }

    /// What an answer says that is no success.
    init(_ answer: ControlAnswer) {
        let code: Code =
            switch answer.status {
            case 401, 403: .notAllowed
            case 404: .notFound
            default: .refused
            }
        let envelope = try? JSONValue(reading: answer.body)
        var words = envelope?.object?["message"]?.string ?? "the broker answers with status \(answer.status)."
        if answer.status == 401 {
            words += " Give a token with --token-file or MARTLET_TOKEN, or ask over the broker's Unix socket."
        }
        if answer.status == 403, words.hasPrefix("That needs the role") {
            words += " Ask over the broker's Unix socket, as root or as the broker's user, or give a token with that role."
        }
        self.init(code, words)
    }

    /// The error with the name of the object that does not exist.
    func about(_ name: String) -> ControlError {
        let beginning = "There is no such "
        guard code == .notFound, description.hasPrefix(beginning) else { return self }
        let kind = description.dropFirst(beginning.count).prefix { $0 != "." }
        return ControlError(.notFound, "There is no \(kind) \(name).")
    }
}

extension Limits {
    /// Bytes of an answer that is no stream; a longer one is an error.
    static let answerBytesMax = 16 << 20
}
