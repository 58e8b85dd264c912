/// A host that a request came through, as the proxy in front of it says, RFC 7239, section 6.
public enum ForwardedNode: Sendable, Equatable {
    /// What should be an address, without its port and brackets.
    case host(String)
    /// The proxy does not know it, or does not tell.
    case hidden
    /// The field is not what it has to be.
    case malformed

    /// From the text of a node: an address with or without a port, `unknown`, or a name of the proxy's own (`_gazonk`).
    init(_ text: String) {
        if HTTPText.isSame(text, "unknown") || text.utf8.first == UInt8(ascii: "_") {
            self = .hidden
        } else if text.utf8.first == UInt8(ascii: "["), let end = text.firstIndex(of: "]") {
            let rest = text[text.index(after: end)...]
            self = rest.isEmpty || rest.first == ":" ? Self.host(text[..<end].dropFirst()) : .malformed
        } else if let colon = text.firstIndex(of: ":"), colon == text.lastIndex(of: ":") {
            self = Self.host(text[..<colon])
        } else {
            self = Self.host(text[...])
        }
    }

    private static func host(_ text: Substring) -> ForwardedNode { text.isEmpty ? .malformed : .host(String(text)) }

    /// One element of the field Forwarded: pairs with semicolons between, of which `for` names the node.
    fileprivate init(element: String) {
        var node = ForwardedNode.hidden
        var isNamed = false
        for pair in HTTPText.parts(of: element, at: UInt8(ascii: ";")) where !pair.isEmpty {
            guard let equals = pair.firstIndex(of: "=") else {
                self = .malformed
                return
            }
            // Every pair is judged: a quote that is left open anywhere would swallow what the proxy has added behind it.
            guard !pair[..<equals].contains("\""), let value = Self.value(pair[pair.index(after: equals)...]) else {
                self = .malformed
                return
            }
            guard HTTPText.isSame(pair[..<equals], "for") else { continue }
            guard !isNamed else {
                self = .malformed
                return
            }
            isNamed = true
            node = ForwardedNode(value)
        }
        self = node
    }

    /// A token, or what stands in quotes. Nothing that a node may be has a quote or a backslash in it.
    private static func value(_ text: Substring) -> String? {
        var text = text
        if text.utf8.first == UInt8(ascii: "\"") {
            guard text.utf8.count >= 2, text.utf8.last == UInt8(ascii: "\"") else { return nil }
            text = text.dropFirst().dropLast()
        }
        return text.contains { $0 == "\"" || $0 == "\\" } ? nil : String(text)
    }
}

extension HTTPFields {
    /// The nodes that the field Forwarded names, from the client's side to ours.
    public var forwardedNodes: [ForwardedNode] { list("Forwarded").map { ForwardedNode(element: $0) } }

    /// The nodes of a field that lists them without more, as X-Forwarded-For does.
    public func nodes(of name: String) -> [ForwardedNode] {
        values(of: name).filter { !$0.isEmpty }.flatMap {
            $0.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
        }.map {
            ForwardedNode(HTTPText.trimmed(String($0) ?? ""))
        }
    }
}
