internal import Bytes
internal import HTTP
internal import Platform

/// One side of a WebSocket that carries MQTT, RFC 6455.
///
/// ```
///   opening ──► open ──► closed
///      └─────────────────▲
/// ```
/// opening: the head of the peer's HTTP message is collected. open: frames both ways. closed: a Close frame was sent or
/// received, or the handshake failed; whatever comes is dropped.
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

/// Which end of a WebSocket this is.
enum WebSocketSide {
    case server(WebSocketSettings)
    case client(WebSocketOffer)

    /// How long the head of the peer's HTTP message may be.
    var headBytesMax: Int {
        switch self {
        case .server(let settings): settings.headerBytesMax
        case .client: 8192
        }
    }

    var frameBytesMax: UInt64 {
        switch self {
        case .server(let settings): settings.frameBytesMax
        case .client(let offer): offer.settings.frameBytesMax
        }
    }

    var isServer: Bool {
        switch self {
        case .server: true
        case .client: false
        }
    }

    /// The mask of the next frame that goes out; a server's have none.
    var nextMask: WebSocketMask? { isServer ? nil : .random() }
}

/// What a client says to open a WebSocket, RFC 6455, section 4.1, and which answer it takes.
struct WebSocketOffer {
    let settings: WebSocketClientSettings
    /// Random; the answer shows that the server has read it.
    private let key: String

    init(_ settings: WebSocketClientSettings) {
        self.settings = settings
        var bytes = [UInt8](repeating: 0, count: 16)
        bytes.withUnsafeMutableBytes { RandomBytes.fill($0) }
        key = Base64.encode(bytes)
    }

    /// [MQTT-6.0.0-3 v5]
    var request: String {
        let own = [
            "GET \(settings.path) HTTP/1.1", "Host: \(settings.host)", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Key: \(key)", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: mqtt",
        ]
        let others = settings.fields.filter { $0.flaw == nil }.map { "\($0.name): \($0.value)" }
        return (own + others).joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// Finds what is wrong with the server's answer, nil when it opens the WebSocket.
    func flaw(inAnswer head: some Collection<UInt8>) -> String? {
        guard let response = HTTPResponseHead(head), response.version == .http11 else { return "the server's answer is not HTTP" }
        guard response.status.rawValue == 101 else { return "the server answers \(response.status.rawValue) \(response.reason)" }
        let fields = response.fields
        guard fields.names("websocket", in: "Upgrade"), fields.names("upgrade", in: "Connection"),
            fields["Sec-WebSocket-Accept"] == WebSocketHandshake.answer(to: key)
        else { return "the server's answer does not belong to the request" }
        guard fields["Sec-WebSocket-Protocol"] == "mqtt" else { return "the server does not speak MQTT over WebSocket" }
        return nil
    }
}

/// Puts each MQTT packet of a byte stream into a binary frame of its own. [MQTT-6.0.0-1 v5]
///
/// Some clients lose what follows the first packet of a frame. A packet may come in pieces, its fixed header too: the
/// frame's length is the packet's, so a frame begins when the Remaining Length is known, and its bytes follow as they
/// come.
struct WebSocketPacketFramer: ~Copyable {
    /// The fixed header, as far as it has come.
    private var head = InlineArray<5, UInt8>(repeating: 0)
    private var headCount = 0
    /// How much of the packet whose frame has begun is still to come.
    private var remaining = 0

    /// Whether a frame of another kind may be put in here.
    var isBetweenFrames: Bool { remaining == 0 }

    /// Frames the bytes onto the end of `target`.
    mutating func frame(_ slice: ByteSlice, into target: ByteBlock) {
        var position = slice.base
        var left = slice.count
        while left > 0 {
            if remaining == 0 {
                head[headCount] = position.load(as: UInt8.self)
                headCount &+= 1
                position += 1
                left &-= 1
                if isHeadComplete { begin(into: target) }
                continue
            }
            let taken = min(remaining, left)
            target.append(position, count: taken)
            position += taken
            left &-= taken
            remaining &-= taken
        }
    }

    /// The packet type, then one to four digits of the length, all but the last with their highest bit set.
    private var isHeadComplete: Bool { headCount > 1 && (head[headCount &- 1] & 0x80 == 0 || headCount == 5) }

    private mutating func begin(into target: ByteBlock) {
        var length = 0
        for index in 1..<headCount { length |= Int(head[index] & 0x7F) << (7 * (index &- 1)) }
        WebSocketFrame.appendHead(.binary, length: headCount &+ length, to: target)
        for index in 0..<headCount { target.extend(by: 1).storeBytes(of: head[index], as: UInt8.self) }
        headCount = 0
        remaining = length
    }
}

/// Takes the peer's frames apart, whatever their alignment to reads and to MQTT packets. [MQTT-6.0.0-2 v5]
///
/// ```
///   head ──► data ──► head              head ──► control ──► head
/// ```
/// head: the beginning of a frame is collected, 14 bytes at most. data: its bytes are unmasked straight into the
/// target, as they come. control: its bytes, 125 at most, are collected.
struct WebSocketFrameReader: ~Copyable {
    /// What the reader stopped at.
    enum Event {
        /// The source is empty.
        case exhausted
        case ping([UInt8])
        case close([UInt8])
        case violation(WebSocketViolation)
    }

    private enum State {
        case head
        case data
        case control(WebSocketOpcode)
    }

    private let frameBytesMax: UInt64
    private let isMasked: Bool
    private var state = State.head
    private var head = InlineArray<14, UInt8>(repeating: 0)
    private var headCount = 0
    /// How much of the frame's payload is still to come.
    private var remaining = 0
    private var mask = WebSocketMask(0)
    private var control: [UInt8] = []
    /// Whether a message has begun whose last frame has not.
    private var isInMessage = false

