internal import Glibc
internal import JSON
internal import MQTTCodec
internal import Platform

/// A format of -F, taken apart. What each part becomes is mosquitto_sub's way to the byte, where it surprises too.
///
/// ```
/// %-10.10t        @H        \n
/// │││  │ └ letter  └ strftime's conversion %H
/// │││  └ most
/// ││└ least width
/// │└ flag: - or 0
/// ```
public struct MessageFormat: Equatable, Sendable {
    let parts: [Part]

    enum Part: Equatable, Sendable {
        case bytes([UInt8])
        case field(Field)
        /// A conversion of strftime, or N for nanoseconds.
        case time(UInt8)
    }

    struct Field: Equatable, Sendable {
        var letter: UInt8
        var alignsLeft = false
        var padsWithZeros = false
        var width = 0
        var precision: Int?
    }

    /// Throws what mosquitto_sub says of a format that is none.
    public init(_ text: String) throws(ArgumentError) {
        var parts: [Part] = []
        var literal: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            let part: Part
            switch byte {
            case UInt8(ascii: "%"): part = .field(try Self.field(&rest))
            case UInt8(ascii: "@"):
                guard let letter = rest.popFirst() else { throw Self.incomplete }
                part = letter == byte ? .bytes([letter]) : .time(letter)
            case UInt8(ascii: "\\"):
                guard let letter = rest.popFirst() else { throw ArgumentError("Error: Incomplete escape specifier.") }
                guard let escaped = Self.escapes[letter] else {
                    throw ArgumentError("Error: Invalid escape specifier '\(Character(UnicodeScalar(letter)))'.")
                }
                part = .bytes([escaped])
            default: part = .bytes([byte])
            }
            if case .bytes(let bytes) = part {
                literal += bytes
                continue
            }
            if !literal.isEmpty { parts.append(.bytes(literal)) }
            literal = []
            parts.append(part)
        }
        if !literal.isEmpty { parts.append(.bytes(literal)) }
        self.parts = parts
    }

    private static func field(_ rest: inout ArraySlice<UInt8>) throws(ArgumentError) -> Field {
        var field = Field(letter: 0)
        if rest.first == UInt8(ascii: "-") {
            field.alignsLeft = true
            rest.removeFirst()
        }
        if rest.first == UInt8(ascii: "0") {
            field.padsWithZeros = true
            rest.removeFirst()
        }
        field.width = try number(&rest)
        if rest.first == UInt8(ascii: ".") {
            rest.removeFirst()
            field.precision = try number(&rest)
        }
        guard let letter = rest.popFirst() else { throw incomplete }
        guard letters.contains(letter) else {
            throw ArgumentError("Error: Invalid format specifier '\(Character(UnicodeScalar(letter)))'.")
        }
        field.letter = letter
        return field
    }

    private static func number(_ rest: inout ArraySlice<UInt8>) throws(ArgumentError) -> Int {
        var number = 0
        while let digit = rest.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) {
            number = number * 10 + Int(digit - UInt8(ascii: "0"))
            guard number <= Limits.formatWidthBytesMax else {
                throw ArgumentError("Error: A width in a format is at most \(Limits.formatWidthBytesMax).")
            }
            rest.removeFirst()
        }
        return number
    }

    private static let incomplete = ArgumentError("Error: Incomplete format specifier.")
    private static let letters = Set("%ACDEFIJPRSUXjlmpqrtx".utf8)
    private static let escapes: [UInt8: UInt8] = [
        UInt8(ascii: "\\"): UInt8(ascii: "\\"), UInt8(ascii: "0"): 0, UInt8(ascii: "a"): 7, UInt8(ascii: "e"): 27,
        UInt8(ascii: "n"): 10, UInt8(ascii: "r"): 13, UInt8(ascii: "t"): 9, UInt8(ascii: "v"): 11,
    ]
}

extension MessageFormat {
    /// What the format makes of a message, without an end of line. On a terminal the format's own escapes act, and none
    /// of the message's.
    func print(
        _ message: PrintableMessage, at time: LocalTime, isPretty: Bool, isForTerminal: Bool = false
    ) -> PrintedMessage {
        var printed = PrintedMessage()
        for part in parts {
            switch part {
            case .bytes(let bytes): printed.bytes += bytes
            case .time(UInt8(ascii: "N")): printed.bytes += Array(time.nanosecondsText.utf8)
            case .time(let letter): printed.bytes += time.text(letter)
            case .field(let field):
                guard isForTerminal else {
                    put(field, message, time, isPretty, &printed)
                    continue
                }
                var shown = PrintedMessage()
                put(field, message, time, isPretty, &shown)
                printed.bytes += field.onTerminal(shown.bytes)
                printed.complaint = shown.complaint ?? printed.complaint
            }
        }
        return printed
    }

