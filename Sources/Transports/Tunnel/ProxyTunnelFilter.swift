internal import Bytes
internal import Glibc
internal import HTTP

/// Asks a proxy for a connection to a server; when it stands nothing is left of this layer.
///
/// ```
///   http:   CONNECT ──► 2xx
///   socks5: greeting ──► method ──┬─────────────────────► request ──► reply
///                                 └─► login ──► answer ──────▲
/// ```
/// What proxies say has a bound: a head of HTTP that of `Limits`, all that SOCKS says its own. Their time is the
/// caller's to bound.
final class ProxyTunnelFilter: StreamFilter {
    private enum State {
        case awaitsHead
        case awaitsMethod
        case awaitsLogin
        case awaitsReply
        case open
        case refused
    }

    private let tunnel: ProxyTunnel
    private var state: State
    /// What has come of the answer that is awaited.
    private var answer: [UInt8] = []

    init(_ tunnel: ProxyTunnel) {
        self.tunnel = tunnel
        state = tunnel.kind == .http ? .awaitsHead : .awaitsMethod
    }

    var isOpen: Bool { state == .open }
    var isSpent: Bool { isOpen }

    func describe(_ identity: inout PeerIdentity) {}

    func finish(into target: ByteBlock) {}

    /// Nothing of the layers above comes here: while this one is not open they have not begun.
    func encode(_ slices: UnsafeBufferPointer<ByteSlice>, into target: ByteBlock) {
        for slice in slices { target.append(UnsafeRawBufferPointer(start: slice.base, count: slice.count)) }
    }

    func begin(into target: ByteBlock) {
        switch tunnel.kind {
        case .http: target.append(connectRequest.utf8)
        // A login is offered only if there is one; without it too, for proxies that want none.
        case .socks5: target.append(tunnel.user == nil ? [5, 1, Method.none] : [5, 2, Method.none, Method.login])
        }
    }

