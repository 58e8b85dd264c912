/// What a peer likes, in the fields Accept and Accept-Encoding: words with weights, RFC 9110, section 12.4.2.
public struct HTTPPreference: Sendable, Equatable {
    /// Words in lower case with their parameters but the weight, and weights of 0 (not acceptable) to 1000.
    public let members: [(word: String, weight: Int)]

    /// Reads a field's value. A weight that is none counts as 1000.
    public init(_ value: String) {
        members = HTTPText.members(of: value).map { member in
            var weight = 1000
            var words: [String] = []
            for part in HTTPText.parts(of: member, at: UInt8(ascii: ";")) {
                let text = part.lowercased()
                if text.hasPrefix("q=") {
                    weight = Self.weight(text.dropFirst(2)) ?? 1000
                } else {
                    words.append(text)
                }
            }
            return (words.joined(separator: ";"), weight)
        }
    }

    /// The weight of a content coding: 0 when the peer does not take it. What is not named, by itself or as `*`, is not taken.
    public func weight(ofCoding coding: String) -> Int {
        (members.first { $0.word == coding } ?? members.first { $0.word == "*" })?.weight ?? 0
    }

    /// The weight of a media type without parameters, such as `text/html`; what a member with parameters says is not looked at.
    public func weight(ofType type: String) -> Int {
        let family = type.prefix { $0 != "/" } + "/*"
        for range in [type, String(family), "*/*"] {
            if let member = members.first(where: { $0.word.prefix { $0 != ";" } == range }) { return member.weight }
        }
        return 0
    }

    public static func == (left: HTTPPreference, right: HTTPPreference) -> Bool {
        left.members.elementsEqual(right.members) { $0 == $1 }
    }

    /// `0`, `1`, `0.5`, `0.123`.
    private static func weight(_ text: Substring) -> Int? {
        let bytes = Array(text.utf8)
        guard let first = bytes.first, HTTPText.isDigit(first), bytes.count <= 5 else { return nil }
        guard bytes.count > 1 else { return first == UInt8(ascii: "0") ? 0 : first == UInt8(ascii: "1") ? 1000 : nil }
        guard bytes[1] == UInt8(ascii: "."), bytes.dropFirst(2).allSatisfy(HTTPText.isDigit) else { return nil }
        let digits = bytes.dropFirst(2) + Array(repeating: UInt8(ascii: "0"), count: 5 - bytes.count)
        return min(1000, Int(first - UInt8(ascii: "0")) * 1000 + (HTTPText.number(digits) ?? 0))
    }
}