    private func put(
        _ field: Field, _ message: PrintableMessage, _ time: LocalTime, _ isPretty: Bool, _ printed: inout PrintedMessage
    ) {
        let properties = message.properties
        switch Character(UnicodeScalar(field.letter)) {
        case "%": printed.bytes.append(field.letter)
        case "A": printed.bytes += field.number(properties.topicAlias)
        case "C": printed.bytes += properties.contentType.map { field.text($0.bytes) } ?? field.blank
        case "D": printed.bytes += properties.correlationData ?? []
        case "E": printed.bytes += field.number(properties.messageExpiryInterval)
        case "F": printed.bytes += field.number(properties.payloadFormatIndicator)
        case "I": printed.bytes += field.text(time.isoText)
        case "j", "J":
            let isEscaped = field.letter == UInt8(ascii: "j")
            if let json = MessageJSON.bytes(of: message, at: time, isEscaped: isEscaped, isPretty: isPretty) {
                printed.bytes += json
            } else {
                printed.complaint = "Error: Message payload is not valid JSON on topic \(message.topic)."
            }
        case "l": printed.bytes += field.number(message.payload.count)
        case "m": printed.bytes += field.number(message.packetIdentifier)
        case "P":
            let pairs = properties.userProperties.map { $0.name.bytes + [UInt8(ascii: ":")] + $0.value.bytes }
            printed.bytes += pairs.joined(separator: [UInt8(ascii: " ")])
        case "p": printed.bytes += field.payload(message.payload, digits: nil)
        case "q": printed.bytes += Array("\(message.qos.rawValue)".utf8)
        case "R": printed.bytes += properties.responseTopic.map { field.text($0.bytes) } ?? []
        case "r": printed.bytes.append(message.retain ? UInt8(ascii: "1") : UInt8(ascii: "0"))
        case "S": printed.bytes += field.number(properties.subscriptionIdentifiers.first)
        case "t": printed.bytes += field.text(message.topic.bytes)
        case "U": printed.bytes += Array(time.unixText.utf8)
        case "x": printed.bytes += field.payload(message.payload, digits: Self.lowerDigits)
        case "X": printed.bytes += field.payload(message.payload, digits: Self.upperDigits)
        default: break
        }
    }

    private static let lowerDigits = Array("0123456789abcdef".utf8)
    private static let upperDigits = Array("0123456789ABCDEF".utf8)
}

extension MessageFormat.Field {
    private static let space = UInt8(ascii: " ")

    /// What has become of the field, for a terminal.
    fileprivate func onTerminal(_ bytes: [UInt8]) -> [UInt8] {
        switch Character(UnicodeScalar(letter)) {
        case "j", "J": TerminalText.json(bytes)
        case "p", "D": TerminalText.lines(bytes)
        default: TerminalText.line(bytes)
        }
    }

    private var padding: UInt8 { padsWithZeros ? UInt8(ascii: "0") : Self.space }

    /// As wide as the field, for a text that is not there.
    fileprivate var blank: [UInt8] { [UInt8](repeating: Self.space, count: width) }

    fileprivate func number(_ number: (some BinaryInteger)?) -> [UInt8] {
        guard let number else { return [UInt8](repeating: padding, count: width) }
        return aligned(Array("\(number)".utf8), padding)
    }

    fileprivate func text(_ text: [UInt8]) -> [UInt8] { aligned(precision.map { Array(text.prefix($0)) } ?? text, Self.space) }

    private func aligned(_ text: [UInt8], _ padding: UInt8) -> [UInt8] {
        let missing = max(0, width - text.count)
        return alignsLeft
            ? text + [UInt8](repeating: Self.space, count: missing) : [UInt8](repeating: padding, count: missing) + text
    }

    /// A payload is cut to the width.
    fileprivate func payload(_ payload: [UInt8], digits: [UInt8]?) -> [UInt8] {
        var kept = payload[...]
        var missing = 0
        if width > 0 {
            kept = kept.prefix(width)
            // mosquitto_sub shows half of the bytes in hexadecimal digits, whether or not there is room for all.
            if digits != nil { kept = kept.prefix(kept.count / 2) }
            missing = width - kept.count * (digits == nil ? 1 : 2)
        } else if alignsLeft {
            missing = payload.count
        }
        let shown = digits.map { digits in kept.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] } } ?? Array(kept)
        return alignsLeft
            ? shown + [UInt8](repeating: Self.space, count: missing) : [UInt8](repeating: padding, count: missing) + shown
    }
}

