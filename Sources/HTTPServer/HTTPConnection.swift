internal import Bytes
internal import HTTP
internal import Platform
internal import Transports

/// One connection: reads requests, has them answered in their order, and writes.
///
/// ```
///            the peer ends, an answer that ends it, or its time is up        2 s, or the peer ends
///   open ──────────────────────────────────────────────────────────► lingering ──────────────────► closed
///     └────────────────────── it breaks, or does not read ───────────────────────────────────────────▲
/// ```
/// lingering: all is said and the end of our stream is sent; what still comes is read and dropped, for a close with
/// unread bytes resets the connection, and the peer may lose what it was told last.
///
/// `waiting.count <= pipelinedMax + 1` and `current != nil` while one is answered. Output is bounded by
/// `Limits.outputBytesMax` and one piece: no request is begun and nothing is taken of a body while more than that
/// waits.
final class HTTPConnection: EventHandler {
    private enum State {
        case open
        case lingering
        case closed
    }

    private enum Work {
        case request(HTTPRequest)
        case refusal(HTTPRefusal)
    }

    /// The request that is being answered.
    private struct Current {
        let number: UInt64
        let isHead: Bool
        let version: HTTPVersion
        let endsConnection: Bool
        let bodyByteCount: Int
        weak var exchange: HTTPExchange?
        /// The body of its answer, once there is one that comes over time.
        var stream: HTTPStream?
        /// What takes the peer's bytes, once the connection speaks another protocol.
        var received: ((UnsafeRawBufferPointer) -> Void)?
        /// The body of its answer, once there is one that is too long to be written at once.
        var content: ContentReader?

        var hasAnswer: Bool { stream != nil || content != nil }
    }

    /// Whether it has come where all slots were taken: then it gets what is urgent, and an end.
    let isInReserve: Bool
    /// The network that it counts for; nil for none.
    var network: PeerAddress?
    /// The peer as it was when the connection was accepted, before its layers or a proxy have told more.
    private let accepted: HTTPPeer
    /// The peer, if it is a proxy that is believed when its requests say whom they are from, and the one who was let in
    /// last.
    private let proxy: ForwardingProxy?
    private var admittedClient: PeerAddress?
    private unowned let service: HTTPService
    private let channel: any ByteChannel
    private let filtered: FilteredChannel?
    private var registration: Registration?
    private var state = State.open
    private var reader: HTTPRequestReader
    private var waiting: [Work] = []
    private var current: Current?
    private var output = OutputBytes()
    private var lastNumber: UInt64 = 0
    private var isAdmitted: Bool
    /// Whether the connection ends when the output is written.
    private var isEnding = false
    /// Whether the peer sends nothing more, or is not listened to any more.
    private var inputEnded = false
    /// Whether it ends when the body that is being sent does.
    private var endsWithBody = false
    private var owesContinue = false
    private var isAdvancing = false
    private var times: ConnectionTimes

    /// - Parameter accepted: the peer, by what is known before anything is read.
    init(
        _ channel: any ByteChannel, from accepted: HTTPPeer, proxy: ForwardingProxy?, isInReserve: Bool, service: HTTPService
    ) {
        self.proxy = proxy
        self.channel = channel
        filtered = channel as? FilteredChannel
        (self.accepted, self.isInReserve) = (accepted, isInReserve)
        self.service = service
        reader = HTTPRequestReader(bodyBytesMax: service.bodyBytesMax)
        isAdmitted = filtered == nil
        times = ConnectionTimes(now: service.loop.nowMilliseconds)
    }

    /// By which listener it came.
    var listener: Int { accepted.listener }

    func begin() throws(SystemError) {
        registration = try service.loop.register(channel.fileDescriptor, for: .readable, handler: self)
    }

    private var now: UInt64 { service.loop.nowMilliseconds }

    /// Where it comes from, as far as is known: behind a proxy the client's address, once that has told.
    private var address: PeerAddress { filtered?.peerAddress ?? channel.peerAddress }

    private var peer: HTTPPeer { peer(at: address) }

    private func peer(at address: PeerAddress) -> HTTPPeer {
        var peer = accepted
        peer.address = address
        if let filtered { peer.identity = filtered.identity }
        return peer
    }

    /// The peer that a request is from. A proxy asks for many peers on one connection, so each of its requests names
    /// its own; a peer that comes after another is let in, or not, as if it had connected itself.
    private func peer(asking request: HTTPRequest) throws(HTTPRefusal) -> HTTPPeer {
        guard let proxy else { return peer }
        let client = try proxy.client(of: request.fields)
        guard client == admittedClient || service.handler.admits(client, listener: listener) else {
            throw HTTPRefusal(.tooManyRequests, "Too many connections come from this address.")
        }
        admittedClient = client
        return peer(at: client)
    }
}

