/// Replaces `${NAME}` inside a value by what the environment holds under NAME, and `$${` by `${`.
struct EnvironmentExpansion: Sendable {
    /// Why a value cannot be expanded.
    struct Refusal: Error, Equatable {
        /// A sentence.
        let message: String
    }

    let environment: [String: String]

    func expand(_ text: String) throws(Refusal) -> String {
        var result = ""
        var rest = text[...]
        while let dollar = rest.firstIndex(of: "$") {
            result += rest[..<dollar]
            rest = rest[dollar...]
            if rest.hasPrefix("$${") {
                result += "${"
                rest = rest.dropFirst(3)
            } else if rest.hasPrefix("${") {
                guard let end = rest.firstIndex(of: "}") else { throw Refusal(message: "\"${\" has no \"}\" after it.") }
                let name = String(rest[..<end].dropFirst(2))
                guard let value = environment[name] else {
                    throw Refusal(message: "the environment has no variable \(name.quoted).")
                }
                result += value
                rest = rest[rest.index(after: end)...]
            } else {
                result += "$"
                rest = rest.dropFirst()
            }
        }
        result += rest
        if LineReader.complaint(about: result) != nil {
            throw Refusal(message: "a variable of the environment holds a control character.")
        }
        return result
    }
}
