internal import Glibc
internal import JSON

/// A value of JSON as the library cJSON reads it, which mosquitto_sub uses: numbers are doubles, texts are bytes, names may stand twice.
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
