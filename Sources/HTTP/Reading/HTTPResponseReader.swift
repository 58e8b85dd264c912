/// Takes the bytes of a stream of events and gives the events, as HTML, section 9.2.6, reads them. Comments are passed
/// over.
public struct ServerSentEventReader {
    private var line: [UInt8] = []
    /// A carriage return was the last byte: a line feed behind it belongs to it.
    private var endsWithReturn = false
    private var isFirstLine = true
    private var event: String?
    private var data: [UInt8]?
    private var id: String?

    public init() {}

    /// The events that end in these bytes. Throws when one is longer than `Limits.eventBytesMax`.
    public mutating func read(_ bytes: some Sequence<UInt8>) throws(HTTPResponseError) -> [ServerSentEvent] {
        var events: [ServerSentEvent] = []
        for byte in bytes {
            defer { endsWithReturn = byte == 0x0D }
            switch byte {
            case 0x0A where endsWithReturn: continue
            case 0x0A, 0x0D:
                if let event = endLine() { events.append(event) }
            default:
                guard line.count + (data?.count ?? 0) < Limits.eventBytesMax else {
                    throw HTTPResponseError("has an event of more than \(Limits.eventBytesMax) bytes")
                }
                line.append(byte)
            }
        }
        return events
    }

    private mutating func endLine() -> ServerSentEvent? {
        defer {
            line.removeAll(keepingCapacity: true)
            isFirstLine = false
        }
        if isFirstLine, line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        guard !line.isEmpty else { return dispatch() }
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
        var value = line[colon...].dropFirst()
        if value.first == 0x20 { value = value.dropFirst() }
        switch String(decoding: line[..<colon], as: UTF8.self) {
        case "event": event = String(decoding: value, as: UTF8.self)
        case "data": data = data.map { $0 + [0x0A] + value } ?? Array(value)
        case "id" where !value.contains(0): id = String(decoding: value, as: UTF8.self)
        default: break
        }
        return nil
    }

    /// An event without data is none.
    private mutating func dispatch() -> ServerSentEvent? {
        defer { (event, data) = (nil, nil) }
        return data.map { ServerSentEvent(id: id, event: event, data: String(decoding: $0, as: UTF8.self)) }
    }
}

/// Why bytes are no answer that is taken.
public struct HTTPResponseError: Error, Equatable, CustomStringConvertible {
    /// The end of a sentence about the answer: "is no answer of HTTP".
    public let description: String

    public init(_ description: String) { self.description = description }
}

/// Takes the bytes of a connection that answer one request, and gives the answer: its head, its body as it comes, its
/// end. RFC 9112, sections 4 and 6.3.
///
/// ```
///            head, not 1xx             end of the body
///   head ──► head ───────► body ─────────────────────► complete
///     └──◄─── 1xx            └─► until close ── finish() ──▲
/// ```
public struct HTTPResponseReader {
    public enum Event: Equatable {
        /// Nothing more can be said before more bytes come.
        case needsMore
        /// The final answer's; those of informational ones are passed over.
        case head(HTTPResponseHead)
        /// What has come of the body since.
        case body([UInt8])
        /// The answer is whole.
        case end
    }

    private enum State {
        case head
        case body(HTTPBodyReader)
        /// Nothing says how long the body is, so it ends with the connection.
        case untilClose
        case complete
    }

    private let method: HTTPMethod
    private let bodyBytesMax: Int
    private var state = State.head
    /// What came and is not read yet, from `offset` on.
    private var bytes: [UInt8] = []
    private var offset = 0
    private var informationalCount = 0
    private var bodyByteCount = 0

    /// - Parameters:
    ///   - method: of the request: an answer to HEAD has no body, whatever its fields say.
    ///   - bodyBytesMax: of the whole body; nil for a stream without an end.
    public init(to method: HTTPMethod = .get, bodyBytesMax: Int?) {
        self.method = method
        self.bodyBytesMax = bodyBytesMax ?? Int.max
    }

    /// Adds what came from the peer.
    public mutating func append(_ more: some Collection<UInt8>) {
        if offset > 0 { bytes.removeFirst(offset) }
        offset = 0
        bytes.append(contentsOf: more)
    }

    /// How many bytes have come and are not read: those behind the answer, once it is whole.
    public var unreadByteCount: Int { bytes.count - offset }

