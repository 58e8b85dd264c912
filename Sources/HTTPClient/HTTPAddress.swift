internal import HTTP
internal import Platform

/// Where a server of HTTP is, and what is asked there: `https://users.example.org:8443/mqtt/login`.
public struct HTTPAddress: Sendable, Hashable, CustomStringConvertible {
    /// A name or an address, an IPv6 one without its brackets.
    public let host: String
    public let port: UInt16
    public let usesTLS: Bool
    /// Path and query, percent-encoded; at least `/`.
    public let target: String

    public init(host: String, port: UInt16, usesTLS: Bool = false, target: String = "/") {
        (self.host, self.port, self.usesTLS, self.target) = (host, port, usesTLS, target)
    }

    /// Reads a URL. Throws what is wrong with it, and what would be right.
    public init(url: String) throws(HTTPAddressError) {
        let rest: Substring
        if url.lowercased().hasPrefix("https://") {
            (usesTLS, rest) = (true, url.dropFirst(8))
        } else if url.lowercased().hasPrefix("http://") {
            (usesTLS, rest) = (false, url.dropFirst(7))
        } else {
            throw HTTPAddressError("begins with neither http:// nor https://")
        }
        let end = rest.firstIndex { $0 == "/" || $0 == "?" || $0 == "#" } ?? rest.endIndex
        let place = rest[..<end]
        guard !place.contains("@") else {
            throw HTTPAddressError("holds a user name or a password, which every log of the URL would show")
        }
        let path = rest[end...].prefix { $0 != "#" }
        target = path.hasPrefix("/") ? String(path) : "/\(path)"
        guard target.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw HTTPAddressError("holds a blank or a letter beyond ASCII, which have to be percent-encoded")
        }
        var name = place
        var digits: Substring?
        if place.first == "[" {
            guard let close = place.firstIndex(of: "]") else { throw HTTPAddressError("has no ] behind its address") }
            name = place[place.index(after: place.startIndex)..<close]
            let behind = place[place.index(after: close)...]
            guard behind.isEmpty || behind.first == ":" else { throw HTTPAddressError("has no port behind its address") }
            if !behind.isEmpty { digits = behind.dropFirst() }
        } else if let colon = place.firstIndex(of: ":") {
            (name, digits) = (place[..<colon], place[place.index(after: colon)...])
        }
        guard !name.isEmpty, name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { throw HTTPAddressError("names no host") }
        host = String(name)
        guard let digits else {
            port = usesTLS ? 443 : 80
            return
        }
        guard let number = UInt16(digits), number > 0, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            throw HTTPAddressError("has \"\(digits)\" for a port; expected 1 to 65535")
        }
        port = number
    }

    /// As the field Host has it.
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (usesTLS ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// Without its query, which may hold a secret.
    public var description: String { "\(usesTLS ? "https" : "http")://\(authority)\(target.prefix { $0 != "?" })" }
}

/// Why a text is no address of a server, to follow the text.
public struct HTTPAddressError: Error, Sendable, Equatable, CustomStringConvertible {
    public let description: String

    init(_ description: String) { self.description = description }
}
