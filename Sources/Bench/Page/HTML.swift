/// Pieces of a page.
enum HTML {
    /// Text as it may stand in an element or in a quoted attribute.
    static func text(_ text: String) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            case "\u{0}"..."\u{8}", "\u{b}"..."\u{1f}", "\u{7f}"..."\u{9f}": escaped += "\u{fffd}"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// A group is a row for each of its figures.
    private static func rows(_ entry: BenchResult.Entry) -> [BenchResult.Entry] {
        guard case .group(let parts) = entry.figure else { return [entry] }
        return parts.map {
            BenchResult.Entry(name: $0.name, label: "\(entry.label), \($0.label)", unit: $0.unit, figure: $0.figure)
        }
    }

    /// Figures as a table of two columns, under a caption.
    static func table(_ caption: String, _ entries: [BenchResult.Entry]) -> String {
        let rows = entries.flatMap(rows).map { entry in
            let look = entry.label.hasPrefix(" ") ? " class=\"part-of\"" : ""
            let value = text(entry.unit.text(entry.figure))
            return "<tr><th scope=\"row\"\(look)>\(text(entry.label))</th><td>\(value)</td></tr>"
        }
        return "<table><caption>\(text(caption))</caption><tbody>\n\(rows.joined(separator: "\n"))\n</tbody></table>\n"
    }
}
