/// Texts in texts. The standard library has this beside its regular expressions, which would come with it: a megabyte that nothing here
/// needs. `house` in Package.swift keeps them out.
extension StringProtocol {
    /// Where the text stands first; nil if it does not. O(count * text.count).
    public func firstPlace(of text: String) -> Range<Index>? {
        let searched = utf8
        let sought = text.utf8
        var start = searched.startIndex
        while true {
            var here = start
            var wanted = sought.startIndex
            while wanted != sought.endIndex, here != searched.endIndex, searched[here] == sought[wanted] {
                searched.formIndex(after: &here)
                sought.formIndex(after: &wanted)
            }
            if wanted == sought.endIndex { return start..<here }
            if here == searched.endIndex { return nil }
            searched.formIndex(after: &start)
        }
    }

    /// Whether the text stands in it, byte for byte.
    public func holds(_ text: String) -> Bool { firstPlace(of: text) != nil }

    /// With another text in place of this one, wherever it stands.
    public func replacing(every text: String, by other: String) -> String {
        precondition(!text.isEmpty)
        var result = ""
        var rest = self[...]
        while let place = rest.firstPlace(of: text) {
            result += rest[..<place.lowerBound]
            result += other
            rest = rest[place.upperBound...]
        }
        return result + rest
    }
}
