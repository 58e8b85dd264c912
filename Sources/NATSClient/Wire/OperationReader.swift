internal import JSON
internal import JSONReader

/// Cuts a server's bytes into operations, wherever the pieces end in which they come. What is not exactly as the
/// protocol has it is refused.
///
///     line ──► operation
///       └────► MSG, HMSG ──► payload, CR LF ──► operation
///
/// Source: NATS client protocol; names of operations may be in either case, fields are parted by blanks and tabulators.
/// Invariant: `waiting` is empty, or begins with an operation that is not complete, and cannot be with less than
/// `needed` bytes.
public struct OperationReader: Sendable {
    private var waiting: [UInt8] = []
    /// How many bytes `waiting` needs at least before it is worth a look.
    private var needed = 0

    public init() {}

    /// How many bytes wait for the rest of their operation.
    public var waitingByteCount: Int { waiting.count }

    /// Gives every operation that is complete, in order. After an error nothing more may be read. `body` gets
    /// operations whose views are valid during the call; with false it ends the reading, and the rest is dropped.
    public mutating func read(_ bytes: UnsafeRawBufferPointer, _ body: (ServerOperation) -> Bool) throws(WireError) {
        var head = 0
        while !waiting.isEmpty {
            // No more is copied than the operation lacks that has begun.
            let rest = UnsafeRawBufferPointer(rebasing: bytes[head...])
            let count = lacking(of: rest)
            waiting.append(contentsOf: rest[..<count])
            head += count
            guard waiting.count >= needed, try readWaiting(body) else { return }
        }
        let rest = UnsafeRawBufferPointer(rebasing: bytes[head...])
        guard let done = try Self.readOperations(rest, &needed, body), done < rest.count else { return }
        waiting.append(contentsOf: rest[done...])
    }

    /// How many of these bytes come before what waits is worth another look: those that it is known to need, or those
    /// up to its line's end.
    private func lacking(of bytes: UnsafeRawBufferPointer) -> Int {
        if needed > waiting.count + 1 { return min(needed - waiting.count, bytes.count) }
        return Self.lineEnd(bytes, within: bytes.count).map { $0 + 1 } ?? bytes.count
    }

    /// Works off what waits; false if the reading has ended.
    private mutating func readWaiting(_ body: (ServerOperation) -> Bool) throws(WireError) -> Bool {
        var whole: [UInt8] = []
        swap(&whole, &waiting)
        let done = try whole.withUnsafeBufferPointer { (bytes) throws(WireError) in
            try Self.readOperations(UnsafeRawBufferPointer(bytes), &needed, body)
        }
        guard let done else { return false }
        whole.removeFirst(done)
        if !whole.isEmpty || whole.capacity <= Limits.keptBufferBytesMax { waiting = whole }
        return true
    }

    /// Works off complete operations; returns how many bytes that were, or nil if the reading has ended.
    private static func readOperations(
        _ bytes: UnsafeRawBufferPointer, _ needed: inout Int, _ body: (ServerOperation) -> Bool
    ) throws(WireError) -> Int? {
        var head = 0
        needed = 0
        while head < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[head...])
            guard let lineCount = try lineLength(rest) else {
                needed = rest.count + 1
                return head
            }
            let line = ControlLine(UnsafeRawBufferPointer(rebasing: rest[..<lineCount]))
            var count = lineCount + 2
            let operation: ServerOperation
            if let envelope = try line.envelope() {
                count += envelope.byteCount + 2
                guard rest.count >= count else {
                    needed = count
                    return head
                }
                operation = try .message(envelope.message(UnsafeRawBufferPointer(rebasing: rest[(lineCount + 2)..<count])))
            } else {
                operation = try line.operation()
            }
            head += count
            if !body(operation) { return nil }
        }
        return head
    }

    /// How long the line is, without its end; nil if that has not come.
    private static func lineLength(_ bytes: UnsafeRawBufferPointer) throws(WireError) -> Int? {
        guard let end = lineEnd(bytes, within: min(bytes.count, Limits.lineBytesMax)) else {
            guard bytes.count < Limits.lineBytesMax else {
                throw WireError(description: "a control line has more than \(Limits.lineBytesMax) bytes")
            }
            return nil
        }
        guard end > 0, bytes[end - 1] == 0x0D else {
            throw WireError(description: "a control line does not end with CR LF")
        }
        return end - 1
    }

    private static func lineEnd(_ bytes: UnsafeRawBufferPointer, within count: Int) -> Int? {
        var end = 0
        while end < count, bytes[end] != 0x0A { end += 1 }
        return end < count ? end : nil
    }
}

