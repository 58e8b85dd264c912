/// A message's headers: `NATS/1.0`, a status if the server speaks for itself, and fields.
///
/// Source: ADR-4. Names keep their case and are compared byte by byte, as servers do; a name may come more than once.
public struct MessageHeaders: Sendable, Equatable {
    public struct Field: Sendable, Equatable {
        public let name: String
        public let value: String
    }

    /// What a server says of itself: 100, 204, 404, 408, 409, 503 …; nil in messages of clients.
    public private(set) var status: Int?
    /// The words behind the status.
    public private(set) var statusText = ""
    public private(set) var fields: [Field] = []

    public init() {}

    public var isEmpty: Bool { status == nil && fields.isEmpty }

    /// The first value of a name.
    public subscript(name: String) -> String? { fields.first { $0.name == name }?.value }

    /// Adds a field.
    ///
    /// - Returns: false, and nothing is added, if the name is not one or more printable characters without a colon, or the value has
    ///   a line break in it.
    @discardableResult
    public mutating func add(_ name: String, _ value: String) -> Bool {
        guard !name.isEmpty, name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }),
            value.utf8.allSatisfy({ $0 != 0x0D && $0 != 0x0A }), fields.count < Limits.headerFieldsMax
        else { return false }
        fields.append(Field(name: name, value: value))
        return true
    }

    /// Reads a block of headers; an empty one is none.
    public init(reading block: UnsafeRawBufferPointer) throws(WireError) {
        guard !block.isEmpty else { return }
        var lines = try Self.lines(of: block)[...]
        guard let first = lines.popFirst(), first.starts(with: Self.version.utf8) else {
            throw WireError(description: "a message's headers do not begin with \(Self.version)")
        }
        try readStatus(first.dropFirst(Self.version.utf8.count))
        guard lines.count <= Limits.headerFieldsMax else {
            throw WireError(description: "a message has more than \(Limits.headerFieldsMax) header fields")
        }
        for line in lines {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex else {
                throw WireError(description: "a message's header field has no name")
            }
            fields.append(
                Field(
                    name: String(decoding: line[..<colon], as: UTF8.self),
                    value: String(decoding: Self.trimmed(line[(colon + 1)...]), as: UTF8.self)))
        }
    }

    /// `rest` is what stands behind the version.
    private mutating func readStatus(_ rest: Slice<UnsafeRawBufferPointer>) throws(WireError) {
        let text = Self.trimmed(rest)
        guard !text.isEmpty else { return }
        let digits = text.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let words = text.dropFirst(digits.count)
        guard digits.count == 3, words.isEmpty || words.first == 0x20, let code = Int(String(decoding: digits, as: UTF8.self))
        else {
            throw WireError(description: "the status of a message's headers is no number of three digits")
        }
        status = code
        statusText = String(decoding: Self.trimmed(words), as: UTF8.self)
    }

    /// The lines before the empty one, which has to be the last.
    private static func lines(of block: UnsafeRawBufferPointer) throws(WireError) -> [Slice<UnsafeRawBufferPointer>] {
        var lines: [Slice<UnsafeRawBufferPointer>] = []
        var start = 0
        while start < block.count {
            guard let end = block[start...].firstIndex(of: 0x0A), end > start, block[end - 1] == 0x0D else {
                throw WireError(description: "a line of a message's headers does not end with CR LF")
            }
            let line = block[start..<(end - 1)]
            start = end + 1
            if line.isEmpty {
                guard start == block.count else {
                    throw WireError(description: "a message's headers end before their size says so")
                }
                return lines
            }
            lines.append(line)
        }
        throw WireError(description: "a message's headers have no end")
    }

    private static func trimmed(_ bytes: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
        var bytes = bytes.drop { $0 == 0x20 || $0 == 0x09 }
        while let last = bytes.last, last == 0x20 || last == 0x09 { bytes = bytes.dropLast() }
        return bytes
    }

    /// The block as it is sent; empty without fields.
    var block: [UInt8] {
        guard !fields.isEmpty else { return [] }
        var block = Array("\(Self.version)\r\n".utf8)
        for field in fields {
            block += field.name.utf8
            block += ": ".utf8
            block += field.value.utf8
            block += "\r\n".utf8
        }
        return block + "\r\n".utf8
    }

    private static let version = "NATS/1.0"
}
