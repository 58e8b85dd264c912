internal import Glibc

/// Texts in texts. The standard library has this beside its regular expressions, which would come with it: a megabyte
/// that nothing here needs. `house` in Package.swift keeps them out.
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

/// Finds the name that a misspelt one was probably meant to be.
public enum NearestName {
    /// The candidate that is nearest to `word`, or nil if none is near: a third of the word may be wrong, at most four
    /// letters. Of equally near ones the first; failing that, the first that begins with the word.
    public static func nearest(to word: String, among candidates: [String]) -> String? {
        let letters = Array(word.lowercased().utf8)
        guard !letters.isEmpty, letters.count <= Limits.comparedNameBytesMax else { return nil }
        let distanceMax = min(4, max(1, letters.count / 3))
        var best: (name: String, distance: Int)?
        for candidate in candidates where abs(candidate.utf8.count - letters.count) <= distanceMax {
            let found = distance(letters, Array(candidate.utf8))
            if found < best?.distance ?? Int.max { best = (candidate, found) }
        }
        if let best, best.distance <= distanceMax { return best.name }
        return letters.count < 4 ? nil : candidates.first { $0.hasPrefix(word.lowercased()) }
    }

    /// How many letters have to be inserted, removed, replaced or swapped with their neighbour to get from `a` to `b`.
    /// O(a.count * b.count).
    static func distance(_ a: [UInt8], _ b: [UInt8]) -> Int {
        var beforePrevious = [Int](repeating: 0, count: b.count + 1)
        var previous = Array(0...b.count)
        for i in a.indices {
            var current = [Int](repeating: i + 1, count: b.count + 1)
            for j in b.indices {
                var least = min(previous[j + 1] + 1, current[j] + 1, previous[j] + (a[i] == b[j] ? 0 : 1))
                if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] { least = min(least, beforePrevious[j - 1] + 1) }
                current[j + 1] = least
            }
            beforePrevious = previous
            previous = current
        }
        return previous[b.count]
    }
}

/// What the host is called.
public enum HostName {
    /// The host's name, as far as it is one; `localhost` if it has none.
    public static func text() -> String {
        let bytes = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(HOST_NAME_MAX) + 1) { buffer -> [UInt8] in
            guard let base = buffer.baseAddress, gethostname(base, buffer.count) == 0 else { return [] }
            return buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        }
        return bytes.isEmpty ? "localhost" : String(decoding: bytes, as: UTF8.self)
    }
}

/// The bounds of this module: each with its unit and what happens beyond it.
enum Limits {
    /// Bytes of a wrong name that is compared with the right ones; a longer one gets no suggestion.
    static let comparedNameBytesMax = 64
}