/// A server's control line, without its end.
struct ControlLine {
    private let bytes: UnsafeRawBufferPointer
    private let name: UnsafeRawBufferPointer
    private let arguments: UnsafeRawBufferPointer

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
        let end = bytes.firstIndex(where: Self.isBlank) ?? bytes.count
        name = UnsafeRawBufferPointer(rebasing: bytes[..<end])
        arguments = UnsafeRawBufferPointer(rebasing: bytes[end...])
    }

    /// What announces a message; nil for any other line.
    func envelope() throws(WireError) -> MessageEnvelope? {
        let hasHeaders: Bool
        if isNamed("MSG") {
            hasHeaders = false
        } else if isNamed("HMSG") {
            hasHeaders = true
        } else {
            return nil
        }
        // No list of them: a message has one line, and a list is on the heap.
        var fields = InlineArray<5, UnsafeRawBufferPointer>(repeating: Self.none)
        let count = read(into: &fields)
        let sizes = hasHeaders ? 2 : 1
        guard count == 2 + sizes || count == 3 + sizes else { throw refused("it has \(count) fields") }
        guard let subscription = Self.number(fields[1]) else { throw refused("the subscription's number is none") }
        let hasReply = count == 3 + sizes
        guard let total = Self.number(fields[count - 1]), total <= Limits.messageBytesMax else {
            throw refused("the size is no number up to \(Limits.messageBytesMax)")
        }
        var headerCount: UInt64 = 0
        if hasHeaders {
            guard let size = Self.number(fields[count - 2]), size <= total else {
                throw refused("the headers' size is no number up to the message's")
            }
            headerCount = size
        }
        guard fields[0].allSatisfy({ $0 > 0x20 && $0 != 0x7F }) else { throw refused("the subject has control bytes") }
        return MessageEnvelope(
            subscription: subscription, subject: fields[0],
            reply: hasReply ? fields[2] : Self.none,
            headerCount: Int(headerCount), byteCount: Int(total))
    }

    /// Any other operation.
    func operation() throws(WireError) -> ServerOperation {
        if isNamed("PING") { return try bare(.ping) }
        if isNamed("PONG") { return try bare(.pong) }
        if isNamed("+OK") { return try bare(.ok) }
        if isNamed("-ERR") { return .error(words) }
        if isNamed("INFO") { return .info(try ServerInfo(reading: Array(arguments))) }
        throw refused("the operation is unknown")
    }

    private func bare(_ operation: ServerOperation) throws(WireError) -> ServerOperation {
        guard arguments.allSatisfy(Self.isBlank) else { throw refused("it has arguments") }
        return operation
    }

    /// What stands between the apostrophes, or without them.
    private var words: String {
        var text = arguments.drop(while: Self.isBlank)
        while let last = text.last, Self.isBlank(last) { text = text.dropLast() }
        if text.count >= 2, text.first == UInt8(ascii: "'"), text.last == UInt8(ascii: "'") { text = text.dropFirst().dropLast() }
        return Self.printable(text)
    }

    private func isNamed(_ operation: StaticString) -> Bool {
        guard name.count == operation.utf8CodeUnitCount else { return false }
        for index in 0..<name.count {
            let byte = name[index]
            let upper = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) ? byte - 0x20 : byte
            if upper != operation.utf8Start[index] { return false }
        }
        return true
    }

    private static var none: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

    /// The arguments, as far as there is room for them; returns how many there are.
    private func read(into fields: inout InlineArray<5, UnsafeRawBufferPointer>) -> Int {
        var (count, position) = (0, 0)
        while true {
            while position < arguments.count, Self.isBlank(arguments[position]) { position += 1 }
            guard position < arguments.count else { return count }
            let start = position
            while position < arguments.count, !Self.isBlank(arguments[position]) { position += 1 }
            if count < fields.count { fields[count] = UnsafeRawBufferPointer(rebasing: arguments[start..<position]) }
            count += 1
        }
    }

    private func refused(_ reason: String) -> WireError {
        WireError(description: "the server sends \"\(Self.printable(bytes.prefix(80)))\", which is refused: \(reason)")
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Decimal digits and nothing else; nil if they are none or too many.
    private static func number(_ digits: UnsafeRawBufferPointer) -> UInt64? {
        guard (1...18).contains(digits.count) else { return nil }
        var value: UInt64 = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            value = value * 10 + UInt64(digit - UInt8(ascii: "0"))
        }
        return value
    }

    /// Text for a line of a log.
    static func printable(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: bytes.map { $0 < 0x20 || $0 == 0x7F ? UInt8(ascii: "?") : $0 }, as: UTF8.self)
    }
}

/// What a MSG or HMSG line announces.
struct MessageEnvelope {
    let subscription: UInt64
    let subject: UnsafeRawBufferPointer
    let reply: UnsafeRawBufferPointer
    let headerCount: Int
    /// Of headers and payload together.
    let byteCount: Int

    /// - Parameter bytes: `byteCount` of the message and two of the end.
    func message(_ bytes: UnsafeRawBufferPointer) throws(WireError) -> MessageView {
        guard bytes[byteCount] == 0x0D, bytes[byteCount + 1] == 0x0A else {
            throw WireError(description: "a message of \(byteCount) bytes does not end with CR LF")
        }
        return MessageView(
            subscription: subscription, subject: subject, reply: reply,
            headers: UnsafeRawBufferPointer(rebasing: bytes[..<headerCount]),
            payload: UnsafeRawBufferPointer(rebasing: bytes[headerCount..<byteCount]))
    }
}

