internal import Platform

/// Where a server is: `nats://host:4222`, `tls://host`, `host:port`, with `user:password@` or `token@` in front of the
/// host if wanted.
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
        if let mark = text.firstPlace(of: "://") {
            switch text[..<mark.lowerBound] {
            case "nats": break
            case "tls": usesTLS = true
            default: throw ServerAddressError("\(Self.shown(text)) begins with neither nats:// nor tls://")
            }
            rest = text[mark.upperBound...]
        }
        if rest.last == "/" { rest = rest.dropLast() }
        var login: NATSLogin?
        if let at = rest.lastIndex(of: "@") {
            login = try Self.login(rest[..<at])
            rest = rest[rest.index(after: at)...]
        }
        let (host, port) = try Self.hostAndPort(rest)
        self.init(host: host, port: port, usesTLS: usesTLS, login: login)
    }

    /// Without the login, which is nobody's business.
    private static func shown(_ text: String) -> Substring {
        text.lastIndex(of: "@").map { text[text.index(after: $0)...] } ?? text[...]
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

    private static func hostAndPort(_ text: Substring) throws(ServerAddressError) -> (String, UInt16) {
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

/// What a session wants done, or has to tell.
public enum NATSEffect: Sendable, Equatable {
    /// Connect to this server; `connected` or `dialFailed` has to follow.
    case dial(ServerAddress)
    /// Put TLS on the connection. What is sent after that goes through it.
    case secure(ServerAddress)
    /// Let the connection go, or stop dialling.
    case hangUp
    /// Messages flow from now on. What was subscribed to before is subscribed to again.
    case ready(ServerInfo)
    /// They do not any more, or a server was tried in vain; the next is tried by itself.
    case away(reason: String)
    /// A server has refused something that it was asked, in its words; the connection goes on.
    case complaint(String)
    /// What has become of the request with this number.
    case answered(UInt64, NATSAnswer)
}

/// What became of a request.
public enum NATSAnswer: Sendable, Equatable {
    case message(ReceivedMessage)
    /// Nobody listens there.
    case nobody
    /// No answer in time: whether it was heard is unknown.
    case late
    /// The connection was lost: whether it was heard is unknown.
    case lost
    /// It was not sent, for this reason.
    case unsent(NATSRefusal)
}

/// Why a message was not taken.
public enum NATSRefusal: Error, Equatable, Sendable {
    /// There is no connection.
    case away
    /// More than `bytesMax` bytes.
    case tooLarge(bytesMax: Int)
    /// The server does not read as fast as one writes.
    case full
}

/// The servers that are known, and which is tried when.
struct ServerPool {
    private(set) var servers: [ServerAddress]
    private var next = 0
    /// Attempts that have failed since one has not.
    private var failedCount = 0
    private var lastPause = Limits.pauseMillisecondsMin

    /// - Parameter servers: one at least, in the order in which they are tried: the first one is mostly the nearest.
    init(_ servers: [ServerAddress]) { self.servers = servers }

    /// The server whose turn it is.
    mutating func takeNext() -> ServerAddress {
        let server = servers[next % servers.count]
        next = (next + 1) % servers.count
        return server
    }

    /// The server whose turn it was has it once more.
    mutating func turnBack() { next = (next + servers.count - 1) % servers.count }

    /// A server has told of others. They are spoken to as it was; addresses without a name show a certificate for its
    /// name.
    mutating func learn(_ addresses: [String], from teller: ServerAddress, usesTLS: Bool) {
        for text in addresses where servers.count < Limits.serversMax {
            guard let told = try? ServerAddress(reading: text) else { continue }
            if servers.contains(where: { $0.host == told.host && $0.port == told.port }) { continue }
            servers.append(
                ServerAddress(
                    host: told.host, port: told.port, usesTLS: usesTLS, login: teller.login,
                    certificateName: told.isNumeric ? teller.certificateName : told.host))
        }
    }

    mutating func succeeded() { (failedCount, lastPause) = (0, Limits.pauseMillisecondsMin) }

    /// An attempt has failed. Returns how long to wait before the next, in milliseconds: 0 until every server was
    /// tried, then a pause of decorrelated jitter, so that nodes that lost one server do not come back together.
    mutating func failed(random: inout some RandomNumberGenerator) -> UInt64 {
        failedCount += 1
        guard failedCount >= servers.count else { return 0 }
        failedCount = 0
        let high = min(Limits.pauseMillisecondsMax, max(Limits.pauseMillisecondsMin + 1, lastPause * 3))
        lastPause = UInt64.random(in: Limits.pauseMillisecondsMin...high, using: &random)
        return lastPause
    }
}

/// How one logs in.
public enum NATSLogin: Sendable, Hashable {
    case user(String, password: String)
    case token(String)
    /// A key of Ed25519: the server knows its public half, and gets a signature.
    case key(NKey)
}

/// What a session is to be.
public struct NATSSettings: Sendable {
    /// The servers to begin with, one at least.
    public var servers: [ServerAddress]
    /// The name that servers show in their lists of connections.
    public var name: String
    /// For servers whose address has no login; nil for none.
    public var login: NATSLogin?
    /// Whether TLS is used with servers that do not ask for it.
    public var requiresTLS = false
    /// Older servers are refused.
    public var versionMin: ServerVersion
    /// Of the program, as servers show it.
    public var programVersion: String

    public init(servers: [ServerAddress], name: String, versionMin: ServerVersion, programVersion: String) {
        (self.servers, self.name) = (servers, name)
        (self.versionMin, self.programVersion) = (versionMin, programVersion)
    }
}

/// A private key of Ed25519 as NATS writes it: a seed, in Base32, of a user.
public struct NKey: Sendable, Hashable {
    private let seed: [UInt8]
    /// What the server knows it by: `U…`.
    public let publicKey: String

    /// Reads a seed: `SU` and 56 characters more. Throws what is wrong with it.
    public init(seed text: String) throws(NKeyError) {
        guard let bytes = Base32.decode(text.utf8), bytes.count == 36 else {
            throw NKeyError(description: "a user's seed is 58 characters of Base32: SU…")
        }
        let checksum = UInt16(bytes[34]) | UInt16(bytes[35]) << 8
        guard checksum == Self.checksum(bytes[..<34]) else { throw NKeyError(description: "the seed's checksum is wrong") }
        // Five bits that say what it is, and five that say whose.
        guard bytes[0] & 0xF8 == Self.seedPrefix, (bytes[0] & 7) << 5 | bytes[1] >> 3 == Self.userPrefix else {
            throw NKeyError(description: "it is not a user's seed, which begins with SU")
        }
        seed = Array(bytes[2..<34])
        guard let key = Ed25519.publicKey(seed: seed) else { throw NKeyError(description: "OpenSSL makes no key of the seed") }
        let named = [Self.userPrefix] + key
        let sum = Self.checksum(named[...])
        publicKey = Base32.encode(named + [UInt8(truncatingIfNeeded: sum), UInt8(truncatingIfNeeded: sum >> 8)])
    }

    /// The signature of a server's nonce; nil if OpenSSL has no memory.
    func signature(of nonce: String) -> [UInt8]? { Ed25519.signature(of: Array(nonce.utf8), seed: seed) }

    private static let seedPrefix: UInt8 = 18 << 3
    private static let userPrefix: UInt8 = 20 << 3

    /// CRC-16 of XMODEM.
    private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt16 {
        bytes.reduce(0) { sum, byte in
            (0..<8).reduce(sum ^ UInt16(byte) << 8) { sum, _ in sum & 0x8000 == 0 ? sum << 1 : sum << 1 ^ 0x1021 }
        }
    }
}

/// The error of a seed. It does not tell the seed.
public struct NKeyError: Error, Equatable, CustomStringConvertible {
    public let description: String
}

/// RFC 4648's Base32 without padding.
private enum Base32 {
    static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        var (pending, bits): (UInt32, UInt32) = (0, 0)
        for byte in bytes {
            pending = pending << 8 | UInt32(byte)
            bits += 8
            while bits >= 5 {
                bits -= 5
                text.append(alphabet[Int(pending >> bits & 31)])
            }
        }
        if bits > 0 { text.append(alphabet[Int(pending << (5 - bits) & 31)]) }
        return String(decoding: text, as: UTF8.self)
    }

    static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var (pending, bits): (UInt32, UInt32) = (0, 0)
        for character in text {
            guard let value = alphabet.firstIndex(of: character) else { return nil }
            pending = pending << 5 | UInt32(value)
            bits += 5
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: pending >> bits))
            }
        }
        return pending & (1 << bits - 1) == 0 ? bytes : nil
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)
}

extension Limits {
    /// The shortest pause before all servers are tried again, in milliseconds.
    static let pauseMillisecondsMin: UInt64 = 100

    /// The longest one.
    static let pauseMillisecondsMax: UInt64 = 5_000
}