// MARK: - Events

extension HTTPConnection {
    func ready(_ events: ReadyEvents) {
        switch state {
        case .closed: return
        case .lingering: linger()
        case .open:
            if events.contains(.writable) { filtered?.flush() }
            if !events.isDisjoint(with: [.readable, .hangUp, .error]) { read() }
            advance()
        }
    }

    private func read() {
        let scratch = service.loop.scratch
        // A channel with layers keeps some of the room for itself.
        let room = UnsafeMutableRawBufferPointer(rebasing: scratch[..<(filtered == nil ? Limits.readBytesMax : scratch.count / 2)])
        let result = channel.read(into: room)
        guard isAdmitted || filtered?.isOpen != true || admit() else { return }
        switch result {
        case .bytes(let count) where current?.received != nil: current?.received?(UnsafeRawBufferPointer(rebasing: room[..<count]))
        case .bytes(let count):
            reader.append(UnsafeRawBufferPointer(rebasing: room[..<count]))
            updatePhase()
            if heldByteCount > Limits.outputBytesMax { service.makeRoom(beside: self) }
        case .wouldBlock: break
        case .endOfStream:
            inputEnded = true
            // Nobody reads an answer without end to its end.
            if let stream = current?.stream, !stream.isFinished { close() }
        case .refused(let refusal):
            service.handler.record(.layer(peer, refusal))
            inputEnded = true
            isEnding = true
        case .failed: close()
        }
        if state == .open, filtered?.hasMore == true, !inputEnded { read() }
    }

    /// The layers have told who it is; false when that one may not come.
    private func admit() -> Bool {
        isAdmitted = true
        guard filtered?.identity.forwardedAddress != nil else { return true }
        if service.handler.admits(peer.address, listener: listener), service.findsSlot(for: self, of: address) { return true }
        close()
        return false
    }

    /// Does all that can be done now: takes requests, has them answered, writes.
    private func advance() {
        // A handler that answers at once comes back here; the loop below goes on for it.
        guard !isAdvancing, state == .open else { return }
        isAdvancing = true
        var goesOn = true
        while goesOn, state == .open {
            sendFromStream()
            sendFromContent()
            guard state == .open else { break }
            flush()
            parse()
            goesOn = state == .open && (hasMoreOfStream || hasMoreOfContent || beginNext())
        }
        isAdvancing = false
        if state == .open, output.count == 0, filtered?.holdsBytes != true, isEnding || (inputEnded && current == nil) {
            beginToLinger()
        }
        settle()
    }

    /// Asks the loop for what is needed to go on, and the alarm for the time by which it has to be.
    func settle() {
        guard state != .closed, let registration else { return }
        var interest: Interest = []
        if state == .lingering || (!inputEnded && !isFull) { interest.insert(.readable) }
        let holds = filtered?.holdsBytes == true
        if holds || (output.count > 0 && filtered?.awaitsPeer != true) { interest.insert(.writable) }
        service.loop.modify(registration, interest: interest)
        service.expect(deadline)
    }
}

// MARK: - Requests

extension HTTPConnection {
    /// Whether nothing more is taken before something is answered.
    private var isFull: Bool {
        if isEnding || waiting.count >= Limits.pipelinedMax || reader.waitingByteCount > service.bodyBytesMax { return true }
        // What comes behind a request that is being answered has time.
        return (current != nil || !waiting.isEmpty) && waitingBodyByteCount + reader.heldByteCount > Limits.aheadBytesMax
    }

    /// Bytes of the bodies of requests that wait for their turn.
    private var waitingBodyByteCount: Int {
        waiting.reduce(0) { sum, work in
            if case .request(let request) = work { sum + request.body.count } else { sum }
        }
    }

    /// Bytes that are in memory for this peer alone: of its requests, and of the answer that is being sent.
    var heldByteCount: Int {
        guard state == .open else { return 0 }
        return (current?.content?.heldByteCount ?? current?.bodyByteCount ?? 0) + waitingBodyByteCount + reader.heldByteCount
    }

    /// Since when they are, in milliseconds.
    var heldSince: UInt64 { current == nil ? times.since : times.begunAt }