/// The JSON of %j and %J, byte for byte as mosquitto_sub prints it.
///
/// One thing differs: properties stand in the order of their identifiers, where mosquitto_sub has them as they came.
enum MessageJSON {
    /// - Parameter isEscaped: whether the payload is a string (%j) or JSON itself (%J).
    /// - Returns: nil if it has to be JSON and is not.
    static func bytes(of message: PrintableMessage, at time: LocalTime, isEscaped: Bool, isPretty: Bool) -> [UInt8]? {
        var payload = CJSONValue.null
        if !isEscaped, !message.payload.isEmpty {
            guard let value = CJSONValue(reading: message.payload) else { return nil }
            payload = value
        } else if !message.payload.isEmpty {
            payload = .string(untilNull(message.payload))
        }
        var writer = JSONWriter(isPretty ? .cJSONLines : .cJSON)
        writer.object { object in
            object.set("tst", time.microsecondsText)
            object.set("topic", utf8: message.topic.bytes)
            object.set("qos", message.qos.rawValue)
            object.set("retain", message.retain ? 1 : 0)
            object.set("payloadlen", message.payload.count)
            if message.qos != .atMostOnce { object.set("mid", message.packetIdentifier) }
            if !message.properties.isEmpty { object.object("properties") { write(message.properties, to: &$0) } }
            object.member("payload".utf8) { payload.write(to: &$0) }
        }
        return writer.bytes
    }

    private static func write(_ properties: Properties, to object: inout JSONWriter) {
        if let value = properties.payloadFormatIndicator { object.set("payload-format-indicator", value) }
        if let value = properties.messageExpiryInterval { object.set("message-expiry-interval", value) }
        if let value = properties.contentType { object.set("content-type", utf8: value.bytes) }
        if let value = properties.responseTopic { object.set("response-topic", utf8: value.bytes) }
        if let value = properties.correlationData { object.set("correlation-data", utf8: untilNull(value)) }
        for identifier in properties.subscriptionIdentifiers { object.set("subscription-identifier", identifier) }
        if let value = properties.topicAlias { object.set("topic-alias", value) }
        guard !properties.userProperties.isEmpty else { return }
        object.object("user-properties") { pairs in
            for property in properties.userProperties {
                pairs.member(property.name.bytes) { $0.add(utf8: property.value.bytes) }
            }
        }
    }

    /// mosquitto_sub's strings end where C's do.
    private static func untilNull(_ bytes: [UInt8]) -> [UInt8] { Array(bytes.prefix { $0 != 0 }) }
}

/// A value of JSON as the library cJSON reads it, which mosquitto_sub uses: numbers are doubles, texts are bytes, names
/// may stand twice.
enum CJSONValue: Equatable {
    case null, bool(Bool)
    case number(Double)
    /// Bytes, for what is received need not be UTF-8.
    case string([UInt8])
    case array([CJSONValue])
    /// In order; a name may stand more than once.
    case object([(name: [UInt8], value: CJSONValue)])

    static func == (left: CJSONValue, right: CJSONValue) -> Bool { left.bytes(isPretty: false) == right.bytes(isPretty: false) }

    static func string(_ text: String) -> CJSONValue { .string(Array(text.utf8)) }

    func bytes(isPretty: Bool) -> [UInt8] {
        var writer = JSONWriter(isPretty ? .cJSONLines : .cJSON)
        write(to: &writer)
        return writer.bytes
    }

    /// Adds the value to what is written in cJSON's style.
    func write(to writer: inout JSONWriter) {
        switch self {
        case .null: writer.add(.null)
        case .bool(let value): writer.add(.boolean(value))
        case .number(let value): writer.add(json: Self.text(value).utf8)
        case .string(let value): writer.add(utf8: value)
        case .array(let values): writer.array { list in for value in values { value.write(to: &list) } }
        case .object(let members):
            writer.object { object in for member in members { object.member(member.name) { member.value.write(to: &$0) } } }
        }
    }

    /// 15 digits if they are the number, else 17.
    private static func text(_ number: Double) -> String {
        guard number.isFinite else { return "null" }
        let short = formatted(number, digits: 15)
        guard let back = Double(short) else { return short }
        let isSame = abs(back - number) <= max(abs(back), abs(number)) * Double.ulpOfOne
        return isSame ? short : formatted(number, digits: 17)
    }

