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
            guard number <= widthMax else { throw ArgumentError("Error: A width in a format is at most \(widthMax).") }
            rest.removeFirst()
        }
        return number
    }

    /// The widest that a field can be made, in bytes; more would be a mistake and fill the memory.
    static let widthMax = 1_000_000
    private static let incomplete = ArgumentError("Error: Incomplete format specifier.")
    private static let letters = Set("%ACDEFIJPRSUXjlmpqrtx".utf8)
    private static let escapes: [UInt8: UInt8] = [
        UInt8(ascii: "\\"): UInt8(ascii: "\\"), UInt8(ascii: "0"): 0, UInt8(ascii: "a"): 7, UInt8(ascii: "e"): 27,
        UInt8(ascii: "n"): 10, UInt8(ascii: "r"): 13, UInt8(ascii: "t"): 9, UInt8(ascii: "v"): 11,
    ]
}