    private var connectRequest: String {
        let host = tunnel.host.contains(":") ? "[\(tunnel.host)]" : tunnel.host
        var lines = ["CONNECT \(host):\(tunnel.port) HTTP/1.1", "Host: \(host):\(tunnel.port)"]
        if let user = tunnel.user {
            lines.append("Proxy-Authorization: Basic \(Base64.encode(Array("\(user):\(tunnel.password ?? "")".utf8)))")
        }
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    func decode(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, reply: ByteBlock) -> Decoding {
        var rest = source[...]
        while state != .open, state != .refused, let byte = rest.popFirst() {
            answer.append(byte)
            if let flaw = handle(reply) {
                state = .refused
                return Decoding(end: .refused(FilterRefusal(.proxy, flaw)))
            }
        }
        guard state == .open else { return Decoding() }
        target.copyMemory(from: UnsafeRawBufferPointer(rebasing: rest))
        return Decoding(count: rest.count)
    }

    /// Looks at what has come of an answer. Returns why there is no way, as the end of a sentence about the proxy.
    private func handle(_ reply: ByteBlock) -> String? {
        switch state {
        case .awaitsHead: handleHead()
        case .awaitsMethod: handleMethod(reply)
        case .awaitsLogin: handleLogin(reply)
        case .awaitsReply: handleReply()
        case .open, .refused: nil
        }
    }

    // MARK: HTTP

    private func handleHead() -> String? {
        guard answer.count <= Limits.proxyAnswerBytesMax else {
            return "answers with a head of more than \(Limits.proxyAnswerBytesMax) bytes"
        }
        // Something else than HTTP may never have an empty line.
        if !zip(answer, "HTTP/1.".utf8).allSatisfy({ $0 == $1 }) { return "does not answer in HTTP" }
        guard answer.last == UInt8(ascii: "\n"), answer.suffix(4).elementsEqual("\r\n\r\n".utf8) else { return nil }
        guard let head = HTTPResponseHead(answer) else { return "does not answer in HTTP" }
        let code = head.status.rawValue
        // What is informational has the answer behind it; that this ends is for who counts the time.
        if (100..<200).contains(code) {
            answer = []
            return nil
        }
        guard (200..<300).contains(code) else {
            let words = "answers \(code)\(head.reason.isEmpty ? "" : " \(head.reason)")"
            guard code == 407 else { return words }
            return "\(words): \(tunnel.user == nil ? "it wants a user and a password" : "user or password are wrong")"
        }
        state = .open
        return nil
    }

    // MARK: SOCKS

    private enum Method {
        static let none: UInt8 = 0
        static let login: UInt8 = 2
        static let refused: UInt8 = 0xFF
    }

    private func handleMethod(_ reply: ByteBlock) -> String? {
        guard answer[0] == 5 else { return "does not speak SOCKS 5" }
        guard answer.count == 2 else { return nil }
        switch answer[1] {
        case Method.none: request(reply)
        case Method.login:
            guard let user = tunnel.user else { return "wants a user and a password" }
            let (name, password) = (Array(user.utf8.prefix(255)), Array((tunnel.password ?? "").utf8.prefix(255)))
            reply.append([1, UInt8(name.count)] + name + [UInt8(password.count)] + password)
            (state, answer) = (.awaitsLogin, [])
        case Method.refused:
            return tunnel.user == nil
                ? "wants a login of a kind that is not known, or of user and password" : "takes no login by user and password"
        default: return "wants a login that it was not offered"
        }
        return nil
    }

    private func handleLogin(_ reply: ByteBlock) -> String? {
        guard answer.count == 2 else { return nil }
        guard answer[1] == 0 else { return "refuses the user and the password" }
        request(reply)
        return nil
    }

    private func request(_ reply: ByteBlock) {
        var address: [UInt8]
        var (v4, v6) = (in_addr(), in6_addr())
        if inet_pton(AF_INET, tunnel.host, &v4) == 1 {
            address = [1] + withUnsafeBytes(of: v4) { Array($0) }
        } else if inet_pton(AF_INET6, tunnel.host, &v6) == 1 {
            address = [4] + withUnsafeBytes(of: v6) { Array($0) }
        } else {
            let name = Array(tunnel.host.utf8.prefix(255))
            address = [3, UInt8(name.count)] + name
        }
        address += [UInt8(tunnel.port >> 8), UInt8(tunnel.port & 0xFF)]
        reply.append([5, 1, 0] + address)
        (state, answer) = (.awaitsReply, [])
    }

    /// The head tells how long the rest is: an address of one of three kinds, and a port.
    private func handleReply() -> String? {
        guard answer[0] == 5 else { return "does not speak SOCKS 5" }
        if answer.count > 1, answer[1] != 0 { return Self.words(ofReply: answer[1]) }
        guard answer.count >= 5 else { return nil }
        let addressBytes: Int
        switch answer[3] {
        case 1: addressBytes = 4
        case 3: addressBytes = 1 + Int(answer[4])
        case 4: addressBytes = 16
        default: return "answers with an address of the unknown kind \(answer[3])"
        }
        if answer.count == 4 + addressBytes + 2 { state = .open }
        return nil
    }

    private static func words(ofReply code: UInt8) -> String {
        switch code {
        case 2: "does not let us connect there"
        case 3: "says: network unreachable"
        case 4: "says: host unreachable"
        case 5: "says: connection refused"
        case 6: "says: the server does not answer"
        case 7: "makes no connections"
        case 8: "cannot reach addresses of that kind"
        default: "cannot make the connection (reply \(code))"
        }
    }
}

/// A proxy between us and a server that we connect to, and what it is asked for.
public struct ProxyTunnel: Sendable, Equatable {
    /// What the proxy speaks.
    public enum Kind: Sendable, Equatable {
        /// CONNECT of HTTP, RFC 9110, section 9.3.6.
        case http
        /// RFC 1928, with user and password, RFC 1929. The proxy looks the server's name up.
        case socks5
    }

    public var kind: Kind
    /// The server's name or address, and its port.
    public var host: String
    public var port: UInt16
    /// What the proxy is shown; nil for nothing.
    public var user: String?
    public var password: String?

    public init(_ kind: Kind, host: String, port: UInt16, user: String? = nil, password: String? = nil) {
        (self.kind, self.host, self.port, self.user, self.password) = (kind, host, port, user, password)
    }
}

extension ProxyTunnel {
    /// The text that a part of a proxy's address stands for, in which `%3A` is a colon; nil where a percent sign has no
    /// two digits behind it.
    public static func decoded(_ part: some StringProtocol) -> String? { PercentCoding.decode(part.utf8) }
}

extension Limits {
    /// Bytes of the head with which a proxy answers CONNECT; a longer one ends the connection.
    static let proxyAnswerBytesMax = 8192
}
