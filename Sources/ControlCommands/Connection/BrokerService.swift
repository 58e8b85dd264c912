public import HTTP
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

    private let place: ControlPlace
    private let layers: ClientLayers
    private let credentials: Credentials
    private let patienceMilliseconds: UInt64
    private let advice: String

    /// - `layers`: TLS, if the place wants it.
    /// - `patienceMilliseconds`: until the answer to a request is whole.
    /// - `advice`: what to try when nobody answers, as sentences.
    public init(
        _ place: ControlPlace, _ layers: ClientLayers, _ credentials: Credentials, patienceMilliseconds: UInt64, advice: String = ""
    ) {
        (self.place, self.layers, self.credentials) = (place, layers, credentials)
        (self.patienceMilliseconds, self.advice) = (patienceMilliseconds, advice)
    }

    /// Whether somebody listens at a Unix socket.
    public static func isHeard(_ place: ControlPlace) -> Bool {
        guard case .unixSocket(let path) = place,
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
                    for event in try events.take(piece) where !take(event) { return false }
                } catch {
                    failure = error
                    return false
                }
            case .needsMore, .end: break
            }
            return true
        }
        if let refusal { throw ControlError(refusal) }
        if let failure { throw ControlError(.unreachable, "What \(place) answers \(failure).") }
    }

    // MARK: One connection

    /// Sends the request to the first address that takes it, and reads until the answer ends or `take` returns false.
    private func exchange(
        _ request: ControlRequest, _ reader: HTTPResponseReader, _ deadline: () -> UInt64,
        _ take: (HTTPResponseReader.Event) -> Bool
    ) throws(ControlError) {
        var failure = ControlError(.unreachable, "\(place) has no address.")
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
        ControlError(.unreachable, "\(place): \(reason)." + (advice.isEmpty ? "" : " \(advice)"))
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
            switch place {
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
        var fields: HTTPFields = ["Host": place.host, "Accept": "*/*", "Connection": "close"]
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
