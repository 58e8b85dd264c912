internal import Bytes
public import HTTP

/// Takes the PROXY header off the beginning of a stream, and leaves it alone from then on.
///
///     reading ──► done            reading ──► refused
///
/// reading: less than a header has come; it is kept. The time limit is the one for CONNECT. The header is the proxy's
/// word for the client's address: such a listener must be reachable by the proxy only, or know its proxies
/// (`ProxyProtocolSettings.trusts`).
final class ProxyFilter: StreamFilter {
    private let settings: ProxyProtocolSettings
    private var kept: [UInt8] = []
    private var header: ProxyHeader?

    init(_ settings: ProxyProtocolSettings) {
        self.settings = settings
    }

    var isOpen: Bool { header != nil }
    var isSpent: Bool { header != nil }

    func decode(_ source: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer, reply: ByteBlock) -> Decoding {
        if header != nil {
            target.copyMemory(from: source)
            return Decoding(count: source.count)
        }
        let earlier = kept.count
        // A header ends in the bytes that came now; no more of them are looked at than the longest one has.
        kept.append(contentsOf: source.prefix(Limits.proxyHeaderBytesMax - min(earlier, Limits.proxyHeaderBytesMax)))
        switch settings.version == .v1 ? ProxyHeader.parseVersion1(kept) : ProxyHeader.parseVersion2(kept) {
        case .incomplete: return Decoding()
        case .malformed(let reason): return refused("Connection rejected, corrupt PROXY header. (\(reason))")
        case .complete(let header, let byteCount):
            if let reason = objection(to: header) { return refused(reason) }
            self.header = header
            kept = []
            let rest = UnsafeRawBufferPointer(rebasing: source[(byteCount - earlier)...])
            target.copyMemory(from: rest)
            return Decoding(count: rest.count)
        }
    }

    func encode(_ slices: UnsafeBufferPointer<ByteSlice>, into target: ByteBlock) {
        for slice in slices { target.append(slice.base, count: slice.count) }
    }

    func finish(into target: ByteBlock) {}

    func describe(_ identity: inout PeerIdentity) {
        guard let header else { return }
        identity.forwardedAddress = header.source
        identity.forwardedPath = header.sourcePath
        identity.certificateCommonName = header.commonName
        if let name = header.commonName {
            var names = CertificateNames()
            names.commonNames = [name]
            identity.certificate = names
        }
        if let version = header.tlsVersion, let cipher = header.cipher { identity.encryption = "\(version) cipher \(cipher)" }
    }

    private func objection(to header: ProxyHeader) -> String? {
        guard settings.version == .v2 else { return nil }
        let source = header.source.map { "from \($0) " } ?? ""
        if settings.requiresTLS, !header.hasTLS { return "Connection \(source)rejected, client did not connect using TLS." }
        if settings.requiresCertificate, !header.hasCertificate {
            return "Connection \(source)rejected, client did not provide a certificate."
        }
        return nil
    }

    private func refused(_ reason: String) -> Decoding {
        Decoding(end: .refused(FilterRefusal(.proxyProtocol, reason)))
    }
}

/// What a proxy says of the client that it speaks for.
struct ProxyHeader: Equatable {
    /// The client's address; nil when the proxy speaks for itself, as health checks do, or does not know it.
    var source: PeerAddress?
    /// The path of a Unix socket that the client has, if it came to the proxy by one and the socket has a name.
    var sourcePath: String?
    /// Whether the client came to the proxy with TLS.
    var hasTLS = false
    /// Whether the client showed the proxy a certificate, in this connection or the session that it resumed, and it was
    /// verified.
    var hasCertificate = false
    /// The common name in that certificate.
    var commonName: String?
    var tlsVersion: String?
    var cipher: String?

    /// What became of bytes that may be a header.
    enum Parsing: Equatable {
        /// They are the beginning of one.
        case incomplete
        /// They begin with this one, of that many bytes.
        case complete(ProxyHeader, byteCount: Int)
        case malformed(String)
    }
}

