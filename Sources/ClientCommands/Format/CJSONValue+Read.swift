internal import Glibc

extension CJSONValue {
    /// Reads a text as cJSON does, which takes more than the standard allows: 01, control characters, lone bytes. nil if it is none.
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

    /// What is no printable character separates; only the end of the text is none of them.
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
        guard depth < Self.depthMax else { return nil }
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

    /// How deep cJSON goes.
    private static let depthMax = 1000
}