    /// - Parameter isMasked: whether the peer has to mask its frames: a client has to, a server must not.
    init(frameBytesMax: UInt64, isMasked: Bool) {
        self.frameBytesMax = frameBytesMax
        self.isMasked = isMasked
    }

    /// Reads on from the front of `source` until it is empty or something happens; adds data to `target` behind `count`
    /// bytes.
    mutating func read(
        _ source: inout UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, count: inout Int
    ) -> Event {
        while true {
            switch state {
            case .head:
                guard collectHead(&source) else { return .exhausted }
                do throws(WebSocketViolation) {
                    try begin(WebSocketFrameHead(head, isMasked: isMasked))
                } catch {
                    return .violation(error)
                }
            case .data:
                count += unmask(&source, into: UnsafeMutableRawBufferPointer(rebasing: target[count...]))
                guard remaining == 0 else { return .exhausted }
                state = .head
            case .control(let opcode):
                guard collectControl(&source) else { return .exhausted }
                state = .head
                switch opcode {
                case .ping: return .ping(control)
                case .close: return .close(control)
                case .pong, .continuation, .text, .binary: continue
                }
            }
        }
    }

    /// Takes bytes until the head is complete.
    private mutating func collectHead(_ source: inout UnsafeRawBufferPointer) -> Bool {
        while headCount < 2 || headCount < WebSocketFrameHead.byteCount(head[1]) {
            guard let byte = source.first else { return false }
            head[headCount] = byte
            headCount += 1
            source = UnsafeRawBufferPointer(rebasing: source[1...])
        }
        headCount = 0
        return true
    }

    private mutating func begin(_ head: WebSocketFrameHead) throws(WebSocketViolation) {
        mask = head.mask
        if head.opcode.isControl {
            remaining = Int(head.length)
            control = []
            state = .control(head.opcode)
            return
        }
        // [MQTT-6.0.0-1 v5]
        guard head.opcode != .text else { throw .init(.unacceptableData, "a text frame came, and MQTT is binary") }
        guard isInMessage == (head.opcode == .continuation) else {
            throw .init(.protocolError, isInMessage ? "a message began inside another" : "a continuation came without a beginning")
        }
        guard head.length <= frameBytesMax else {
            throw .init(.messageTooLarge, "a frame of \(head.length) bytes exceeds \(frameBytesMax)")
        }
        isInMessage = !head.isFinal
        remaining = Int(head.length)
        state = .data
    }

    private mutating func collectControl(_ source: inout UnsafeRawBufferPointer) -> Bool {
        let start = control.count
        var bytes = control + repeatElement(0, count: min(remaining, source.count))
        bytes.withUnsafeMutableBytes { _ = unmask(&source, into: UnsafeMutableRawBufferPointer(rebasing: $0[start...])) }
        control = bytes
        return remaining == 0
    }

    /// Moves what has come of the payload from the front of `source` to the front of `target`, without its mask;
    /// returns how much.
    private mutating func unmask(_ source: inout UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer) -> Int {
        let taken = min(remaining, source.count)
        mask.copy(UnsafeRawBufferPointer(rebasing: source[..<taken]), into: target)
        source = UnsafeRawBufferPointer(rebasing: source[taken...])
        remaining -= taken
        return taken
    }
}

/// The beginning of a frame, RFC 6455, section 5.2. A client's frames have a mask, a server's have none.
///
/// ```
///   0             1             2                           then
///   |F|RSV| opcode|M| length    | length of 16 or 64 bits … | mask, 4 bytes |
/// ```
struct WebSocketFrameHead {
    let isFinal: Bool
    let opcode: WebSocketOpcode
    let length: UInt64
    let mask: WebSocketMask

    /// How long a head is with this as its second byte.
    static func byteCount(_ second: UInt8) -> Int {
        2 + lengthByteCount(second) + (second & 0x80 == 0 ? 0 : 4)
    }

    private static func lengthByteCount(_ second: UInt8) -> Int {
        second & 0x7F == 127 ? 8 : second & 0x7F == 126 ? 2 : 0
    }

    /// Reads a complete head, and finds what is wrong with it by itself.
    ///
    /// - Parameter isMasked: whether the sender has to mask its frames.
    init(_ bytes: borrowing InlineArray<14, UInt8>, isMasked: Bool) throws(WebSocketViolation) {
        let first = bytes[0]
        let second = bytes[1]
        guard first & 0x70 == 0 else { throw .init(.protocolError, "a reserved bit is set") }
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else {
            throw .init(.protocolError, "there is no opcode \(first & 0x0F)")
        }
        guard (second & 0x80 != 0) == isMasked else {
            throw .init(.protocolError, isMasked ? "a frame is not masked" : "a server's frame is masked")
        }
        let lengthBytes = Self.lengthByteCount(second)
        var length = UInt64(second & 0x7F)
        if lengthBytes > 0 {
            length = 0
            for index in 0..<lengthBytes { length = length << 8 | UInt64(bytes[2 + index]) }
        }
        guard length >> 63 == 0 else { throw .init(.protocolError, "a length has its highest bit set") }
        isFinal = first & 0x80 != 0
        guard !opcode.isControl || (isFinal && length <= 125) else {
            throw .init(.protocolError, "a control frame is fragmented or longer than 125 bytes")
        }
        self.opcode = opcode
        self.length = length
        var mask: UInt32 = 0
        if isMasked {
            for index in 0..<4 { mask |= UInt32(bytes[2 + lengthBytes + index]) << (8 * UInt32(index)) }
        }
        self.mask = WebSocketMask(mask)
    }
}