    private func parse() {
        while !isFull, current?.received == nil {
            switch reader.next() {
            case .needsMore:
                updatePhase()
                return
            case .expectsContinue: owesContinue = true
            case .request(let request):
                times.since = now
                waiting.append(.request(request))
            case .refused(let refusal):
                inputEnded = true
                waiting.append(.refusal(refusal))
                return
            }
        }
    }

    private func updatePhase() { times.reading(reader.phase, now: now) }

    /// Begins with the next request, if none is being answered and there is room for its answer. Returns whether it has
    /// done something.
    private func beginNext() -> Bool {
        guard current == nil, !isEnding, output.count <= Limits.outputBytesMax else { return false }
        guard !waiting.isEmpty else {
            guard owesContinue else { return false }
            owesContinue = false
            output.append("HTTP/1.1 100 Continue\r\n\r\n".utf8)
            return true
        }
        switch waiting.removeFirst() {
        case .refusal(let refusal): refuse(refusal)
        case .request(let request):
            let asking: HTTPPeer
            do throws(HTTPRefusal) {
                asking = try peer(asking: request)
            } catch {
                refuse(error)
                return true
            }
            lastNumber += 1
            times.begunAt = now
            guard !isInReserve || service.handler.isUrgent(request) else {
                write(Self.tooManyConnections, version: request.version, isHead: request.method == .head, endsConnection: true)
                return true
            }
            let exchange = HTTPExchange(request, from: asking, number: lastNumber, on: self)
            current = Current(
                number: lastNumber, isHead: request.method == .head, version: request.version,
                endsConnection: request.endsConnection || isInReserve, bodyByteCount: request.body.count, exchange: exchange)
            service.handler.handle(exchange)
        }
        return true
    }

    private static var tooManyConnections: HTTPResponse {
        var response = HTTPResponse.text("This server has its maximum number of connections.\n", status: .serviceUnavailable)
        response.fields.append("Retry-After", "1")
        return response
    }

    private func refuse(_ refusal: HTTPRefusal) {
        service.handler.record(.refused(peer, refusal))
        write(refusal.response, version: .http11, isHead: false, endsConnection: true)
    }

    /// The answer to a request.
    func answered(_ number: UInt64, _ response: HTTPResponse) {
        guard state == .open, let answered = current, answered.number == number, !answered.hasAnswer else {
            response.body.abandon()
            return
        }
        times.since = now
        write(
            response, version: answered.version, isHead: answered.isHead,
            endsConnection: answered.endsConnection || response.endsConnection)
        advance()
    }

    private func write(_ response: HTTPResponse, version: HTTPVersion, isHead: Bool, endsConnection: Bool) {
        let isLast = endsConnection || (inputEnded && waiting.isEmpty && reader.waitingByteCount == 0)
        if output.count == 0 { times.lastProgress = now }
        if case .upgraded(let stream, let received) = response.body { return upgrade(response, stream, received) }
        output.append(response.head(version: version, endsConnection: isLast, date: service.dateText()))
        switch response.body {
        case .upgraded: break
        case .stream(let stream) where isHead || response.status.hasNoBody:
            stream.abandon()
            current = nil
        case .stream(let stream):
            current?.stream = stream
            stream.serve { [weak self] in self?.advance() }
            // Whether the connection ends is decided when the stream does.
            endsWithBody = isLast
            return
        case .bytes where isHead || response.status.hasNoBody, .content where isHead || response.status.hasNoBody: current = nil
        case .bytes(let bytes) where bytes.count <= Limits.outputBytesMax:
            output.append(bytes)
            current = nil
        case .bytes(let bytes): return begin(WholeContent(bytes), isLast)
        case .content(let content): return begin(content, isLast)
        }
        if isLast { isEnding = true }
    }

    /// Goes on in another protocol. Who has sent more before it was agreed on has not waited for the answer, as they
    /// have to.
    private func upgrade(_ response: HTTPResponse, _ stream: HTTPStream, _ received: @escaping (UnsafeRawBufferPointer) -> Void) {
        guard waiting.isEmpty, reader.waitingByteCount == 0, !inputEnded else {
            stream.abandon()
            return close()
        }
        output.append(response.head(endsConnection: false, date: service.dateText()))
        current?.stream = stream
        current?.received = received
        stream.serve { [weak self] in self?.advance() }
        endsWithBody = true
    }

    private func begin(_ content: any HTTPContent, _ isLast: Bool) {
        current?.content = ContentReader(content)
        endsWithBody = isLast
        service.makeRoom(beside: self)
    }
}

// MARK: - Streams