/// What a server says: one operation of the protocol.
public enum ServerOperation {
    /// The server says who it is and what it takes: at first, and again when that changes.
    case info(ServerInfo)
    /// MSG or HMSG.
    case message(MessageView)
    case ping
    case pong
    /// `+OK`, which verbose connections get.
    case ok
    /// `-ERR`: what it did not like, in its words. It may end the connection after that.
    case error(String)
}

/// A message as it lies in the bytes that were received; valid during the call that gives it.
public struct MessageView {
    /// The number of the subscription that it was sent for.
    public let subscription: UInt64
    public let subject: UnsafeRawBufferPointer
    /// Where an answer is to go; empty for no answer.
    public let reply: UnsafeRawBufferPointer
    /// The block of headers as it was sent, empty for none. `MessageHeaders(reading:)` reads it.
    public let headers: UnsafeRawBufferPointer
    public let payload: UnsafeRawBufferPointer
}

/// A message that is kept.
public struct ReceivedMessage: Sendable, Equatable {
    public let subject: [UInt8]
    public let reply: [UInt8]
    public let headers: MessageHeaders
    public let payload: [UInt8]

    /// Copies it. Throws if the headers are none.
    public init(_ view: MessageView) throws(WireError) {
        headers = try MessageHeaders(reading: view.headers)
        (subject, reply, payload) = (Array(view.subject), Array(view.reply), Array(view.payload))
    }
}

/// Why what a server sends cannot be read. The connection ends: nothing after it would be sure.
public struct WireError: Error, Equatable, CustomStringConvertible {
    public let description: String
}

/// A server's identity and what it takes, as its INFO says.
public struct ServerInfo: Sendable, Equatable {
    public let serverName: String
    public let version: ServerVersion
    /// The most bytes of a message that it takes, headers and all.
    public let payloadBytesMax: Int
    public let supportsHeaders: Bool
    public let requiresTLS: Bool
    public let offersTLS: Bool
    /// What a key has to sign; nil if it asks for none.
    public let nonce: String?
    /// Other servers of its cluster, as `host:port`.
    public let connectAddresses: [String]
    /// Whether it is about to end, and asks its clients to go elsewhere.
    public let isEnding: Bool
    /// The name of its cluster; nil for none.
    public let clusterName: String?

    /// Reads the object of an INFO line. Throws what is missing or of another kind.
    init(reading bytes: [UInt8]) throws(WireError) {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(reading: bytes)
        } catch {
            throw WireError(description: "INFO is no JSON: \(error)")
        }
        guard let members = value.object else { throw WireError(description: "INFO is no object of JSON") }
        guard let text = members["version"]?.string, let version = ServerVersion(text) else {
            throw WireError(description: "INFO names no version")
        }
        guard let payloadBytesMax = members["max_payload"]?.integer, payloadBytesMax > 0 else {
            throw WireError(description: "INFO names no max_payload")
        }
        self.version = version
        self.payloadBytesMax = Int(min(payloadBytesMax, Int64(Limits.messageBytesMax)))
        serverName = members["server_name"]?.string ?? members["server_id"]?.string ?? ""
        supportsHeaders = members["headers"]?.boolean ?? false
        requiresTLS = members["tls_required"]?.boolean ?? false
        offersTLS = requiresTLS || members["tls_available"]?.boolean ?? false
        nonce = members["nonce"]?.string
        connectAddresses = members["connect_urls"]?.array?.compactMap(\.string) ?? []
        isEnding = members["ldm"]?.boolean ?? false
        clusterName = members["cluster"]?.string
    }
}

/// A version as servers write it: `2.12.1`, `2.14.0-beta.1`.
public struct ServerVersion: Sendable, Comparable, CustomStringConvertible {
    public let major: Int
    public let minor: Int
    public let patch: Int

    public init(_ major: Int, _ minor: Int, _ patch: Int = 0) { (self.major, self.minor, self.patch) = (major, minor, patch) }

    /// nil if the text does not begin with two or three numbers.
    public init?(_ text: String) {
        let numbers = text.prefix { $0 != "-" && $0 != "+" }.split(separator: ".", omittingEmptySubsequences: false).map { Int($0) }
        guard (2...3).contains(numbers.count), let major = numbers[0], let minor = numbers[1] else { return nil }
        guard let patch = numbers.count == 3 ? numbers[2] : 0, major >= 0, minor >= 0, patch >= 0 else { return nil }
        self.init(major, minor, patch)
    }

    public static func < (left: ServerVersion, right: ServerVersion) -> Bool {
        (left.major, left.minor, left.patch) < (right.major, right.minor, right.patch)
    }

    public var description: String { "\(major).\(minor).\(patch)" }
}

extension Limits {
    /// Bytes of a control line with its end: a server that sends a longer one is left. Servers bound their clients'
    /// lines to 4,096; the longest that one sends is INFO, with the addresses of all servers in it.
    static let lineBytesMax = 64 << 10

    /// Bytes of a message, headers and all: a server that announces more is left. It is the most that `max_payload` can
    /// be set to.
    static let messageBytesMax = 64 << 20
}