extension ProxyHeader {
    /// Reads a header of version 1: `PROXY TCP4 192.0.2.5 192.0.2.1 50312 1883\r\n`, at most 107 bytes.
    static func parseVersion1(_ bytes: some Collection<UInt8>) -> Parsing {
        let head = Array(bytes.prefix(Limits.proxyVersion1BytesMax))
        let start = Array("PROXY ".utf8)
        guard head.starts(with: start.prefix(head.count)) else { return .malformed("it does not begin with \"PROXY \"") }
        guard let lineFeed = head.firstIndex(of: UInt8(ascii: "\n")) else {
            return head.count < Limits.proxyVersion1BytesMax
                ? .incomplete : .malformed("its line is longer than \(Limits.proxyVersion1BytesMax) bytes")
        }
        guard lineFeed > start.count, head[lineFeed - 1] == UInt8(ascii: "\r") else {
            return .malformed("its line does not end in CR LF")
        }
        let words = head[start.count..<lineFeed - 1].split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        let count = lineFeed + 1
        // What follows UNKNOWN is to be passed over.
        if words[0] == "UNKNOWN" { return .complete(ProxyHeader(), byteCount: count) }
        guard words.count == 5 else { return .malformed("it has \(words.count) fields, not 5") }
        guard let source = address(family: words[0], host: words[1], port: words[3]),
            address(family: words[0], host: words[2], port: words[4]) != nil
        else { return .malformed("it has no valid addresses") }
        return .complete(ProxyHeader(source: source), byteCount: count)
    }

    private static func address(family: String, host: String, port: String) -> PeerAddress? {
        guard let number = UInt16(port), String(number) == port else { return nil }
        switch family {
        case "TCP4": return PeerAddress(ipv4: host, port: number)
        case "TCP6": return PeerAddress(ipv6: host, port: number)
        default: return nil
        }
    }
}

extension ProxyHeader {
    /// Reads a header of version 2.
    ///
    /// ```
    ///   0            12        13        14       16
    ///   | signature | 2|command | family | length | addresses | type, length, value … |
    /// ```
    static func parseVersion2(_ bytes: some Collection<UInt8>) -> Parsing {
        let head = Array(bytes.prefix(headBytes + Limits.proxyVersion2BytesMax))
        guard head.starts(with: signature.prefix(head.count)) else { return .malformed("it does not begin with the signature") }
        guard head.count >= headBytes else { return .incomplete }
        guard head[12] >> 4 == 2 else { return .malformed("its version is \(head[12] >> 4), not 2") }
        let length = Int(head[14]) << 8 | Int(head[15])
        guard length <= Limits.proxyVersion2BytesMax else {
            return .malformed("it is longer than \(Limits.proxyVersion2BytesMax) bytes")
        }
        guard head.count >= headBytes + length else { return .incomplete }
        let whole = head[..<(headBytes + length)]
        do throws(FilterRefusal) {
            let header = try header(command: head[12] & 0xF, family: head[13], whole: whole)
            return .complete(header, byteCount: whole.count)
        } catch {
            return .malformed(error.reason)
        }
    }

    private static func header(
        command: UInt8, family: UInt8, whole: ArraySlice<UInt8>
    ) throws(FilterRefusal) -> ProxyHeader {
        var header = ProxyHeader()
        let body = whole[headBytes...]
        // LOCAL: the proxy itself, which checks whether we live. Addresses and all else are to be passed over.
        if command == 0 { return header }
        guard command == 1 else { throw malformed("its command is \(command)") }
        guard let addressBytes = addressBytes(of: family), body.count >= addressBytes else {
            throw malformed("its addresses do not fit its family \(family)")
        }
        switch family {
        case 0x11: header.source = PeerAddress(ipv4: body.prefix(4), port: body.dropFirst(8))
        case 0x21: header.source = PeerAddress(ipv6: body.prefix(16), port: body.dropFirst(32))
        case 0x31:
            header.source = .local
            let path = String(decoding: body.prefix(108).prefix { $0 != 0 }, as: UTF8.self)
            header.sourcePath = path.isEmpty ? nil : path
        default: header.source = nil
        }
        try header.readValues(body.dropFirst(addressBytes), whole: whole)
        return header
    }

    /// Family in the upper half, SOCK_STREAM in the lower. Nothing for an unspecified one.
    private static func addressBytes(of family: UInt8) -> Int? {
        switch family {
        case 0x00: 0
        case 0x11: 12
        case 0x21: 36
        case 0x31: 216
        default: nil
        }
    }

    private mutating func readValues(_ bytes: ArraySlice<UInt8>, whole: ArraySlice<UInt8>) throws(FilterRefusal) {
        var rest = bytes
        while let (type, value) = try Self.nextValue(&rest) {
            switch type {
            case 0x03: try Self.check(checksum: value, of: whole)
            case 0x20: try readTLS(value)
            default: continue
            }
        }
    }

    private mutating func readTLS(_ bytes: ArraySlice<UInt8>) throws(FilterRefusal) {
        guard bytes.count >= 5, let client = bytes.first else { throw Self.malformed("what it says of TLS is cut short") }
        hasTLS = client & 0x01 != 0
        let isVerified = bytes.dropFirst().prefix(4).allSatisfy { $0 == 0 }
        hasCertificate = hasTLS && client & 0x06 != 0 && isVerified
        var rest = bytes.dropFirst(5)
        while let (type, value) = try Self.nextValue(&rest) {
            switch type {
            case 0x21: tlsVersion = String(validating: value, as: UTF8.self)
            // A name that nobody has verified is no identity.
            case 0x22 where hasCertificate: commonName = String(validating: value, as: UTF8.self)
            case 0x23: cipher = String(validating: value, as: UTF8.self)
            default: continue
            }
        }
    }

