/// Takes the bytes of one connection and gives its requests, one after the other.
///
/// ```
///            head complete            body complete
///   idle ──► head ──────────► body ─────────────────► idle
///                └──────────────────── no body ───────▲
///                any ──► refused: nothing more is read
/// ```
/// Waiting bytes are bounded by one head and one body, and by what the caller appends at once.
public struct HTTPRequestReader {
    public enum Event: Equatable {
        /// Nothing more can be said before more bytes come.
        case needsMore
        /// The peer waits for `100 Continue` before it sends the body. Told once for a request, and not when the body
        /// is there.
        case expectsContinue
        case request(HTTPRequest)
        /// To be answered; then the connection is to end.
        case refused(HTTPRefusal)
    }

    /// What the reader waits for: the caller's time-outs differ.
    public enum Phase: Sendable, Equatable {
        /// The first byte of a request.
        case idle
        case head
        case body
        /// Nothing: a request was refused.
        case refused
    }

    private enum State {
        case head
        case body(HTTPRequestHead, HTTPBodyReader)
        case refused
    }

    private let bodyBytesMax: Int
    private var state = State.head
    /// What came and is not read yet, from `offset` on.
    private var bytes: [UInt8] = []
    private var offset = 0
    /// Up to where no end of the head was found, so that a head that comes byte by byte is looked through once.
    private var searched = 0
    private var leadingLines = 0
    private var owesContinue = false

    /// - Parameter bodyBytesMax: a longer body is answered with 413.
    public init(bodyBytesMax: Int) { self.bodyBytesMax = bodyBytesMax }

    public var phase: Phase {
        switch state {
        case .head: offset == bytes.count ? .idle : .head
        case .body: .body
        case .refused: .refused
        }
    }

    /// Bytes that came and are not read yet.
    public var waitingByteCount: Int { bytes.count - offset }

    /// Bytes that it keeps in memory: those that wait, and a body that has come in part.
    public var heldByteCount: Int {
        guard case .body(_, let body) = state else { return bytes.count }
        return bytes.count + body.byteCount
    }

    /// Adds what came from the peer.
    public mutating func append(_ more: some Collection<UInt8>) {
        if case .refused = state { return }
        if offset > 0 {
            bytes.removeFirst(offset)
            searched -= offset
            offset = 0
        }
        bytes.append(contentsOf: more)
    }

    /// The next event. To be called until it is `.needsMore`, or `.refused`.
    public mutating func next() -> Event {
        do throws(HTTPRefusal) {
            return try step()
        } catch {
            state = .refused
            bytes = []
            offset = 0
            return .refused(error)
        }
    }

    private mutating func step() throws(HTTPRefusal) -> Event {
        if case .refused = state { return .needsMore }
        if case .head = state {
            guard let head = try takeHead() else { return .needsMore }
            state = .body(head, try HTTPBodyReader(head.framing, bytesMax: bodyBytesMax))
            owesContinue = head.expectsContinue
        }
        guard case .body(let head, var body) = state else { return .needsMore }
        // Out of the state while it changes, so that its bytes have one owner and are not copied.
        state = .head
        let isComplete = try body.read(bytes, &offset)
        guard isComplete else {
            state = .body(head, body)
            defer { owesContinue = false }
            return owesContinue && !body.hasBegun ? .expectsContinue : .needsMore
        }
        searched = offset
        owesContinue = false
        return .request(HTTPRequest(head: head, body: body.takeBytes()))
    }

    /// Cuts out a head when all of it is there.
    private mutating func takeHead() throws(HTTPRefusal) -> HTTPRequestHead? {
        try skipLeadingLines()
        if offset < bytes.count, bytes[offset] != 0x0D, bytes[offset] != 0x0A, !HTTPText.isToken(bytes[offset]) {
            // Another protocol: its peer waits for an answer as we do for the end of its head.
            throw .foreign(firstByte: bytes[offset])
        }
        var index = max(searched, offset)
        while let end = bytes[index...].firstIndex(of: 0x0A) {
            // A head has no line feed but at the ends of its lines; what is wrong with this one is said when it is
            // parsed.
            let length = end + 1 - offset
            let isBare = end == offset || bytes[end - 1] != 0x0D
            if isBare { throw .malformed("A line ends without a carriage return.") }
            let isFirst = !bytes[offset..<end].contains(0x0A)
            if isFirst, length > Limits.requestLineBytesMax + 2 { throw Self.longLine }
            guard length <= Limits.headBytesMax else { throw Self.longHead }
            if end >= offset + 3, bytes[end - 2] == 0x0A {
                let head = bytes[offset...end]
                offset = end + 1
                searched = offset
                leadingLines = 0
                return try HTTPRequestHead(head)
            }
            index = end + 1
        }
        searched = bytes.count
        try checkUnfinished()
        return nil
    }

    /// Refuses a head that is too long already.
    private func checkUnfinished() throws(HTTPRefusal) {
        let rest = bytes[offset...]
        guard rest.count > Limits.requestLineBytesMax + 2 else { return }
        if !rest.prefix(Limits.requestLineBytesMax + 2).contains(0x0A) { throw Self.longLine }
        if rest.count >= Limits.headBytesMax { throw Self.longHead }
    }

    private mutating func skipLeadingLines() throws(HTTPRefusal) {
        while offset + 1 < bytes.count, bytes[offset] == 0x0D, bytes[offset + 1] == 0x0A {
            offset += 2
            leadingLines += 1
            guard leadingLines <= Limits.leadingLinesMax else { throw .malformed("Empty lines are no request.") }
        }
    }

