public import MQTTCodec

/// What stands before every topic of a listener's clients inside the broker, and never on their wire: a text, in which
/// `%u`, `%c` and `%{client_attrs.NAME}` stand for the client. `mount_point`
///
///     tenants/     tenants/%u/     floors/%{client_attrs.floor}/devices/%c/
public struct MountPoint: Sendable, Hashable {
    private enum Part: Sendable, Hashable {
        case text([UInt8])
        case userName
        case clientIdentifier
        case attribute(String)

        var name: String {
            switch self {
            case .text: ""
            case .userName: "%u"
            case .clientIdentifier: "%c"
            case .attribute(let name): "%{client_attrs.\(name)}"
            }
        }
    }

    private var parts: [Part] = []

    /// As it is written.
    public let text: String

    /// No mount point.
    public init() { text = "" }

    /// Reads one that may come from anybody; nil for one that is empty, or holds a wildcard or what stands for nothing.
    public init?(checked text: String) {
        self.init(text)
        let isLegal = parts.allSatisfy { part in
            guard case .text(let bytes) = part else { return true }
            let forbidden = [UInt8(ascii: "+"), UInt8(ascii: "#"), 0]
            return !bytes.contains { forbidden.contains($0) }
                && !zip(bytes, bytes.dropFirst()).contains { $0 == UInt8(ascii: "%") && $1 == UInt8(ascii: "{") }
        }
        guard !isEmpty, isLegal, text.utf8.count <= 65_535 else { return nil }
    }

    /// Reads one; what begins as a place for the client and is none stands for itself.
    public init(_ text: String) {
        self.text = text
        var literal: [UInt8] = []
        var rest = Array(text.utf8)[...]
        let start = Array("%{client_attrs.".utf8)
        func place() -> (Part, Int)? {
            if rest.starts(with: "%u".utf8) { return (.userName, 2) }
            if rest.starts(with: "%c".utf8) { return (.clientIdentifier, 2) }
            guard rest.starts(with: start), let end = rest.firstIndex(of: UInt8(ascii: "}")) else { return nil }
            let name = rest[(rest.startIndex + start.count)..<end]
            return name.isEmpty ? nil : (.attribute(String(decoding: name, as: UTF8.self)), end + 1 - rest.startIndex)
        }
        while let byte = rest.first {
            if let (part, count) = place() {
                if !literal.isEmpty { parts.append(.text(literal)) }
                literal = []
                parts.append(part)
                rest = rest.dropFirst(count)
            } else {
                literal.append(byte)
                rest = rest.dropFirst()
            }
        }
        if !literal.isEmpty { parts.append(.text(literal)) }
    }

    public var isEmpty: Bool { parts.isEmpty }

    /// The same for every client; nil where it depends on who it is.
    package var fixed: [UInt8]? {
        switch parts.first {
        case nil: []
        case .text(let text)? where parts.count == 1: text
        default: nil
        }
    }

    /// Why a client has none, as a part of a sentence.
    public struct Refusal: Error, Sendable {
        public let words: String
    }

    /// What it is for a client. A value that would reach into what is another client's is refused.
    public func prefix(
        userName: EncodedString?, clientIdentifier: EncodedString, attributes: [(name: String, value: String)]
    ) throws(Refusal) -> [UInt8] {
        var prefix: [UInt8] = []
        for part in parts {
            let value: [UInt8]?
            switch part {
            case .text(let text):
                prefix += text
                continue
            case .userName: value = userName?.bytes
            case .clientIdentifier: value = clientIdentifier.bytes
            case .attribute(let name): value = attributes.first { $0.name == name }.map { Array($0.value.utf8) }
            }
            guard let value, !value.isEmpty else {
                throw Refusal(words: "the mount point asks for \(part.name), and the client has none")
            }
            let forbidden = [UInt8(ascii: "/"), UInt8(ascii: "+"), UInt8(ascii: "#"), 0]
            guard !value.contains(where: { forbidden.contains($0) }), !prefix.isEmpty || value.first != UInt8(ascii: "$") else {
                throw Refusal(words: "the mount point asks for \(part.name), and the client's cannot be a level of a topic")
            }
            prefix += value
        }
        return prefix
    }
}
