/// Writes what a client says. What cannot be said safely has no value to be made of: subjects are checked when they are
/// made.
public struct OperationWriter: Sendable {
    /// The bytes that are written so far.
    public var bytes: [UInt8] = []

    public init() {}

    /// - Parameter json: the options, as an object of JSON on one line.
    public mutating func connect(_ json: String) {
        bytes += "CONNECT ".utf8
        bytes += json.utf8
        end()
    }

    public mutating func publish(
        _ subject: Subject, reply: Subject? = nil, headers: MessageHeaders = MessageHeaders(), payload: some Collection<UInt8>
    ) {
        let block = headers.block
        guard !block.isEmpty else { return publish(subject: subject.bytes, reply: reply?.bytes ?? [], payload: payload) }
        bytes += "HPUB ".utf8
        bytes += subject.bytes
        if let reply { field(reply.bytes) }
        field(block.count)
        field(block.count + payload.count)
        end()
        bytes += block
        bytes += payload
        end()
    }

    /// Writes a publication from where it lies.
    ///
    /// - Precondition: `subject`, and `reply` unless it is empty, are subjects.
    mutating func publish(
        subject: some Collection<UInt8>, reply: some Collection<UInt8>, payload: some Collection<UInt8>
    ) {
        Self.publication.withUnsafeBytes { bytes.append(contentsOf: $0) }
        bytes.append(contentsOf: subject)
        if !reply.isEmpty {
            bytes.append(0x20)
            bytes.append(contentsOf: reply)
        }
        field(payload.count)
        end()
        bytes.append(contentsOf: payload)
        end()
    }

    private static let publication = Array("PUB ".utf8)

    /// Subscribes; messages come with the number of the subscription.
    public mutating func subscribe(_ pattern: SubjectPattern, subscription: UInt64) {
        bytes += "SUB ".utf8
        bytes += pattern.bytes
        field(Int(subscription))
        end()
    }

    public mutating func unsubscribe(_ subscription: UInt64) {
        bytes += "UNSUB".utf8
        field(Int(subscription))
        end()
    }

    public mutating func ping() { bytes += "PING\r\n".utf8 }

    public mutating func pong() { bytes += "PONG\r\n".utf8 }

    private mutating func field(_ text: [UInt8]) {
        bytes.append(0x20)
        bytes += text
    }

    private mutating func field(_ number: Int) {
        bytes.append(0x20)
        var divisor = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
    }

    private mutating func end() {
        bytes.append(0x0D)
        bytes.append(0x0A)
    }
}

/// What messages are published to: one or more tokens with dots between them, none of them empty or a wildcard.
///
/// Invariant: 1 to `Limits.subjectBytesMax` bytes, none of them a blank, a control byte or DEL, which would change the
/// meaning of the line that the subject stands in. Servers check less.
public struct Subject: Hashable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// nil if the bytes are no subject.
    public init?(_ bytes: some Sequence<UInt8>) {
        let bytes = Array(bytes)
        guard SubjectScan.isWellFormed(bytes, allowsWildcards: false) else { return nil }
        self.bytes = bytes
    }

    /// Whether the bytes are a subject.
    public static func isLegal(_ bytes: UnsafeRawBufferPointer) -> Bool { SubjectScan.isWellFormed(bytes, allowsWildcards: false) }

    public init?(_ text: String) { self.init(text.utf8) }

    /// Bytes that were checked.
    init(checked bytes: [UInt8]) { self.bytes = bytes }

    public var description: String { String(decoding: bytes, as: UTF8.self) }
}

/// A pattern to subscribe to: a subject in which a token may be `*`, and the last one `>`.
public struct SubjectPattern: Hashable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// nil if the bytes are no pattern.
    public init?(_ bytes: some Sequence<UInt8>) {
        let bytes = Array(bytes)
        guard SubjectScan.isWellFormed(bytes, allowsWildcards: true) else { return nil }
        self.bytes = bytes
    }

    public init?(_ text: String) { self.init(text.utf8) }

    /// Bytes that were checked.
    init(checked bytes: [UInt8]) { self.bytes = bytes }

    public var description: String { String(decoding: bytes, as: UTF8.self) }
}

/// The form that subjects and patterns share.
enum SubjectScan {
    static func isWellFormed<Bytes>(_ bytes: Bytes, allowsWildcards: Bool) -> Bool
    where Bytes: RandomAccessCollection<UInt8>, Bytes.Index == Int {
        guard (1...Limits.subjectBytesMax).contains(bytes.count) else { return false }
        var start = 0
        for index in 0...bytes.count {
            if index < bytes.count, bytes[index] != dot {
                guard bytes[index] > 0x20, bytes[index] != 0x7F else { return false }
                continue
            }
            let length = index - start
            if length == 0 { return false }
            let isWildcard = length == 1 && (bytes[start] == star || bytes[start] == rest)
            if isWildcard, !allowsWildcards || (bytes[start] == rest && index < bytes.count) { return false }
            start = index + 1
        }
        return true
    }

    private static let dot = UInt8(ascii: ".")
    private static let star = UInt8(ascii: "*")
    private static let rest = UInt8(ascii: ">")
}

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

    /// The first value of a name.
    public subscript(name: String) -> String? { fields.first { $0.name == name }?.value }

    /// Adds a field.
    ///
    /// - Returns: false, and nothing is added, if the name is not one or more printable characters without a colon, or
    ///   the value has a line break in it.
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

extension Limits {
    /// Fields of a message's headers: more are refused. Bytes: `messageBytesMax`.
    static let headerFieldsMax = 256

    /// Bytes of a subject: longer ones are none. A server's control line has to hold the subject, a reply subject and
    /// the sizes.
    static let subjectBytesMax = 3_500
}