    private static let longLine = HTTPRefusal(
        .targetTooLong, "The request's first line is longer than \(Limits.requestLineBytesMax) bytes.")
    private static let longHead = HTTPRefusal(
        .fieldsTooLarge, "The request's head is longer than \(Limits.headBytesMax) bytes.")
}

/// Reads the body of one message: none, of a known length, or in chunks, RFC 9112, sections 6 and 7.1.
struct HTTPBodyReader {
    private enum State {
        /// So many bytes are to come.
        case counted(Int)
        /// The line in front of a chunk is to come.
        case chunkLine
        /// So many bytes of a chunk.
        case chunk(Int)
        /// The line end behind a chunk.
        case chunkEnd
        /// The fields behind the last chunk, which nobody looks at.
        case trailer(lines: Int, bytes: Int)
        case complete
    }

    private let bytesMax: Int
    private var state: State
    private var body: [UInt8] = []
    /// Whether a byte of it has come.
    private(set) var hasBegun = false

    /// Throws when the length says that it is too long.
    init(_ framing: HTTPRequestHead.Framing, bytesMax: Int) throws(HTTPRefusal) {
        self.bytesMax = bytesMax
        switch framing {
        case .none, .length(0): state = .complete
        case .length(let count):
            guard count <= bytesMax else { throw Self.tooLong(bytesMax) }
            state = .counted(count)
        case .chunked: state = .chunkLine
        }
    }

    /// Bytes of it that have come.
    var byteCount: Int { body.count }

    mutating func takeBytes() -> [UInt8] {
        defer { body = [] }
        return body
    }

    /// Reads on from `offset`, and moves it. Returns whether the body is complete.
    mutating func read(_ bytes: [UInt8], _ offset: inout Int) throws(HTTPRefusal) -> Bool {
        if offset < bytes.count { hasBegun = true }
        while true {
            switch state {
            case .complete: return true
            case .counted(let left):
                let count = copy(left, from: bytes, &offset)
                state = count == left ? .complete : .counted(left - count)
                if count < left { return false }
            case .chunkLine:
                guard let line = try Self.line(bytes, &offset, bytesMax: Limits.chunkLineBytesMax) else { return false }
                let size = try Self.chunkSize(line)
                guard size <= bytesMax - body.count else { throw Self.tooLong(bytesMax) }
                state = size == 0 ? .trailer(lines: 0, bytes: 0) : .chunk(size)
            case .chunk(let left):
                let count = copy(left, from: bytes, &offset)
                state = count == left ? .chunkEnd : .chunk(left - count)
                if count < left { return false }
            case .chunkEnd:
                let end = bytes[offset...].prefix(2)
                guard [0x0D, 0x0A].starts(with: end) else { throw .malformed("A chunk does not end where its size says.") }
                if end.count < 2 { return false }
                offset += 2
                state = .chunkLine
            case .trailer(let lines, let count):
                guard let line = try Self.line(bytes, &offset, bytesMax: Limits.headBytesMax - count) else { return false }
                if line.isEmpty {
                    state = .complete
                    continue
                }
                guard lines < Limits.fieldCountMax, count + line.count < Limits.headBytesMax else {
                    throw HTTPRefusal(.fieldsTooLarge, "The trailer is too long.")
                }
                _ = try HTTPHeadLines.fields([line])
                state = .trailer(lines: lines + 1, bytes: count + line.count + 2)
            }
        }
    }

    /// Takes up to that many bytes. Returns how many there were.
    private mutating func copy(_ wanted: Int, from bytes: [UInt8], _ offset: inout Int) -> Int {
        let count = min(wanted, bytes.count - offset)
        body.append(contentsOf: bytes[offset..<(offset + count)])
        offset += count
        return count
    }

    /// The next line without its end; nil when not all of it is there.
    private static func line(_ bytes: [UInt8], _ offset: inout Int, bytesMax: Int) throws(HTTPRefusal) -> ArraySlice<UInt8>? {
        let rest = bytes[offset...].prefix(bytesMax)
        guard let end = rest.firstIndex(of: 0x0A) else {
            if rest.count >= bytesMax { throw .malformed("A line in the request's body is too long.") }
            return nil
        }
        guard end > offset, bytes[end - 1] == 0x0D else { throw .malformed("A line ends without a carriage return.") }
        let line = bytes[offset..<(end - 1)]
        guard line.allSatisfy(HTTPText.isFieldByte) else { throw .malformed("A line in the request's body holds a control byte.") }
        offset = end + 1
        return line
    }

    /// The size in front of a chunk; extensions behind it are passed over.
    private static func chunkSize(_ line: ArraySlice<UInt8>) throws(HTTPRefusal) -> Int {
        let digits = line.prefix { HTTPText.hexDigit($0) != nil }
        let rest = line[digits.endIndex...]
        let extensions = rest.drop(while: HTTPText.isBlank)
        guard !digits.isEmpty, digits.count <= 15, rest.isEmpty || extensions.first == UInt8(ascii: ";") else {
            throw .malformed("The size of a chunk is not a hexadecimal number.")
        }
        return digits.reduce(0) { $0 << 4 | Int(HTTPText.hexDigit($1) ?? 0) }
    }

    private static func tooLong(_ bytesMax: Int) -> HTTPRefusal {
        HTTPRefusal(.contentTooLarge, "The request's body is longer than \(bytesMax) bytes.")
    }
}

extension Limits {
    /// Bytes of a request's first line; a longer one is answered with 414.
    public static let requestLineBytesMax = 8 << 10

    /// Bytes of the line in front of a chunk, with its extensions, which nobody needs; a longer one is answered
    /// with 400.
    public static let chunkLineBytesMax = 256

    /// Empty lines in front of a request that are passed over, as RFC 9112, section 2.2, asks for; one more is answered
    /// with 400.
    public static let leadingLinesMax = 4
}
