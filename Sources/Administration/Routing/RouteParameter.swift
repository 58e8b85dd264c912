/// A parameter of a route's query, and what it may be.
struct RouteParameter: Sendable {
    enum Kind: Sendable, Equatable {
        /// So many bytes.
        case text(ClosedRange<Int>)
        case integer(ClosedRange<Int>)
        /// One of these numbers.
        case number([Int])
        case boolean
        case choice([String])
        /// Some of these, with commas between.
        case choices([String])
    }

    let name: String
    let kind: Kind
    var isRequired = false

    init(_ name: String, _ kind: Kind, isRequired: Bool = false) {
        (self.name, self.kind, self.isRequired) = (name, kind, isRequired)
    }

    static func text(_ name: String, _ bytes: ClosedRange<Int> = 0...Limits.textParameterBytesMax, isRequired: Bool = false)
        -> RouteParameter
    {
        RouteParameter(name, .text(bytes), isRequired: isRequired)
    }

    /// 0 or more.
    static func count(_ name: String) -> RouteParameter {
        RouteParameter(name, .integer(0...Int.max))
    }

    /// A topic or filter.
    static func topic(_ name: String, isRequired: Bool = false) -> RouteParameter {
        .text(name, 1...Limits.textParameterBytesMax, isRequired: isRequired)
    }

    static let limit = RouteParameter("limit", .integer(1...Limits.pageRowsMax))
    static let cursor = RouteParameter.text("cursor")
    /// Whether all nodes of the cluster are asked; a broker that is alone is a cluster of one.
    static let cluster = RouteParameter("cluster", .boolean)

    /// Says what is wrong with a value; nil if nothing is.
    func objection(to value: String) -> String? {
        switch kind {
        case .text(let bytes):
            return bytes.contains(value.utf8.count)
                ? nil : "\(name) must have \(bytes.lowerBound) to \(bytes.upperBound) bytes."
        case .integer(let range):
            guard let number = Self.integer(value), range.contains(number) else {
                return range.upperBound == .max
                    ? "\(name) must be an integer of at least \(range.lowerBound)."
                    : "\(name) must be an integer from \(range.lowerBound) to \(range.upperBound)."
            }
            return nil
        case .number(let numbers):
            return Self.integer(value).map(numbers.contains) ?? false
                ? nil : "\(name) must be \(numbers.map { String($0) }.joined(separator: " or "))."
        case .boolean: return value == "true" || value == "false" ? nil : "\(name) must be true or false."
        case .choice(let words):
            return words.contains(value) ? nil : "\(name) must be one of \(words.joined(separator: ", "))."
        case .choices(let words):
            let wrong = Self.parts(value).first { !words.contains($0) }
            return wrong == nil
                ? nil : "\(name) takes \(words.joined(separator: ", ")), separated by commas."
        }
    }

    /// Digits with or without a minus: nothing else is an integer.
    static func integer(_ text: String) -> Int? {
        text.utf8.drop { $0 == UInt8(ascii: "-") }.allSatisfy { (0x30...0x39).contains($0) }
            ? Int(text) : nil
    }

    static func parts(_ text: String) -> [String] {
        text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).map { String($0) ?? "" }
    }
}
