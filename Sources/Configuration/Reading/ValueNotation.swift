import Platform

/// Finds in a line what belongs to the notation of other programs' files: equals signs, quotes and comments, which mosquitto would take for a
/// part of the value.
struct ValueNotation {
    /// Without the quotes of a path.
    private(set) var value: String
    /// Why it cannot be meant so, as a sentence.
    private(set) var error: String?
    /// Sentences.
    private(set) var warnings: [String] = []

    /// - Parameters:
    ///   - value: what follows the option's name.
    ///   - option: the row of that name.
    ///   - name: the option as the line has it.
    init(_ value: String, of option: ConfigurationOption, named name: String) {
        self.value = value
        let isPath = Self.pathShapes.contains(option.shape)
        // Names and passwords may be anything.
        let isText = ["TEXT", "NAME"].contains(option.shape)
        let isOther = ["VALUE", "FORMAT", "LIST"].contains(option.shape) || option.name == "topic"
        if value.hasPrefix("="), !isText, !isOther {
            let rest = value.dropFirst().trimmed
            error = "there is no = between an option and its value. Write: \(name) \(rest.isEmpty ? option.shape : rest)."
            return
        }
        if let inner = Self.withoutQuotes(value) {
            if isPath {
                self.value = inner
                warnings.append("the quotes are taken off; mosquitto would take them for a part of the path.")
            } else if isText {
                warnings.append("the quotes are a part of the value; write it without them if they are not meant.")
            }
        }
        // A comment may stand behind the name of a bridge.
        guard option.name != "connection" else { return }
        if isPath && value.holds(" #") || isText && value.holds(" # ") {
            warnings.append("what follows # is a part of the value; a comment has a line of its own.")
        }
    }

    private static let pathShapes = ["PATH", "DIRECTORY"]

    /// What stands between quotes of one kind; nil where there are none, or nothing between them.
    static func withoutQuotes(_ text: String) -> String? {
        guard let first = text.first, first == "\"" || first == "'", text.count > 2, text.last == first else { return nil }
        return String(text.dropFirst().dropLast())
    }

    /// What to type instead of a value in quotes, as a sentence with a blank before it; empty where there are none.
    static func advice(onQuotesAround text: String, of name: String) -> String {
        withoutQuotes(text).map { " Write it without quotes: \(name) \($0)." } ?? ""
    }

    /// What to type instead of a name that has taken a sign with it, as in `port=1883` and `port: 1883`; nil for any other.
    static func advice(onName name: String, value: String) -> String? {
        guard let sign = name.firstIndex(where: { $0 == "=" || $0 == ":" }) else { return nil }
        let option = String(name[..<sign])
        guard let row = ConfigurationOption.named(option) else { return nil }
        let rest = "\(name[name.index(after: sign)...]) \(value)".trimmed
        let isShown = !rest.isEmpty && !ConfigurationOption.isSecret(row.identity) && row.shape != "TEXT"
        return "A blank is between an option and its value. Write: \(option) \(isShown ? rest : row.shape)."
    }
}

extension Bool {
    /// The first word of a value as a boolean; nil if it is none.
    init?(wordOf value: String) {
        guard let isOn = ValueSyntax<Bool>.boolean.parse(value.words.first ?? "") else { return nil }
        self = isOn
    }
}
