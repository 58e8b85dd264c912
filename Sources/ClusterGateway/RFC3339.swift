/// Times as servers write them: `2026-11-24T13:00:00.123456789Z`.
enum RFC3339 {
    /// Seconds since 1970; nil for what is no time of UTC since then.
    static func seconds(of text: String) -> UInt64? {
        let digits = Array(text.utf8)
        guard digits.count >= 20, digits[4] == UInt8(ascii: "-"), digits[10] == UInt8(ascii: "T"), digits.last == UInt8(ascii: "Z"),
            let year = number(digits[0..<4]), let month = number(digits[5..<7]), let day = number(digits[8..<10]),
            let hour = number(digits[11..<13]), let minute = number(digits[14..<16]), let second = number(digits[17..<19]),
            year >= 1970, (1...12).contains(month), (1...31).contains(day)
        else { return nil }
        // Years that begin with March have their leap day at the end.
        let shifted = month > 2 ? year : year - 1
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
        return UInt64(clamping: days * 86_400 + hour * 3600 + minute * 60 + second)
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? { Int(String(decoding: digits, as: UTF8.self)) }
}
