/// Where a server is: `nats://host:4222`, `tls://host`, `host:port`, with `user:password@` or `token@` in front of the host if wanted.
public struct ServerAddress: Sendable, Hashable, CustomStringConvertible {
    public let host: String
    public let port: UInt16
    /// Whether TLS is used even if the server does not ask for it.
    public let usesTLS: Bool
    /// What stands before the `@`, in place of the settings' login.
    public let login: NATSLogin?
    /// The name or address that its certificate has to be for.
    public let certificateName: String

    /// The port that servers have if nothing else is said.
    public static let usualPort: UInt16 = 4222

    public init(
        host: String, port: UInt16 = usualPort, usesTLS: Bool = false, login: NATSLogin? = nil, certificateName: String? = nil
    ) {
        (self.host, self.port, self.usesTLS, self.login) = (host, port, usesTLS, login)
        self.certificateName = certificateName ?? host
    }

    /// Whether the host is a numeric address and no name.
    var isNumeric: Bool { host.contains(":") || host.utf8.allSatisfy { $0 == UInt8(ascii: ".") || (0x30...0x39).contains($0) } }

    /// Reads one address. Throws what is wrong with it, and what would be right.
    public init(reading text: String) throws(ServerAddressError) {
        var rest = text[...]
        var usesTLS = false
        if let mark = text.range(of: "://") {
            switch text[..<mark.lowerBound] {
            case "nats": break
            case "tls": usesTLS = true
            default: throw ServerAddressError("\(text) begins with neither nats:// nor tls://")
            }
            rest = text[mark.upperBound...]
        }
        if rest.last == "/" { rest = rest.dropLast() }
        var login: NATSLogin?
        if let at = rest.lastIndex(of: "@") {
            login = try Self.login(rest[..<at])
            rest = rest[rest.index(after: at)...]
        }
        let (host, port) = try Self.place(rest)
        self.init(host: host, port: port, usesTLS: usesTLS, login: login)
    }

    private static func login(_ text: Substring) throws(ServerAddressError) -> NATSLogin {
        func decoded(_ part: Substring) throws(ServerAddressError) -> String {
            guard let value = percentDecoded(part), !value.isEmpty else {
                throw ServerAddressError("the login before the @ is empty, or has a % without two hexadecimal digits behind it")
            }
            return value
        }
        guard let colon = text.firstIndex(of: ":") else { return .token(try decoded(text)) }
        return .user(try decoded(text[..<colon]), password: try decoded(text[text.index(after: colon)...]))
    }

    private static func place(_ text: Substring) throws(ServerAddressError) -> (String, UInt16) {
        var (host, rest) = (text, Substring())
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { throw ServerAddressError("\(text) has no ] behind the address") }
            (host, rest) = (text[text.index(after: text.startIndex)..<end], text[text.index(after: end)...])
        } else if let colon = text.lastIndex(of: ":") {
            (host, rest) = (text[..<colon], text[colon...])
        }
        let isPrintable = host.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        guard !host.isEmpty, isPrintable, !host.contains(where: { "/[]".contains($0) }) else {
            throw ServerAddressError("\(text) names no host")
        }
        if text.first != "[", host.contains(":") {
            throw ServerAddressError("\(text): an IPv6 address needs brackets, as in nats://[::1]:4222")
        }
        guard !rest.isEmpty else { return (String(host), usualPort) }
        guard rest.first == ":", let port = UInt16(rest.dropFirst()), port > 0 else {
            throw ServerAddressError("\(text): a port is a number from 1 to 65535, behind a colon")
        }
        return (String(host), port)
    }

    private static func percentDecoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// Without the login, which is nobody's business.
    public var description: String {
        "\(usesTLS ? "tls" : "nats")://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }
}

/// The error of a server's address.
public struct ServerAddressError: Error, Equatable, CustomStringConvertible {
    public let description: String

    package init(_ description: String) { self.description = description }
}

extension String {
    /// The first place of a text; the standard library has none without Foundation.
    fileprivate func range(of text: String) -> Range<String.Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}