    private static func formatted(_ number: Double, digits: Int32) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 32) { buffer in
            let count = withVaList([digits, number]) { vsnprintf(buffer.baseAddress, buffer.count, "%.*g", $0) }
            return String(decoding: buffer.prefix(Int(count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }
}

extension CJSONValue {
    /// Reads a text as cJSON does, which takes more than the standard allows: 01, control characters, lone bytes. nil
    /// if it is none.
    init?(reading bytes: [UInt8]) {
        var reader = CJSONReader(bytes)
        guard let value = reader.whole() else { return nil }
        self = value
    }
}

private struct CJSONReader {
    private let bytes: [UInt8]
    private var index = 0
    private var depth = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
    }

    mutating func whole() -> CJSONValue? {
        skipBlanks()
        guard let value = value() else { return nil }
        skipBlanks()
        return index == bytes.count ? value : nil
    }

    private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

    /// Skips blanks and control characters, which separate; NUL is the end of the text.
    private mutating func skipBlanks() { while let byte = next, byte <= 32, byte != 0 { index += 1 } }

    private mutating func skip(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard index + count <= bytes.count else { return false }
        for offset in 0..<count where bytes[index + offset] != text.utf8Start[offset] { return false }
        index += count
        return true
    }

    private mutating func value() -> CJSONValue? {
        if skip("null") { return .null }
        if skip("false") { return .bool(false) }
        if skip("true") { return .bool(true) }
        switch next {
        case UInt8(ascii: "\""): return string().map(CJSONValue.string)
        case .some(UInt8(ascii: "-")), .some(UInt8(ascii: "0")...UInt8(ascii: "9")): return number()
        case UInt8(ascii: "["): return nested { $0.array() }
        case UInt8(ascii: "{"): return nested { $0.object() }
        default: return nil
        }
    }

    private mutating func nested(_ read: (inout CJSONReader) -> CJSONValue?) -> CJSONValue? {
        guard depth < Limits.payloadDepthMax else { return nil }
        depth += 1
        defer { depth -= 1 }
        index += 1
        return read(&self)
    }

    /// The longest beginning that C's strtod takes.
    private mutating func number() -> CJSONValue? {
        let letters = Set("0123456789+-eE.".utf8)
        var text = bytes[index...].prefix(63).prefix { letters.contains($0) }.map { CChar(bitPattern: $0) }
        text.append(0)
        let (number, length) = text.withUnsafeBufferPointer { text -> (Double, Int) in
            var end: UnsafeMutablePointer<CChar>?
            guard let start = text.baseAddress else { return (0, 0) }
            let number = strtod(start, &end)
            return (number, end.map { UnsafePointer($0) - start } ?? 0)
        }
        guard length > 0 else { return nil }
        index += length
        return .number(number)
    }

    private mutating func array() -> CJSONValue? {
        skipBlanks()
        if skip("]") { return .array([]) }
        var values: [CJSONValue] = []
        while true {
            skipBlanks()
            guard let value = value() else { return nil }
            values.append(value)
            skipBlanks()
            if skip("]") { return .array(values) }
            guard skip(",") else { return nil }
        }
    }

    private mutating func object() -> CJSONValue? {
        skipBlanks()
        if skip("}") { return .object([]) }
        var members: [(name: [UInt8], value: CJSONValue)] = []
        while true {
            skipBlanks()
            guard let name = string() else { return nil }
            skipBlanks()
            guard skip(":") else { return nil }
            skipBlanks()
            guard let value = value() else { return nil }
            members.append((name, value))
            skipBlanks()
            if skip("}") { return .object(members) }
            guard skip(",") else { return nil }
        }
    }

    /// A string ends at its first null character, which can only be written as \u0000.
    private mutating func string() -> [UInt8]? {
        guard skip("\"") else { return nil }
        var text: [UInt8] = []
        while let byte = next, byte != 0 {
            index += 1
            if byte == UInt8(ascii: "\"") { return Array(text.prefix { $0 != 0 }) }
            guard byte == UInt8(ascii: "\\") else {
                text.append(byte)
                continue
            }
            guard let escape = next else { return nil }
            index += 1
            switch escape {
            case UInt8(ascii: "b"): text.append(8)
            case UInt8(ascii: "f"): text.append(12)
            case UInt8(ascii: "n"): text.append(10)
            case UInt8(ascii: "r"): text.append(13)
            case UInt8(ascii: "t"): text.append(9)
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(escape)
            case UInt8(ascii: "u"):
                guard let scalar = scalar() else { return nil }
                text += Array(String(Character(scalar)).utf8)
            default: return nil
            }
        }
        return nil
    }

    /// What follows \u, and its other half.
    private mutating func scalar() -> UnicodeScalar? {
        guard let first = codeUnit() else { return nil }
        guard (0xD800...0xDBFF).contains(first) else { return UnicodeScalar(first) }
        guard skip("\\u"), let second = codeUnit(), (0xDC00...0xDFFF).contains(second) else { return nil }
        return UnicodeScalar(0x10000 + (first & 0x3FF) << 10 | (second & 0x3FF))
    }

    private mutating func codeUnit() -> UInt32? {
        guard index + 4 <= bytes.count else { return nil }
        let digits = bytes[index..<(index + 4)].map { Character(UnicodeScalar($0)).hexDigitValue }
        index += 4
        var unit: UInt32 = 0
        for digit in digits {
            guard let digit else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }
}
