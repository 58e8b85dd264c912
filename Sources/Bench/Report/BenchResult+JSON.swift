extension BenchResult {
    /// The result as one line of JSON.
    public var json: String { Self.object(entries) }

    private static func object(_ entries: [Entry]) -> String {
        "{" + entries.map { "\(quoted($0.name)):\(value($0.figure))" }.joined(separator: ",") + "}"
    }

    private static func value(_ figure: Figure) -> String {
        switch figure {
        case .text(let text): quoted(text)
        case .count(let count): String(count)
        case .number(let number, let digits): number.decimalText(digits: digits)
        case .flag(let isSo): isSo ? "true" : "false"
        case .group(let entries): object(entries)
        case .list(let figures): "[" + figures.map(value).joined(separator: ",") + "]"
        }
    }

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\u{0}"..."\u{1f}":
                let hexadecimal = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - hexadecimal.count) + hexadecimal
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
