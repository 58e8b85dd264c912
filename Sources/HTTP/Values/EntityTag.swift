/// A name for one state of what a target gives, RFC 9110, section 8.8.3.
public struct EntityTag: Sendable, Equatable {
    /// Without its quotes.
    public let opaque: String
    public let isWeak: Bool

    /// `opaque`: visible bytes without a double quote.
    public init(_ opaque: String, isWeak: Bool = false) {
        self.opaque = opaque
        self.isWeak = isWeak
    }

    /// As a field has it: `"abc"` or `W/"abc"`.
    public var text: String { (isWeak ? "W/" : "") + "\"\(opaque)\"" }

    /// Whether a field If-None-Match names it, compared weakly as RFC 9110, section 13.1.2, says; `*` names all.
    public func isNamed(in ifNoneMatch: String) -> Bool {
        HTTPText.members(of: ifNoneMatch).contains { member in
            member == "*" || member == "\"\(opaque)\"" || member == "W/\"\(opaque)\""
        }
    }
}

extension HTTPRequest {
    /// Whether the peer has what it asks for already: by tag if it names one, else by time, RFC 9110, section 13.2.2. Of GET and HEAD only.
    ///
    /// `modified`: when it changed last, in seconds since 1970.
    public func hasCurrent(_ tag: EntityTag?, modified: Int64? = nil) -> Bool {
        guard method == .get || method == .head else { return false }
        if let tags = fields["If-None-Match"] { return tag?.isNamed(in: tags) ?? false }
        guard let modified, let since = fields["If-Modified-Since"].flatMap({ HTTPDate.parse($0) }) else { return false }
        return modified <= since
    }
}
