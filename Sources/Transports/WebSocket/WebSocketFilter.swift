internal import Bytes
internal import HTTP

/// One side of a WebSocket that carries MQTT, RFC 6455.
///
/// ```
///   opening ──► open ──► closed
///      └─────────────────▲
/// ```
/// opening: the head of the peer's HTTP message is collected. open: frames both ways. closed: a Close frame was sent or received, or
/// the handshake failed; whatever comes is dropped.
final class WebSocketFilter: StreamFilter {
    private enum State {
        case opening
        case open
        case closed
    }

    private let side: WebSocketSide
    private var state = State.opening
    /// The peer's request or response, while it is incomplete.
    private var head: [UInt8] = []
    private var reader: WebSocketFrameReader
    private var framer = WebSocketPacketFramer()
    /// The latest ping that waits for its pong, because a packet is half sent.
    private var owedPong: [UInt8]?
    /// The peer, if it is a proxy whose word for its client is believed, and the client that it has named.
    private let proxy: ForwardingProxy?
    private var client: PeerAddress?

    /// The server's side.
    convenience init(_ settings: WebSocketSettings, proxy: ForwardingProxy? = nil) {
        self.init(.server(settings), proxy: proxy)
    }

    /// The server's side of one that somebody else has opened.
    convenience init(opened settings: WebSocketSettings) {
        self.init(.server(settings))
        state = .open
    }

    /// The client's side.
    convenience init(_ settings: WebSocketClientSettings) {
        self.init(.client(WebSocketOffer(settings)))
    }

    private init(_ side: WebSocketSide, proxy: ForwardingProxy? = nil) {
        self.side = side
        self.proxy = proxy
        reader = WebSocketFrameReader(frameBytesMax: side.frameBytesMax, isMasked: side.isServer)
    }

    var isOpen: Bool { state != .opening }

    func describe(_ identity: inout PeerIdentity) {
        if let client { identity.forwardedAddress = client }
    }

    // MARK: Opening

    func begin(into target: ByteBlock) {
        guard case .client(let offer) = side else { return }
        target.append(offer.request.utf8)
    }

    /// Collects the peer's head and judges it when it is complete. Leaves in `source` what comes behind it.
    private func handshake(_ source: inout UnsafeRawBufferPointer, _ reply: ByteBlock) -> FilterRefusal? {
        let earlier = head.count
        if earlier == 0, side.isServer, let first = source.first, let words = Self.strangerWords(first) {
            // Its peer would wait for an answer of its own protocol, for ever.
            reply.append(HTTPRefusal(.badRequest, "\(words).").response.wholeBytes)
            return FilterRefusal(.webSocket, words)
        }
        head.append(contentsOf: source.prefix(side.headBytesMax + Self.headEnd.count - earlier))
        guard let end = Self.endOfHead(head, from: max(0, earlier - 3)), end <= side.headBytesMax else {
            return head.count > side.headBytesMax ? refuseLongHead(reply) : nil
        }
        if let refusal = judge(head[..<(end - Self.headEnd.count)], reply) { return refusal }
        source = UnsafeRawBufferPointer(rebasing: source[(end - earlier)...])
        head = []
        state = .open
        return nil
    }

    /// Whether the peer's complete head opens the WebSocket; a server answers.
    private func judge(_ head: ArraySlice<UInt8>, _ reply: ByteBlock) -> FilterRefusal? {
        switch side {
        case .server(let settings):
            do throws(HTTPRefusal) {
                let acceptance = try WebSocketHandshake(settings: settings, proxy: proxy).accept(head)
                client = acceptance.client
                reply.append(acceptance.answer.utf8)
                return nil
            } catch {
                return refuse(error, reply)
            }
        case .client(let offer):
            return offer.flaw(inAnswer: head).map { FilterRefusal(.webSocket, $0) }
        }
    }

