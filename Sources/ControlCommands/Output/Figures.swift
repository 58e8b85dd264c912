internal import Glibc
internal import JSON

/// Numbers and times as people read them.
enum Figures {
    /// A number, as a cell has it, with what it counts: `1 message`, `2 messages`.
    static func counted(_ cell: String, _ noun: String) -> String { "\(cell) \(noun)\(cell == "1" ? "" : "s")" }

    /// `1 234 567` bytes as `1.2 MB`.
    static func bytes(_ count: Int64) -> String {
        let units = ["B", "kB", "MB", "GB", "TB"]
        var (value, unit) = (Double(count), 0)
        while value >= 999.5, unit < units.count - 1 { (value, unit) = (value / 1000, unit + 1) }
        return unit == 0 ? "\(count) B" : "\(decimal(value)) \(units[unit])"
    }

    /// One digit behind the point below ten.
    static func decimal(_ value: Double) -> String {
        guard value.isFinite, abs(value) < 1e15 else { return "-" }
        let tenths = (value * 10).rounded()
        if abs(tenths) >= 100 || tenths.truncatingRemainder(dividingBy: 10) == 0 { return String(Int64((tenths / 10).rounded())) }
        return "\(tenths < 0 ? "-" : "")\(Int64(abs(tenths)) / 10).\(Int64(abs(tenths)) % 10)"
    }

    /// The two largest units: `3 d 4 h`, `12 min 5 s`.
    static func duration(seconds: Int64) -> String {
        let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")]
        let shown = parts.drop { $0.0 == 0 }.prefix(2).filter { $0.0 > 0 }
        return shown.isEmpty ? "0 s" : shown.map { "\($0) \($1)" }.joined(separator: " ")
    }

    static func duration(milliseconds: Int64) -> String {
        milliseconds < 1000 ? "\(milliseconds) ms" : duration(seconds: milliseconds / 1000)
    }

    /// `2026-11-23T10:28:59.123Z` as `2026-11-23 10:28:59`.
    static func time(_ text: String) -> String {
        guard text.utf8.count >= 20, text.utf8.dropFirst(10).first == UInt8(ascii: "T") else { return text }
        return text.prefix(10) + " " + text.dropFirst(11).prefix(8)
    }

    /// Seconds that `90s`, `10m`, `2h`, `7d` or `90` mean; nil for anything else.
    static func seconds(_ text: String) -> Int? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let factors = ["": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let number = Int(digits), number > 0, number < 1_000_000_000, let factor = factors[String(text[digits.endIndex...])]
        else { return nil }
        return number * factor
    }

    /// RFC 3339 of so many seconds from now.
    static func timeAfter(seconds: Int) -> String {
        var now = time_t(Glibc.time(nil) + seconds)
        var fields = tm()
        gmtime_r(&now, &fields)
        let bytes = withUnsafeTemporaryAllocation(of: CChar.self, capacity: 32) { buffer in
            let count = strftime(buffer.baseAddress, 32, "%Y-%m-%dT%H:%M:%SZ", &fields)
            return buffer.prefix(count).map { UInt8(bitPattern: $0) }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension JSONValue {
    /// A member of an object; null where there is none.
    subscript(name: String) -> JSONValue { object?[name] ?? .null }

    /// As a cell of a table; a dash for what is not there.
    var cell: String { text ?? "-" }

    /// nil for null.
    var text: String? {
        switch self {
        case .null: nil
        case .boolean(let value): value ? "yes" : "no"
        case .integer(let value): String(value)
        case .number(let value): Figures.decimal(value)
        case .string(let text): text
        case .array(let values): values.map(\.cell).joined(separator: ", ")
        case .object(let members): members.names.map { "\($0) \(members[$0]?.cell ?? "-")" }.joined(separator: ", ")
        }
    }

    var time: String { string.map(Figures.time) ?? "-" }
    var number: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }

    var rows: [JSONValue] { self["data"].array ?? [] }
}