    private static func nextValue(_ rest: inout ArraySlice<UInt8>) throws(FilterRefusal) -> (UInt8, ArraySlice<UInt8>)? {
        guard let type = rest.first else { return nil }
        guard rest.count >= 3 else { throw malformed("a value is cut short") }
        let length = Int(rest[rest.startIndex + 1]) << 8 | Int(rest[rest.startIndex + 2])
        rest = rest.dropFirst(3)
        guard rest.count >= length else { throw malformed("a value is longer than the header") }
        let value = rest.prefix(length)
        rest = rest.dropFirst(length)
        return (type, value)
    }

    /// The checksum is made of the whole header with zeros in its own place.
    private static func check(checksum: ArraySlice<UInt8>, of whole: ArraySlice<UInt8>) throws(FilterRefusal) {
        guard checksum.count == 4 else { throw malformed("its checksum has \(checksum.count) bytes, not 4") }
        var zeroed = Array(whole)
        for index in checksum.indices { zeroed[index] = 0 }
        let expected = checksum.reduce(0) { $0 << 8 | UInt32($1) }
        guard CyclicRedundancyCheck.castagnoli(zeroed) == expected else { throw malformed("its checksum is wrong") }
    }

    private static func malformed(_ reason: String) -> FilterRefusal { FilterRefusal(.proxyProtocol, reason) }

    private static let signature: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A]
    private static let headBytes = 16
}

/// The checksum that the PROXY protocol names CRC32c, bit by bit: a header has few bytes, and a connection one header.
enum CyclicRedundancyCheck {
    /// Castagnoli's polynomial, reflected, as RFC 3720 has it.
    static func castagnoli(_ bytes: some Sequence<UInt8>) -> UInt32 {
        var remainder: UInt32 = .max
        for byte in bytes {
            remainder ^= UInt32(byte)
            for _ in 0..<8 { remainder = remainder & 1 == 0 ? remainder >> 1 : remainder >> 1 ^ 0x82F6_3B78 }
        }
        return ~remainder
    }
}

/// A proxy that asks for others in HTTP, and is believed when the request's fields say for whom: `Forwarded` (RFC
/// 7239), `X-Forwarded-For` or `X-Real-IP`.
///
/// A client may have sent such fields itself, and a proxy adds its word behind them, or to one of them. So the hosts of
/// a list count from our side, as far as they are proxies that are believed too, and where two fields contradict each
/// other the request is refused.
public struct ForwardingProxy: Sendable {
    private let peer: PeerAddress
    private let trusted: [TrustedNetwork]

    /// The peer of a connection; nil of one that is not believed. Whoever comes through a Unix socket may do so by the
    /// rights of its file.
    ///
    /// - Parameters:
    ///   - peer: who has connected.
    ///   - trusted: whose word counts; where it is empty, nobody's does.
    public init?(_ peer: PeerAddress, trusted: [TrustedNetwork]) {
        guard !trusted.isEmpty, peer.family == .local || trusted.contains(where: { $0.contains(peer) }) else { return nil }
        self.peer = peer
        self.trusted = trusted
    }

    /// The client that a request is from, without a port: the nearest host that is not a trusted proxy, or the farthest
    /// where all are trusted; the peer itself where no field names one, or the client is hidden.
    public func client(of fields: HTTPFields) throws(HTTPRefusal) -> PeerAddress {
        let standard = try walk(fields.forwardedNodes, "Forwarded")
        let listed = try walk(fields.nodes(of: "X-Forwarded-For"), "X-Forwarded-For")
        let single = try self.single(fields.nodes(of: "X-Real-IP"))
        if let standard, let listed, standard.client != listed.client { throw Self.contradiction("Forwarded", "X-Forwarded-For") }
        guard let path = standard ?? listed else { return single ?? peer }
        // A proxy behind another one names that one here.
        if let single, !path.hosts.contains(single), path.client != single {
            throw Self.contradiction(standard == nil ? "X-Forwarded-For" : "Forwarded", "X-Real-IP")
        }
        return path.client
    }

    /// The hosts of a list that count, from our side, and the client among them.
    private struct Path {
        var client: PeerAddress
        var hosts: [PeerAddress] = []
    }

    private func walk(_ nodes: [ForwardedNode], _ field: String) throws(HTTPRefusal) -> Path? {
        guard !nodes.isEmpty else { return nil }
        var path = Path(client: peer)
        for node in nodes.reversed() {
            guard let host = try address(node, field) else { return path }
            path.hosts.append(host)
            path.client = host
            guard trusted.contains(where: { $0.contains(host) }) else { return path }
        }
        return path
    }

