/// A number with what it counts, to stand in a sentence: `1 session`, `2 sessions`.
enum CountedNoun {
    static func text(_ count: some BinaryInteger, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
}