    /// The peer has closed the connection: nothing more comes. Throws when the answer is not whole.
    public mutating func finish() throws(HTTPResponseError) {
        switch state {
        case .complete: return
        case .untilClose: state = .complete
        case .head, .body: throw HTTPResponseError("ends before it is whole")
        }
    }

    /// The next event. To be called until it is `.needsMore` or `.end`.
    public mutating func next() throws(HTTPResponseError) -> Event {
        switch state {
        case .complete: return .end
        case .head: return try readHead()
        case .untilClose:
            let piece = Array(bytes[offset...])
            offset = bytes.count
            return piece.isEmpty ? .needsMore : .body(try counted(piece))
        case .body(var body):
            // Out of the state while it changes, so that its bytes have one owner and are not copied.
            state = .complete
            let isComplete: Bool
            do throws(HTTPRefusal) {
                isComplete = try body.read(bytes, &offset)
            } catch {
                throw error.status == .contentTooLarge ? tooLong : HTTPResponseError("is damaged: \(error.explanation)")
            }
            let piece = body.takeBytes()
            if !isComplete { state = .body(body) }
            if !piece.isEmpty { return .body(try counted(piece)) }
            return isComplete ? .end : .needsMore
        }
    }

    private mutating func readHead() throws(HTTPResponseError) -> Event {
        while let end = try endOfHead() {
            guard let head = HTTPResponseHead(bytes[offset..<end]) else { throw HTTPResponseError("is no answer of HTTP") }
            offset = end
            // 101 would be another protocol's beginning, and nobody has asked for one.
            guard head.status.rawValue >= 200 else {
                informationalCount += 1
                guard informationalCount <= Limits.informationalAnswersMax, head.status.rawValue != 101 else {
                    throw HTTPResponseError("does not come")
                }
                continue
            }
            state = try bodyState(of: head)
            return .head(head)
        }
        return .needsMore
    }

    /// Behind the empty line; nil when it has not come.
    private func endOfHead() throws(HTTPResponseError) -> Int? {
        let rest = bytes[offset...].prefix(Limits.headBytesMax)
        let start = Array("HTTP/1.".utf8)
        guard rest.prefix(start.count).elementsEqual(start.prefix(rest.count)) else {
            throw HTTPResponseError("is no answer of HTTP")
        }
        var index = rest.startIndex
        while let line = rest[index...].firstIndex(of: 0x0A) {
            if line >= offset + 3, bytes[line - 2] == 0x0A, bytes[line - 1] == 0x0D { return line + 1 }
            index = line + 1
        }
        guard rest.count < Limits.headBytesMax else { throw HTTPResponseError("has a head without an end") }
        return nil
    }

    /// How long the body is. Two lengths, or a length beside chunks, are refused: who sends them is not to be trusted
    /// with either.
    private func bodyState(of head: HTTPResponseHead) throws(HTTPResponseError) -> State {
        if method == .head || head.status.hasNoBody { return .complete }
        let lengths = head.fields.values(of: "Content-Length")
        let framing: HTTPRequestHead.Framing
        if let coding = head.fields["Transfer-Encoding"] {
            guard lengths.isEmpty, HTTPText.isSame(coding, "chunked") else {
                throw HTTPResponseError("says in two ways, or in one that is not known, how long it is")
            }
            framing = .chunked
        } else if let length = lengths.first {
            guard lengths.count == 1, let count = HTTPText.number(length.utf8) else {
                throw HTTPResponseError("does not say clearly how long it is")
            }
            framing = .length(count)
        } else {
            return .untilClose
        }
        do throws(HTTPRefusal) {
            return .body(try HTTPBodyReader(framing, bytesMax: bodyBytesMax))
        } catch {
            throw tooLong
        }
    }

    private mutating func counted(_ piece: [UInt8]) throws(HTTPResponseError) -> [UInt8] {
        bodyByteCount += piece.count
        guard bodyByteCount <= bodyBytesMax else { throw tooLong }
        return piece
    }

    private var tooLong: HTTPResponseError { HTTPResponseError("is longer than \(bodyBytesMax) bytes") }
}

extension Limits {
    /// Informational answers (1xx) in front of one; one more ends the connection. Bytes: `headBytesMax` each at most.
    public static let informationalAnswersMax = 8

    /// Bytes of one event of a stream that is read; a longer one ends the connection.
    public static let eventBytesMax = 1 << 20
}
