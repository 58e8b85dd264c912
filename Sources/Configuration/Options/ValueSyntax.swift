/// How the text of an option becomes a value, and how a value is written.
///
/// `parse(render(value)!) == value` for every value that `render` can write.
struct ValueSyntax<Value: Sendable>: Sendable {
    /// How a value is described in a table of the options: `true|false`, `0 to 65535`, `PATH`.
    let shape: String
    /// The values that are expected, to follow "expected" in a message.
    let expected: String
    var extent = ValueExtent.word
    /// What there is to say of a text that is taken for another value than it names, as a sentence; nil for all others.
    var remark: @Sendable (String) -> String? = { _ in nil }
    /// The value, or nil when the text is not one.
    let parse: @Sendable (String) -> Value?
    /// The text of a value, or nil for one that stands for "not given".
    let render: @Sendable (Value) -> String?
}

extension ValueSyntax where Value == Bool {
    /// Exactly `true`, `1`, `false` or `0`.
    static var boolean: ValueSyntax {
        ValueSyntax(
            shape: "true|false", expected: "true or false",
            parse: { text in
                switch text {
                case "true", "1": true
                case "false", "0": false
                default: nil
                }
            },
            render: { $0 ? "true" : "false" })
    }
}

extension ValueSyntax where Value: FixedWidthInteger {
    /// A decimal number in `range`.
    static func integer(_ range: ClosedRange<Value>) -> ValueSyntax {
        ValueSyntax(
            shape: "\(range.lowerBound) to \(range.upperBound)", expected: expectation(range),
            parse: { text in Value(text).flatMap { range.contains($0) ? $0 : nil } },
            render: { "\($0)" })
    }

    /// A decimal number; one below `range` is taken for its least number, as mosquitto does.
    static func integer(atLeast range: ClosedRange<Value>) -> ValueSyntax {
        var syntax = ValueSyntax(
            shape: "\(range.lowerBound) to \(range.upperBound)", expected: expectation(range),
            parse: { text in
                guard let number = Value(text), number <= range.upperBound else { return nil }
                return max(number, range.lowerBound)
            },
            render: { "\($0)" })
        syntax.remark = { text in
            guard let number = Value(text), number < range.lowerBound else { return nil }
            return "\(number) is too low; \(range.lowerBound) is used."
        }
        return syntax
    }

    private static func expectation(_ range: ClosedRange<Value>) -> String {
        if range.upperBound == range.lowerBound + 1 { return "\(range.lowerBound) or \(range.upperBound)" }
        if range.upperBound == range.lowerBound + 2 {
            return "\(range.lowerBound), \(range.lowerBound + 1) or \(range.upperBound)"
        }
        return "a number from \(range.lowerBound) to \(range.upperBound)"
    }
}

extension ValueSyntax where Value == Int? {
    /// A number up to `largest`; 0 stands for "no limit", "off" or "automatic".
    static func limit(_ largest: Int = Limits.countMax) -> ValueSyntax {
        ValueSyntax(
            shape: "0 to \(largest)", expected: "a number from 0 to \(largest)",
            parse: { text in
                guard let number = Int(text), (0...largest).contains(number) else { return nil }
                return .some(number == 0 ? nil : number)
            },
            render: { $0.map { "\($0)" } ?? "0" })
    }

    /// A number up to `largest`; -1 (and, as with mosquitto, 0) stands for "no limit".
    static var count: ValueSyntax {
        let largest = Limits.countMax
        return ValueSyntax(
            shape: "-1 to \(largest)", expected: "a number from -1 to \(largest)",
            parse: { text in
                guard let number = Int(text), (-1...largest).contains(number) else { return nil }
                return .some(number > 0 ? number : nil)
            },
            render: { $0.map { "\($0)" } ?? "-1" })
    }
}

extension ValueSyntax where Value == String {
    /// The rest of the line.
    static func text(_ shape: String) -> ValueSyntax {
        ValueSyntax(shape: shape, expected: "a text", extent: .line, parse: { $0 }, render: { $0 })
    }
}

extension ValueSyntax where Value: CaseIterable & RawRepresentable<String> {
    /// One of the names of `Value`'s cases.
    static var choice: ValueSyntax { choice(unmentioned: []) }

    /// One of the names of `Value`'s cases, of which some are understood without being offered: the broker would refuse them.
    static func choice(unmentioned: [Value]) -> ValueSyntax {
        let names = Value.allCases.map(\.rawValue).filter { name in !unmentioned.contains { $0.rawValue == name } }
        return ValueSyntax(
            shape: names.joined(separator: "|"), expected: enumeration(names), parse: { Value(rawValue: $0) },
            render: { $0.rawValue })
    }
}

extension ValueSyntax {
    /// One of a few words, each with its value.
    static func oneOf(_ values: KeyValuePairs<String, Value>) -> ValueSyntax where Value: Equatable {
        let names = values.map(\.key)
        let pairs = values.map { $0 }
        return ValueSyntax(
            shape: names.joined(separator: "|"), expected: enumeration(names),
            parse: { text in pairs.first { $0.key == text }?.value },
            render: { value in pairs.first { $0.value == value }?.key })
    }

    /// These texts for a property that may be nil, which no text stands for.
    var optional: ValueSyntax<Value?> {
        ValueSyntax<Value?>(
            shape: shape, expected: expected, extent: extent, remark: remark,
            parse: { [parse] text in parse(text).map { .some($0) } },
            render: { [render] value in value.flatMap(render) })
    }

    /// These texts as far as `condition` holds for their value.
    func with(expected: String, _ condition: @escaping @Sendable (Value) -> Bool) -> ValueSyntax {
        ValueSyntax(
            shape: shape, expected: expected, extent: extent, remark: remark,
            parse: { [parse] text in parse(text).flatMap { condition($0) ? $0 : nil } }, render: render)
    }
}

/// "a, b or c".
private func enumeration(_ names: [String]) -> String {
    guard let last = names.last, names.count > 1 else { return names.first ?? "" }
    return names.dropLast().joined(separator: ", ") + " or " + last
}

extension Int {
    /// The largest time that a line may ask for in seconds or milliseconds: about 68 years of seconds.
    static let largestTime = Int(Int32.max)
}

/// Why a value was refused.
enum Expectation: Sendable, Equatable {
    /// The value is not `what`.
    case expected(String)
    /// A sentence of its own.
    case sentence(String)
    /// It was taken all the same, and this is to be said of it: a sentence.
    case remark(String)
}
