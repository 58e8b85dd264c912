internal import Glibc

/// A value of JSON, and its text as the library cJSON reads and writes it, which mosquitto_sub uses.
enum JSONText: Equatable {
    case null, bool(Bool)
    case number(Double)
    /// Bytes, for what is received need not be UTF-8.
    case string([UInt8])
    case array([JSONText])
    /// In order; a name may stand more than once.
    case object([(name: [UInt8], value: JSONText)])

    static func == (left: JSONText, right: JSONText) -> Bool { left.bytes(isPretty: false) == right.bytes(isPretty: false) }

    static func string(_ text: String) -> JSONText { .string(Array(text.utf8)) }

    func bytes(isPretty: Bool) -> [UInt8] {
        var bytes: [UInt8] = []
        put(into: &bytes, isPretty, depth: 0)
        return bytes
    }

    private func put(into bytes: inout [UInt8], _ isPretty: Bool, depth: Int) {
        switch self {
        case .null: bytes += "null".utf8
        case .bool(let value): bytes += (value ? "true" : "false").utf8
        case .number(let value): bytes += Self.text(value).utf8
        case .string(let value): Self.put(value, into: &bytes)
        case .array(let values):
            bytes.append(UInt8(ascii: "["))
            for (index, value) in values.enumerated() {
                if index > 0 { bytes += (isPretty ? ", " : ",").utf8 }
                value.put(into: &bytes, isPretty, depth: depth + 1)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let members):
            bytes += (isPretty ? "{\n" : "{").utf8
            for (index, member) in members.enumerated() {
                if isPretty { bytes += Self.tabs(depth + 1) }
                Self.put(member.name, into: &bytes)
                bytes += (isPretty ? ":\t" : ":").utf8
                member.value.put(into: &bytes, isPretty, depth: depth + 1)
                if index < members.count - 1 { bytes.append(UInt8(ascii: ",")) }
                if isPretty { bytes.append(UInt8(ascii: "\n")) }
            }
            if isPretty { bytes += Self.tabs(depth) }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private static func tabs(_ count: Int) -> [UInt8] { [UInt8](repeating: UInt8(ascii: "\t"), count: count) }

    /// A text between quotes; bytes from 127 on stay as they are.
    static func put(_ text: [UInt8], into bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text {
            switch byte {
            case UInt8(ascii: "\""): bytes += "\\\"".utf8
            case UInt8(ascii: "\\"): bytes += "\\\\".utf8
            case 8: bytes += "\\b".utf8
            case 9: bytes += "\\t".utf8
            case 10: bytes += "\\n".utf8
            case 12: bytes += "\\f".utf8
            case 13: bytes += "\\r".utf8
            case 0..<32: bytes += "\\u00\(byte < 16 ? "0" : "1")\(String(byte & 15, radix: 16))".utf8
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
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
