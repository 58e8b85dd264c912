/// A time as HTTP writes it, RFC 9110, section 5.6.7: `Sun, 06 Nov 1994 08:49:37 GMT`.
public enum HTTPDate {
    /// - Parameter seconds: since 1970, UTC.
    public static func text(_ seconds: Int64) -> String {
        let days = seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
        let rest = Int(seconds - days * 86_400)
        let (year, month, day) = civil(days)
        let weekday = Int(((days % 7) + 11) % 7)
        return
            "\(weekdays[weekday]), \(two(day)) \(months[month - 1]) \(four(year)) \(two(rest / 3600)):\(two(rest / 60 % 60)):\(two(rest % 60)) GMT"
    }

    /// The seconds since 1970 of a time in the form above; nil of anything else, the two forms that nobody has sent for decades too.
    public static func parse(_ text: String) -> Int64? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[0].utf8.count == 4, words[0].hasSuffix(","), words[5] == "GMT", words[1].utf8.count == 2,
            let day = Int(words[1]), (1...31).contains(day), let month = months.firstIndex(of: String(words[2])),
            words[3].utf8.count == 4, let year = Int(words[3]), year >= 0
        else { return nil }
        let clock = words[4].split(separator: ":", omittingEmptySubsequences: false)
        guard clock.count == 3, clock.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy(HTTPText.isDigit) }),
            let hour = Int64(clock[0]),
            let minute = Int64(clock[1]), let second = Int64(clock[2]), hour < 24, minute < 60, second < 61
        else { return nil }
        return daysSince1970(year, month + 1, day) * 86_400 + hour * 3600 + minute * 60 + second
    }

    /// Howard Hinnant's civil_from_days: eras of 400 years, years that begin in March.
    private static func civil(_ days: Int64) -> (Int, Int, Int) {
        let shifted = Int(days) + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    private static func daysSince1970(_ year: Int, _ month: Int, _ day: Int) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return Int64(era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468)
    }

    private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

    private static func four(_ number: Int) -> String { two(number / 100) + two(number % 100) }

    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
}
