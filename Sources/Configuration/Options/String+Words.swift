extension StringProtocol {
    /// The words between blanks and tabs.
    var words: [String] {
        split(whereSeparator: { $0 == " " || $0 == "\t" }).map { String($0) }
    }

    /// The text without the blanks and tabs at its ends.
    var trimmed: String {
        var text = self[...]
        while let first = text.first, first == " " || first == "\t" { text = text.dropFirst() }
        while let last = text.last, last == " " || last == "\t" { text = text.dropLast() }
        return String(text)
    }
}

extension String {
    /// The text between double quotes, shortened if it is long: for a message.
    var quoted: String {
        let longest = 80
        return count > longest ? "\"\(prefix(longest))…\"" : "\"\(self)\""
    }
}
