/// Numbers for people: three digits, and the unit that makes them so.
///
/// KB, MB and GB are 1,000, a million and a thousand million bytes.
enum Scaled {
    /// `850 ns`, `12.3 µs`, `1.25 ms`, `3.10 s`.
    static func time(_ nanoseconds: Double) -> String {
        scaled(nanoseconds, [" ns", " µs", " ms", " s"], smallest: "0 ns")
    }

    /// `64 bytes`, `1.32 KB`, `2.76 GB`; whole bytes below 10,000.
    static func bytes(_ bytes: Double) -> String {
        if bytes.magnitude < 9999.5 {
            let whole = Int(bytes.rounded())
            return whole == 1 ? "1 byte" : "\(whole.groupedText) bytes"
        }
        return scaled(bytes, [" bytes", " KB", " MB", " GB", " TB"], smallest: "0 bytes")
    }

    /// `850`, `6,736`, `43.3 k`, `1.20 M`; whole below 10,000, except for what is less than 100 and not whole.
    static func count(_ count: Double) -> String {
        if count.magnitude < 9999.5, count.rounded() == count || count.magnitude >= 99.95 {
            return Int(count.rounded()).groupedText
        }
        return scaled(count, ["", " k", " M", " G"], smallest: "0")
    }

    /// A round number beside an axis: `0`, `250 k`, `40 M`.
    static func axis(_ count: Double) -> String { rounded(count, ["", " k", " M", " G"]) }

    /// A round time beside an axis, in nanoseconds: `100 µs`, `20 ms`.
    static func axisTime(_ nanoseconds: Double) -> String { rounded(nanoseconds, [" ns", " µs", " ms", " s"]) }

    private static func rounded(_ value: Double, _ units: [String]) -> String {
        var (value, place) = (value, 0)
        while value.magnitude >= 999.999, place + 1 < units.count {
            value /= 1000
            place += 1
        }
        return value.shortText + units[place]
    }

    /// The value in the largest unit that leaves something before the point, each unit 1,000 of the one before.
    private static func scaled(_ value: Double, _ units: [String], smallest: String) -> String {
        guard value.isFinite, value != 0 else { return smallest }
        var (value, place) = (value, 0)
        while value.magnitude >= 999.5, place + 1 < units.count {
            value /= 1000
            place += 1
        }
        return threeDigits(value) + units[place]
    }

    private static func threeDigits(_ value: Double) -> String {
        switch value.magnitude {
        case ..<9.995: value.decimalText(digits: 2)
        case ..<99.95: value.decimalText(digits: 1)
        default: Int(value.rounded()).groupedText
        }
    }
}

/// What a figure is counted in, and so how people read it.
public enum Unit: Sendable, Equatable {
    /// These words stand behind the number; empty for a bare number.
    case words(String)
    /// A time: how many nanoseconds one is, and words behind it.
    case time(nanoseconds: Double, String)
    /// A size: how many bytes one is, and words behind it.
    case size(bytes: Double, String)

    static func microseconds(_ each: String = "") -> Unit { .time(nanoseconds: 1e3, each) }
    static func milliseconds(_ each: String = "") -> Unit { .time(nanoseconds: 1e6, each) }
    static func bytes(_ each: String = "") -> Unit { .size(bytes: 1, each) }
    static var kibibytes: Unit { .size(bytes: 1024, "") }
    static var megabytesPerSecond: Unit { .size(bytes: 1e6, "/s") }

    /// The number for people, its unit behind it.
    func text(_ figure: Figure) -> String {
        switch self {
        case .words(let words): return figure.plainText + Self.behind(words)
        case .time(let scale, let words): return scaled(figure, Scaled.time, scale, words)
        case .size(let scale, let words): return scaled(figure, Scaled.bytes, scale, words)
        }
    }

    /// `/s` stands close to its number, words do not.
    private static func behind(_ words: String) -> String { words.isEmpty || words.hasPrefix("/") ? words : " \(words)" }

    private func scaled(_ figure: Figure, _ text: (Double) -> String, _ scale: Double, _ words: String) -> String {
        guard let value = figure.value else { return figure.plainText }
        return text(value * scale) + Self.behind(words)
    }
}

extension Unit: ExpressibleByStringLiteral {
    /// Words behind a number.
    ///
    /// - Parameter words: such as `messages/s`; empty for a bare number.
    public init(stringLiteral words: String) { self = .words(words) }
}