extension HTTPConnection {
    private var hasMoreOfStream: Bool {
        guard let stream = current?.stream, output.count <= Limits.outputBytesMax else { return false }
        return stream.waitingByteCount > 0 || stream.isFinished
    }

    private func sendFromStream() {
        guard let answering = current, let stream = answering.stream, output.count <= Limits.outputBytesMax else { return }
        let isChunked = answering.version == .http11 && answering.received == nil
        let piece = stream.take()
        if output.count == 0 { times.lastProgress = now }
        output.append(isChunked ? HTTPChunk.encode(piece) : piece)
        guard stream.isFinished, stream.waitingByteCount == 0 else { return }
        if isChunked { output.append(HTTPChunk.end) }
        times.since = now
        current = nil
        if endsWithBody { isEnding = true }
        stream.abandon()
    }
}

// MARK: - Bodies of known length

extension HTTPConnection {
    private var hasMoreOfContent: Bool { current?.content != nil && output.count <= Limits.outputBytesMax }

    private func sendFromContent() {
        guard let content = current?.content, output.count <= Limits.outputBytesMax else { return }
        if output.count == 0 { times.lastProgress = now }
        if !content.isAtEnd {
            let piece = content.take(Limits.outputBytesMax)
            // The head has promised more.
            guard !piece.isEmpty else { return close() }
            output.append(piece)
        }
        guard content.isAtEnd else { return }
        times.since = now
        current = nil
        if endsWithBody { isEnding = true }
    }
}

// MARK: - Writing and ending

extension HTTPConnection {
    private func flush() {
        guard output.count > 0 else { return }
        let (result, written) = output.write(to: channel)
        if written > 0 { times.lastProgress = now }
        if case .failed = result { close() }
    }

    /// When something has to have happened; `.max` for never.
    var deadline: UInt64 {
        switch state {
        case .closed: return .max
        case .lingering: return times.lingersUntil
        case .open: break
        }
        if output.count > 0 || filtered?.holdsBytes == true { return times.lastProgress + Limits.stalledMilliseconds }
        if let current { return current.hasAnswer ? .max : times.begunAt + Limits.answerMilliseconds }
        if filtered?.isOpen == false { return times.since + Limits.headMilliseconds }
        return times.readingDeadline(isInReserve: isInReserve)
    }

    /// The deadline has come.
    func timeIsUp() {
        guard state == .open, output.count == 0, filtered?.holdsBytes != true, filtered?.isOpen != false else {
            close()
            return
        }
        if let late = current {
            late.exchange?.abandon()
            var response = HTTPResponse.text("The answer takes too long.\n", status: .gatewayTimeout)
            response.endsConnection = true
            answered(late.number, response)
            return
        }
        inputEnded = true
        if times.phase == .head || times.phase == .body {
            waiting.append(.refusal(HTTPRefusal(.requestTimeout, "The request took too long.")))
        }
        advance()
    }

    /// Since when it waits for a request that its peer has yet to send, in milliseconds; nil while it is of use.
    var idleSince: UInt64? {
        switch state {
        case .closed: return nil
        case .lingering: return 0
        case .open: break
        }
        guard current == nil, waiting.isEmpty, output.count == 0 else { return nil }
        if filtered?.isOpen == false { return times.since }
        guard filtered?.holdsBytes != true else { return nil }
        return times.phase == .body ? nil : times.since
    }

    /// Ends it from our side, with what is on its way.
    func end() {
        guard state != .closed else { return }
        flush()
        if state != .closed { channel.shutdownSending() }
        close()
    }

    private func beginToLinger() {
        guard state == .open else { return }
        state = .lingering
        times.lingersUntil = now + Limits.lingerMilliseconds
        channel.shutdownSending()
        linger()
    }

    private func linger() {
        filtered?.flush()
        while state == .lingering {
            switch channel.read(
                into: UnsafeMutableRawBufferPointer(rebasing: service.loop.scratch[..<(service.loop.scratch.count / 2)]))
            {
            case .bytes: continue
            case .wouldBlock:
                settle()
                return
            case .endOfStream, .refused, .failed: close()
            }
        }
    }

    private func close() {
        guard state != .closed else { return }
        state = .closed
        if let registration { service.loop.deregister(registration) }
        registration = nil
        channel.close()
        service.forget(self)
        let gone = current
        current = nil
        waiting = []
        gone?.stream?.abandon()
        gone?.exchange?.abandon()
    }
}