    /// What to say of a client whose first byte begins no HTTP request; nil where it may begin one.
    private static func strangerWords(_ firstByte: UInt8) -> String? {
        switch firstByte {
        case 0x10:
            "the client speaks MQTT, and this port MQTT over WebSocket: let it connect as a WebSocket, or to a listener without protocol "
                + "websockets"
        case 0x16:
            "the client speaks TLS, and this port does not: let it use ws instead of wss, or give this listener certfile and keyfile"
        // Empty lines may stand above a request.
        case 0x0D, 0x0A: nil
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): nil
        default: "the client does not speak HTTP, which a WebSocket begins with"
        }
    }

    private func refuseLongHead(_ reply: ByteBlock) -> FilterRefusal {
        guard side.isServer else {
            return FilterRefusal(.webSocket, "the server's answer is longer than \(side.headBytesMax) bytes")
        }
        let refusal = HTTPRefusal(
            .fieldsTooLarge, "The request's head is longer than \(side.headBytesMax) bytes; see packet_buffer_size.")
        return refuse(refusal, reply)
    }

    private func refuse(_ refusal: HTTPRefusal, _ reply: ByteBlock) -> FilterRefusal {
        reply.append(refusal.response.wholeBytes)
        // What logs add is a full stop.
        let explanation = refusal.explanation.hasSuffix(".") ? String(refusal.explanation.dropLast()) : refusal.explanation
        return FilterRefusal(.webSocket, "\(refusal.status): \(explanation)")
    }

    /// Where the head ends, behind its empty line; nil when it has not come.
    private static func endOfHead(_ bytes: [UInt8], from start: Int) -> Int? {
        guard start + headEnd.count <= bytes.count else { return nil }
        for index in start...(bytes.count - headEnd.count) where bytes[index] == headEnd[0] {
            if bytes[index..<(index + headEnd.count)] == headEnd[...] { return index + headEnd.count }
        }
        return nil
    }

    private static let headEnd = Array("\r\n\r\n".utf8)

    // MARK: Incoming

    func decode(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, reply: ByteBlock) -> Decoding {
        var rest = source
        if state == .opening, let refusal = handshake(&rest, reply) {
            head = []
            state = .closed
            return Decoding(end: .refused(refusal))
        }
        guard state == .open else { return Decoding() }
        return frames(&rest, into: target, reply: reply)
    }

    private func frames(
        _ source: inout UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, reply: ByteBlock
    ) -> Decoding {
        var decoding = Decoding()
        while decoding.end == nil {
            switch reader.read(&source, into: target, count: &decoding.count) {
            case .exhausted: return decoding
            case .ping(let payload): pong(payload, reply)
            case .close(let payload): decoding.end = closed(by: payload, reply)
            case .violation(let violation): decoding.end = violated(violation, reply)
            }
        }
        return decoding
    }

    private func pong(_ payload: [UInt8], _ reply: ByteBlock) {
        guard framer.isBetweenFrames else {
            owedPong = payload
            return
        }
        WebSocketFrame.appendControl(.pong, payload, mask: side.nextMask, to: reply)
    }

    /// The peer closes: it gets its code back, or learns that it is none.
    private func closed(by payload: [UInt8], _ reply: ByteBlock) -> StreamEnd {
        guard !payload.isEmpty else {
            close(with: .normal, reply)
            return .orderly
        }
        guard payload.count >= 2 else { return violated(.init(.protocolError, "a close code has one byte"), reply) }
        let code = WebSocketCloseCode(rawValue: UInt16(payload[0]) << 8 | UInt16(payload[1]))
        guard code.mayBeSent else { return violated(.init(.protocolError, "\(code.rawValue) is no close code"), reply) }
        guard String(validating: payload.dropFirst(2), as: UTF8.self) != nil else {
            return violated(.init(.inconsistentData, "a close reason is not UTF-8"), reply)
        }
        close(with: code, reply)
        return .orderly
    }

    private func violated(_ violation: WebSocketViolation, _ reply: ByteBlock) -> StreamEnd {
        close(with: violation.code, reply)
        return .refused(FilterRefusal(.webSocket, violation.explanation))
    }

    private func close(with code: WebSocketCloseCode, _ target: ByteBlock) {
        // Inside a frame that is half sent a Close would be read as a part of it.
        if framer.isBetweenFrames { WebSocketFrame.appendClose(code, mask: side.nextMask, to: target) }
        state = .closed
    }

    // MARK: Outgoing

    func encode(_ slices: UnsafeBufferPointer<ByteSlice>, into target: ByteBlock) {
        guard state == .open else { return }
        guard side.isServer else { return WebSocketFrame.appendMasked(slices, to: target) }
        for slice in slices {
            framer.frame(slice, into: target)
        }
        guard let payload = owedPong, framer.isBetweenFrames else { return }
        WebSocketFrame.appendControl(.pong, payload, mask: nil, to: target)
        owedPong = nil
    }

    func finish(into target: ByteBlock) {
        guard state == .open else { return }
        close(with: .normal, target)
    }
}
