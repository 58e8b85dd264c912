/// The host that a request is for, or that a page comes from: a name or an address.
public struct HTTPHost: Sendable, Equatable {
    /// In lower case and without a port; an IPv6 address in its brackets.
    public let name: String

    /// From a host as requests name it, with or without a port.
    public init(_ text: String) {
        let lowered = String(decoding: text.utf8.map(HTTPText.lowercased), as: UTF8.self)
        if lowered.utf8.first == UInt8(ascii: "["), let end = lowered.firstIndex(of: "]") {
            name = String(lowered[...end])
        } else {
            name = String(lowered.prefix { $0 != ":" })
        }
    }

    /// From what a browser sends as Origin, RFC 6454, section 6.1; nil where that names no host, as `null` does.
    public init?(origin: String) {
        guard let scheme = ["http://", "https://"].first(where: { HTTPText.isSame(origin.prefix($0.utf8.count), $0) }) else {
            return nil
        }
        self.init(String(origin.dropFirst(scheme.utf8.count)))
        if name.isEmpty { return nil }
    }

    /// Whether it is an address, which nobody can have point to another machine than its own.
    public var isAddress: Bool { name.utf8.first == UInt8(ascii: "[") || isIPv4 }

    /// Whether it is this machine for whoever says it.
    public var isLoopback: Bool { name == "localhost" || name == "[::1]" || (isIPv4 && name.hasPrefix("127.")) }

    private var isIPv4: Bool {
        let parts = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { $0.count <= 3 && HTTPText.number($0).map { $0 <= 255 } ?? false }
    }
}
