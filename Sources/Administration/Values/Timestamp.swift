internal import Bytes

/// Times as RFC 3339 writes them, in UTC with milliseconds: `2026-07-01T12:00:00.000Z`.
public enum Timestamp {
    /// - Parameter milliseconds: since 1970.
    public static func text(_ milliseconds: UInt64) -> String {
        let (days, rest) = milliseconds.quotientAndRemainder(dividingBy: 86_400_000)
        let date = CivilDate(daysSince1970: Int(min(days, 2_932_896)))
        let (seconds, fraction) = (Int(rest / 1000), Int(rest % 1000))
        return
            "\(digits(date.year, 4))-\(digits(date.month, 2))-\(digits(date.day, 2))T\(digits(seconds / 3600, 2)):\(digits(seconds / 60 % 60, 2)):"
            + "\(digits(seconds % 60, 2)).\(digits(fraction, 3))Z"
    }

    /// Milliseconds since 1970; nil for what is no time of RFC 3339, or before 1970. A leap second counts as the one
    /// before it.
    public static func milliseconds(_ text: String) -> UInt64? {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, bytes[4] == 0x2D, bytes[7] == 0x2D, bytes[10] | 0x20 == 0x74,
            bytes[13] == 0x3A, bytes[16] == 0x3A,
            let year = number(bytes[0..<4]), let month = number(bytes[5..<7]),
            let day = number(bytes[8..<10]),
            let hour = number(bytes[11..<13]), let minute = number(bytes[14..<16]),
            let second = number(bytes[17..<19]),
            year >= 1970, hour < 24, minute < 60, second <= 60
        else { return nil }
        let date = CivilDate(year: year, month: month, day: day)
        guard date.exists else { return nil }
        var place = 19
        var fraction = 0
        if bytes[place] == 0x2E {
            let digits = bytes[(place + 1)...].prefix { (0x30...0x39).contains($0) }
            guard !digits.isEmpty else { return nil }
            fraction = number(Array((digits + [0x30, 0x30]).prefix(3))[...]) ?? 0
            place += 1 + digits.count
        }
        guard let offset = offset(bytes[place...]) else { return nil }
        let minutes = (date.daysSince1970 * 24 + hour) * 60 + minute - offset
        let total = (minutes * 60 + min(second, 59)) * 1000 + fraction
        return total < 0 ? nil : UInt64(total)
    }

    /// `Z`, `+02:00`: in minutes.
    private static func offset(_ bytes: ArraySlice<UInt8>) -> Int? {
        let bytes = Array(bytes)
        if bytes.count == 1, bytes[0] | 0x20 == 0x7A { return 0 }
        guard bytes.count == 6, bytes[0] == 0x2B || bytes[0] == 0x2D, bytes[3] == 0x3A,
            let hours = number(bytes[1..<3]),
            let minutes = number(bytes[4..<6]), hours < 24, minutes < 60
        else { return nil }
        return (hours * 60 + minutes) * (bytes[0] == 0x2B ? 1 : -1)
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int? {
        bytes.allSatisfy { (0x30...0x39).contains($0) }
            ? bytes.reduce(0) { $0 * 10 + Int($1 - 0x30) } : nil
    }

    private static func digits(_ number: Int, _ width: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
    }
}

/// Base64 with the alphabet for addresses, without padding. RFC 4648, section 5.
enum Base64URL {
    static func encode(_ bytes: some Collection<UInt8>) -> String {
        String(
            Base64.encode(bytes, padding: .none).map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
    }

    static func decode(_ text: String) -> [UInt8]? {
        guard !text.utf8.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") }) else {
            return nil
        }
        return Base64.decode(
            String(text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 }), padding: .none)
    }
}
