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