/// When what a connection waits for has begun, in milliseconds of the loop's clock: its deadlines are reckoned from it.
private struct ConnectionTimes {
    /// What the reader is in the middle of.
    private(set) var phase = HTTPRequestReader.Phase.idle
    /// When that began, or the last request or answer ended.
    var since: UInt64
    /// When output last went.
    var lastProgress: UInt64
    /// When the request that is being answered was begun.
    var begunAt: UInt64 = 0
    /// When lingering ends.
    var lingersUntil: UInt64 = 0

    init(now: UInt64) { (since, lastProgress) = (now, now) }

    /// The reader has come to this phase, or is in it still.
    mutating func reading(_ phase: HTTPRequestReader.Phase, now: UInt64) {
        guard self.phase != phase else { return }
        (self.phase, since) = (phase, now)
    }

    /// When what is being read has to be there.
    ///
    /// - Parameter isInReserve: whether the connection has come where all slots were taken: it is not kept idle long.
    func readingDeadline(isInReserve: Bool) -> UInt64 {
        switch phase {
        case .idle, .refused: since + (isInReserve ? Limits.headMilliseconds : Limits.idleMilliseconds)
        case .head: since + Limits.headMilliseconds
        case .body: since + Limits.bodyMilliseconds
        }
    }
}

/// How far a body of known length is sent.
final class ContentReader {
    private let content: any HTTPContent
    private var offset = 0

    init(_ content: any HTTPContent) { self.content = content }

    var isAtEnd: Bool { offset >= content.byteCount }
    var heldByteCount: Int { content.heldByteCount }

    /// The next piece; empty when there is none to be had.
    func take(_ count: Int) -> [UInt8] {
        let piece = content.bytes(from: offset, count: min(count, content.byteCount - offset))
        offset += piece.count
        return piece
    }
}

/// A body that is whole already.
final class WholeContent: HTTPContent {
    private let whole: [UInt8]

    init(_ whole: [UInt8]) { self.whole = whole }

    var byteCount: Int { whole.count }
    var heldByteCount: Int { whole.count }

    func bytes(from offset: Int, count: Int) -> [UInt8] { Array(whole.dropFirst(offset).prefix(count)) }
}

/// Bytes of answers on their way to a peer.
struct OutputBytes {
    private var bytes: [UInt8] = []
    private var offset = 0

    var count: Int { bytes.count - offset }

    mutating func append(_ more: some Collection<UInt8>) {
        if offset > 0, offset == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.capacity <= Limits.outputBytesMax)
            offset = 0
        }
        bytes.append(contentsOf: more)
    }

    /// Writes until nothing is left or nothing more is taken. Returns the last result, and how many bytes went.
    mutating func write(to channel: any ByteChannel) -> (result: WriteResult, written: Int) {
        var written = 0
        while count > 0 {
            let result = bytes.withUnsafeBytes { raw -> WriteResult in
                guard let base = raw.baseAddress else { return .wouldBlock }
                let slice = ByteSlice(base: base + offset, count: raw.count - offset)
                return withUnsafePointer(to: slice) { channel.write(UnsafeBufferPointer(start: $0, count: 1)) }
            }
            guard case .wrote(let taken) = result, taken > 0 else { return (result, written) }
            offset += taken
            written += taken
        }
        return (.wrote(written), written)
    }
}

extension Limits {
    /// Requests of one connection that wait behind the one that is being answered; more stay in the kernel's memory.
    /// Bytes: 16 KiB each for a head, and a body, which is bounded by who serves it.
    public static let pipelinedMax = 8

    /// Bytes of such requests; more stay in the kernel's memory.
    static let aheadBytesMax = 64 << 10

    /// Bytes of one read.
    static let readBytesMax = 64 << 10

    /// How long a connection may be silent between two requests, in milliseconds. It is closed then.
    public static let idleMilliseconds: UInt64 = 60_000

    /// How long the handshakes of the layers may take, and then the head of a request, in milliseconds; a head that is
    /// late is answered with 408.
    public static let headMilliseconds: UInt64 = 10_000

    /// How long the body of a request may take, in milliseconds; one that is late is answered with 408.
    public static let bodyMilliseconds: UInt64 = 30_000

    /// How long an answer may take to be found, in milliseconds; then it is 504.
    public static let answerMilliseconds: UInt64 = 60_000

    /// How long a peer may leave an answer unread, in milliseconds. The connection is closed then.
    public static let stalledMilliseconds: UInt64 = 60_000

    /// How long a connection that has ended is read from, so that its peer does not lose what it was told last, in
    /// milliseconds.
    static let lingerMilliseconds: UInt64 = 2000
}
