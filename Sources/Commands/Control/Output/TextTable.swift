internal import Glibc
internal import JSON
internal import Platform

/// Rows under titles for a person: columns as wide as what stands in them, on a terminal no wider than that. Nothing
/// that the broker's clients have named moves the cursor.
struct TextTable {
    struct Column {
        var title: String
        /// To the right.
        var isNumber = false

        static func text(_ title: String) -> Column { Column(title: title) }
        static func number(_ title: String) -> Column { Column(title: title, isNumber: true) }
    }

    var columns: [Column]
    /// Each with as many cells as there are columns.
    var rows: [[String]] = []

    init(_ columns: [Column]) { self.columns = columns }

    /// The titles and the rows.
    ///
    /// - Parameter width: of the terminal; nil cuts nothing.
    func lines(width: Int?) -> [String] {
        let cells = [columns.map(\.title)] + rows.map { $0.map { TerminalText.line($0) } }
        let widths = widths(of: cells, in: width)
        return cells.map { row in
            var line = ""
            for (index, cell) in row.enumerated() where widths[index] > 0 {
                let text = TerminalText.shortened(cell, widths[index])
                let padding = String(repeating: " ", count: widths[index] - TerminalText.columns(of: text))
                let isLast = index == row.count - 1
                line += columns[index].isNumber ? padding + text : text + (isLast ? "" : padding)
                if !isLast { line += "  " }
            }
            return width.map { TerminalText.cut(line, to: $0) } ?? line
        }
    }

    /// The widest column of text gives way, then the next; numbers keep theirs.
    private func widths(of cells: [[String]], in width: Int?) -> [Int] {
        var widths = columns.indices.map { index in cells.map { TerminalText.columns(of: $0[index]) }.max() ?? 0 }
        guard let width else { return widths }
        var excess = widths.reduce(2 * (widths.count - 1), +) - width
        while excess > 0 {
            let shrinkable = widths.indices.filter { !columns[$0].isNumber && widths[$0] > Self.narrowest }
            guard let widest = shrinkable.max(by: { widths[$0] < widths[$1] }) else { break }
            let next = shrinkable.map { widths[$0] }.filter { $0 < widths[widest] }.max() ?? Self.narrowest
            let step = min(excess, widths[widest] - max(next, Self.narrowest))
            widths[widest] -= max(1, step)
            excess -= max(1, step)
        }
        return widths
    }

    /// Columns of text that are always left.
    private static let narrowest = 8
}

/// Names and what is to be said of them, one below the other.
struct FactList {
    private var facts: [(name: String, value: String)] = []

    /// Without a value it is left out.
    mutating func add(_ name: String, _ value: String?) {
        if let value { facts.append((name, value)) }
    }

    func lines(width: Int?) -> [String] {
        let nameWidth = facts.map { TerminalText.columns(of: $0.name) }.max() ?? 0
        return facts.map { name, value in
            let line =
                name + String(repeating: " ", count: nameWidth - TerminalText.columns(of: name) + 2) + TerminalText.line(value)
            return width.map { TerminalText.shortened(line, $0) } ?? line
        }
    }
}

/// Where a command writes.
public struct ControlOutput {
    /// Columns of the terminal; nil where it is none.
    public var width: Int?
    /// Programs read it: what the API has answered, as it is.
    public var isJSON: Bool
    private let write: (String) -> Void
    private let writeRemark: (String) -> Void

    /// - `remark`: takes what is said beside the answer, which programs that read the answer do not want.
    /// - `write`: takes lines with their ends.
    public init(
        width: Int?, isJSON: Bool, remark: @escaping (String) -> Void = { _ in }, write: @escaping (String) -> Void
    ) {
        (self.width, self.isJSON, self.writeRemark, self.write) = (width, isJSON, remark, write)
    }

    /// Says something beside the answer.
    func remark(_ line: String) { writeRemark(TerminalText.line(line)) }

    func say(_ line: String) { write(line + "\n") }

    /// A line of which others have written a part.
    func sayForeign(_ line: String) { write(TerminalText.line(line) + "\n") }

    func show(_ table: TextTable, orSay nothing: String) {
        if table.rows.isEmpty { say(nothing) } else { table.lines(width: width).forEach(say) }
    }

    func show(_ facts: FactList) { facts.lines(width: width).forEach(say) }

    /// JSON as it came; on a terminal what would do something to it is escaped, which is the same JSON.
    func put(_ json: some Sequence<UInt8>) {
        let bytes = Array(json)
        say(String(decoding: width == nil ? bytes : TerminalText.json(bytes), as: UTF8.self))
    }
}

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
