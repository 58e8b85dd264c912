/// The server's side of a WebSocket that carries MQTT, RFC 6455.
///
/// ```
///   asking ──► open ──► closed
///      └─────────────────▲
/// ```
/// asking: the HTTP request is collected, as long as the settings allow. open: frames both ways. closed: a Close frame was sent or
/// received, or the request was refused; whatever comes is dropped.
final class WebSocketFilter: StreamFilter {
    private enum State {
        case asking
        case open
        case closed
    }

    private let settings: WebSocketSettings
    private var state = State.asking
    /// The request, while it is incomplete.
    private var request: [UInt8] = []
    private var reader: WebSocketFrameReader
    private var framer = WebSocketPacketFramer()
    /// The latest ping that waits for its pong, because a packet is half sent.
    private var owedPong: [UInt8]?

    init(_ settings: WebSocketSettings) {
        self.settings = settings
        reader = WebSocketFrameReader(frameBytesMax: settings.frameBytesMax)
    }

    var isOpen: Bool { state != .asking }

    func describe(_ identity: inout PeerIdentity) {}

    // MARK: Incoming

    func decode(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, reply: ByteBlock) -> Decoding {
        var rest = source
        if state == .asking, let refusal = handshake(&rest, reply) {
            state = .closed
            return Decoding(end: .refused(refusal))
        }
        guard state == .open else { return Decoding() }
        return frames(&rest, into: target, reply: reply)
    }

    /// Collects the request and answers it when it is complete. Leaves in `source` what comes behind it.
    private func handshake(_ source: inout UnsafeRawBufferPointer, _ reply: ByteBlock) -> FilterRefusal? {
        let earlier = request.count
        request.append(contentsOf: source.prefix(settings.headerBytesMax + Self.headEnd.count - earlier))
        guard let end = Self.endOfHead(request, from: max(0, earlier - 3)), end <= settings.headerBytesMax else {
            guard request.count > settings.headerBytesMax else { return nil }
            return refuse(
                HTTPRefusal(
                    status: "431 Request Header Fields Too Large",
                    explanation: "The request's head is longer than \(settings.headerBytesMax) bytes; see packet_buffer_size."),
                reply)
        }
        do throws(HTTPRefusal) {
            let answer = try WebSocketHandshake(settings: settings).accept(request[..<(end - Self.headEnd.count)])
            reply.append(answer.utf8)
        } catch {
            return refuse(error, reply)
        }
        source = UnsafeRawBufferPointer(rebasing: source[(end - earlier)...])
        request = []
        state = .open
        return nil
    }

    private func refuse(_ refusal: HTTPRefusal, _ reply: ByteBlock) -> FilterRefusal {
        reply.append(refusal.response.utf8)
        request = []
        return FilterRefusal(.webSocket, "\(refusal.status): \(refusal.explanation)")
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
        WebSocketFrame.appendControl(.pong, payload, to: reply)
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
        if framer.isBetweenFrames { WebSocketFrame.appendClose(code, to: target) }
        state = .closed
    }

    // MARK: Outgoing

    func encode(_ slices: UnsafeBufferPointer<TransportSlice>, into target: ByteBlock) {
        guard state == .open else { return }
        for slice in slices {
            framer.frame(slice, into: target)
        }
        guard let payload = owedPong, framer.isBetweenFrames else { return }
        WebSocketFrame.appendControl(.pong, payload, to: target)
        owedPong = nil
    }

    func finish(into target: ByteBlock) {
        guard state == .open else { return }
        close(with: .normal, target)
    }

    // MARK: The request's end

    /// Where the head ends, behind its empty line; nil when it has not come.
    private static func endOfHead(_ bytes: [UInt8], from start: Int) -> Int? {
        guard start + headEnd.count <= bytes.count else { return nil }
        for index in start...(bytes.count - headEnd.count) where bytes[index] == headEnd[0] {
            if bytes[index..<(index + headEnd.count)] == headEnd[...] { return index + headEnd.count }
        }
        return nil
    }

    private static let headEnd = Array("\r\n\r\n".utf8)
}
