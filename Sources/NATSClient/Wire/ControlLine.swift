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