    private func single(_ nodes: [ForwardedNode]) throws(HTTPRefusal) -> PeerAddress? {
        guard let node = nodes.first else { return nil }
        guard nodes.count == 1 else { throw HTTPRefusal(.badRequest, "X-Real-IP names more than one address.") }
        return try address(node, "X-Real-IP")
    }

    /// nil of one that is hidden.
    private func address(_ node: ForwardedNode, _ field: String) throws(HTTPRefusal) -> PeerAddress? {
        switch node {
        case .hidden: return nil
        case .host(let text):
            guard let address = PeerAddress(host: text) else { fallthrough }
            return address.plain
        case .malformed:
            throw HTTPRefusal(.badRequest, "\(field) is not what a proxy says of its client: addresses, with commas between.")
        }
    }

    private static func contradiction(_ one: String, _ other: String) -> HTTPRefusal {
        HTTPRefusal(
            .badRequest,
            "\(one) and \(other) name different clients. The proxy has to set one of them, and to take away what clients send.")
    }
}

/// How a listener reads the PROXY header that each of its connections begins with.
public struct ProxyProtocolSettings: Sendable, Equatable {
    public enum Version: Sendable {
        /// A line of text.
        case v1
        /// Binary, with what the proxy knows of the client's TLS.
        case v2
    }

    public var version: Version
    /// The header has to say that the client came with TLS. Version 2 only.
    public var requiresTLS: Bool
    /// The header has to say that the client showed a certificate that was verified. Version 2 only.
    public var requiresCertificate: Bool
    /// The networks whose headers are believed. Empty: anybody's.
    public var trusted: [TrustedNetwork]

    public init(
        version: Version, requiresTLS: Bool = false, requiresCertificate: Bool = false, trusted: [TrustedNetwork] = []
    ) {
        self.trusted = trusted
        self.version = version
        self.requiresTLS = requiresTLS
        self.requiresCertificate = requiresCertificate
    }

    /// Whether a peer's header is believed. Whoever comes through a Unix socket may do so by the rights of its file.
    public func trusts(_ peer: PeerAddress) -> Bool {
        trusted.isEmpty || peer.family == .local || trusted.contains { $0.contains(peer) }
    }
}

/// Addresses that begin alike: the proxies of a listener, or those that may connect to it. One of IPv4 inside IPv6
/// (`::ffff:10.0.0.0/104`) is that of IPv4.
public struct TrustedNetwork: Sendable, Hashable {
    let base: PeerAddress
    let bits: Int

    /// - Parameter base: an address whose bits beyond `bits` are zero.
    init(base: PeerAddress, bits: Int) { (self.base, self.bits) = (base, bits) }

    /// The network of an address; nil for a local peer.
    ///
    /// - Parameters:
    ///   - peer: an IPv4 address inside an IPv6 one counts as itself.
    ///   - ipv4Bits: how many bits of an IPv4 address are the network's.
    ///   - ipv6Bits: how many of an IPv6 address are.
    public init?(of peer: PeerAddress, ipv4Bits: Int, ipv6Bits: Int) {
        guard peer.family != .local else { return nil }
        let plain = peer.plain
        let bits = plain.family == .ipv4 ? ipv4Bits : ipv6Bits
        self.init(base: plain.masked(bits: bits), bits: bits)
    }

    /// - Parameters:
    ///   - host: an IPv4 or IPv6 address in numbers; nil comes of other text.
    ///   - bits: how many of its bits count.
    public init?(host: String, bits: Int) {
        guard let address = PeerAddress(host: host), bits >= 0 else { return nil }
        let plain = address.plain
        let isInside = plain.family != address.family && bits >= 96
        self.bits = isInside ? bits - 96 : bits
        base = (isInside ? plain : address).masked(bits: self.bits)
    }

    /// Whether an address is one of them; an IPv4 one inside IPv6 (`::ffff:10.0.0.1`) counts as itself.
    public func contains(_ peer: PeerAddress) -> Bool {
        let plain = peer.plain
        return plain.family == base.family && plain.masked(bits: bits) == base
    }
}

extension Limits {
    /// Bytes of a PROXY header of either version; a longer one ends the connection.
    static let proxyHeaderBytesMax = 16 + proxyVersion2BytesMax

    /// Bytes of the line that is a PROXY header of version 1, as its specification says.
    static let proxyVersion1BytesMax = 107

    /// Bytes behind the head of a PROXY header of version 2. A receiver may stop at 536; certificates' names need more.
    static let proxyVersion2BytesMax = 4096
}
