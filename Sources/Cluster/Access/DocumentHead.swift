/// The entry of a document that all nodes share: what the last change was, and the document or the names of its parts.
///
///     martlet 1 text CHANGE EARLIER… LF document
///     martlet 1 parts CHANGE EARLIER… LF name LF name LF …
///
/// Invariant: names and changes are printable ASCII without blanks.
struct DocumentHead: Equatable, Sendable {
    enum Content: Equatable, Sendable {
        case text([UInt8])
        case parts([String])
    }

    /// What was changed last, by a name that no other change has.
    let change: String
    /// What was changed before that, newest first.
    let earlier: [String]
    let content: Content

    init(change: String, after before: DocumentHead?, content: Content) {
        self.change = change
        earlier = before.map { Array(([$0.change] + $0.earlier).prefix(Limits.documentEarlierChanges)) } ?? []
        self.content = content
    }

    /// Nil for what is no such entry, or one of a later version.
    init?(reading bytes: [UInt8]) {
        guard let end = bytes.firstIndex(of: Self.lineBreak) else { return nil }
        let words = bytes[..<end].split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        guard words.count >= 4, words[0] == Self.magic, words[1] == Self.version, words.allSatisfy({ Self.isName($0) }) else {
            return nil
        }
        change = words[3]
        earlier = Array(words.dropFirst(4).prefix(Limits.documentEarlierChanges))
        let rest = bytes[(end + 1)...]
        switch words[2] {
        case "text": content = .text(Array(rest))
        case "parts":
            let names = rest.split(separator: Self.lineBreak).map { String(decoding: $0, as: UTF8.self) }
            guard names.count <= Limits.documentPartsMax, names.allSatisfy({ Self.isName($0) }) else { return nil }
            content = .parts(names)
        default: return nil
        }
    }

    var bytes: [UInt8] {
        let kind =
            switch content {
            case .text: "text"
            case .parts: "parts"
            }
        var bytes = Array(([Self.magic, Self.version, kind, change] + earlier).joined(separator: " ").utf8)
        bytes.append(Self.lineBreak)
        switch content {
        case .text(let text): bytes += text
        case .parts(let names): for name in names { bytes += Array(name.utf8) + [Self.lineBreak] }
        }
        return bytes
    }

    /// Whether this is what a change has led to, by itself or with others behind it.
    func includes(_ change: String) -> Bool { self.change == change || earlier.contains(change) }

    private static func isName(_ text: String) -> Bool { !text.isEmpty && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } }

    private static let magic = "martlet"
    private static let version = "1"
    private static let lineBreak = UInt8(ascii: "\n")
}
