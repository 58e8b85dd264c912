public import Glibc

/// The network address of the other end, in 24 bytes, without a string of its own.
public struct PeerAddress: Hashable, Sendable {
    public enum Family: UInt8, Sendable {
        /// Not an internet address: a connection inside the machine or the process.
        case local
        case ipv4
        case ipv6
    }

    public let family: Family
    /// 0 when the family has none.
    public let port: UInt16
    /// The address in network order: 4 bytes in `low` for IPv4, all 16 for IPv6.
    private let high: UInt64
    private let low: UInt64

    /// No internet address.
    public static let local = PeerAddress(family: .local, port: 0, high: 0, low: 0)

    private init(family: Family, port: UInt16, high: UInt64, low: UInt64) {
        self.family = family
        self.port = port
        self.high = high
        self.low = low
    }

    /// What the kernel says of a socket. A family that is not of the internet is `local`.
    public init(_ storage: sockaddr_storage) {
        self = withUnsafeBytes(of: storage) { bytes in
            switch Int32(storage.ss_family) {
            case AF_INET:
                let address = bytes.loadUnaligned(as: sockaddr_in.self)
                return PeerAddress(
                    family: .ipv4, port: UInt16(bigEndian: address.sin_port), high: 0, low: UInt64(address.sin_addr.s_addr))
            case AF_INET6:
                let address = bytes.loadUnaligned(as: sockaddr_in6.self)
                let (high, low) = withUnsafeBytes(of: address.sin6_addr) {
                    ($0.loadUnaligned(as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                }
                return PeerAddress(family: .ipv6, port: UInt16(bigEndian: address.sin6_port), high: high, low: low)
            default:
                return .local
            }
        }
    }

    /// From four bytes in network order, and the two of a port at the front of `port`; nil when there are fewer.
    init?(ipv4 host: some Collection<UInt8>, port: some Collection<UInt8>) {
        guard host.count == 4, port.count >= 2 else { return nil }
        // In memory the first byte comes first, whatever the machine's order.
        let low = host.enumerated().reduce(UInt32(0)) { $0 | UInt32($1.element) << (8 * UInt32($1.offset)) }
        self.init(family: .ipv4, port: Self.port(port), high: 0, low: UInt64(UInt32(littleEndian: low)))
    }

    /// From 16 bytes in network order, and the two of a port at the front of `port`; nil when there are fewer.
    init?(ipv6 host: some Collection<UInt8>, port: some Collection<UInt8>) {
        guard host.count == 16, port.count >= 2 else { return nil }
        func word(_ bytes: some Collection<UInt8>) -> UInt64 { UInt64(bigEndian: bytes.reduce(0) { $0 << 8 | UInt64($1) }) }
        self.init(family: .ipv6, port: Self.port(port), high: word(host.prefix(8)), low: word(host.dropFirst(8)))
    }

    /// From the numeric text of an address, nil when it is none.
    init?(ipv4 text: String, port: UInt16) {
        var host = in_addr()
        guard inet_pton(AF_INET, text, &host) == 1 else { return nil }
        self.init(family: .ipv4, port: port, high: 0, low: UInt64(host.s_addr))
    }

    /// From the numeric text of an address, nil when it is none.
    init?(ipv6 text: String, port: UInt16) {
        var host = in6_addr()
        guard inet_pton(AF_INET6, text, &host) == 1 else { return nil }
        self = withUnsafeBytes(of: host) { bytes in
            PeerAddress(
                family: .ipv6, port: port, high: bytes.loadUnaligned(as: UInt64.self),
                low: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        }
    }

    /// From the numeric text of an address of either family, nil when it is none.
    public init?(host: String) {
        guard let address = PeerAddress(ipv4: host, port: 0) ?? PeerAddress(ipv6: host, port: 0) else { return nil }
        self = address
    }

    private static func port(_ bytes: some Collection<UInt8>) -> UInt16 {
        bytes.prefix(2).reduce(0) { $0 << 8 | UInt16($1) }
    }

    /// The address alone, as `inet_ntop` writes it: `127.0.0.1`, `::1`; empty for a local peer.
    public var host: String {
        switch family {
        case .local: ""
        case .ipv4: dottedText
        case .ipv6: groupedText
        }
    }

    /// Whether the connection never leaves the machine.
    public var isLoopback: Bool {
        switch family {
        case .local: true
        case .ipv4: UInt32(bigEndian: UInt32(truncatingIfNeeded: low)) >> 24 == 127
        case .ipv6: high == 0 && UInt64(bigEndian: low) == 1
        }
    }

    /// The part that one host cannot choose freely, without a port: an IPv4 address whole, also inside an IPv6 one
    /// (`::ffff:10.0.0.1`), and the first 64 bits of other IPv6 addresses; nil for a local peer.
    public var network: PeerAddress? {
        switch family {
        case .local: return nil
        case .ipv4: return PeerAddress(family: .ipv4, port: 0, high: 0, low: low)
        case .ipv6:
            let bytes = UInt64(bigEndian: low)
            guard high == 0, bytes >> 32 == 0xFFFF else { return PeerAddress(family: .ipv6, port: 0, high: high, low: 0) }
            let host = UInt32(truncatingIfNeeded: bytes).bigEndian
            return PeerAddress(family: .ipv4, port: 0, high: 0, low: UInt64(host))
        }
    }

    /// The larger network around it, as providers give it to one customer: the first 24 bits of an IPv4 address, and 48
    /// of another IPv6 address; nil for a local peer.
    public var site: PeerAddress? { network.map { $0.masked(bits: $0.family == .ipv4 ? 24 : 48) } }

    /// The host without a port; an IPv4 address inside an IPv6 one (`::ffff:10.0.0.1`) as itself.
    var plain: PeerAddress { network.map { $0.family == .ipv4 ? $0 : self } ?? self }

    /// The first bits of the address, and zeros behind them; without a port.
    func masked(bits: Int) -> PeerAddress {
        switch family {
        case .local: .local
        case .ipv4: PeerAddress(family: .ipv4, port: 0, high: 0, low: low & UInt64((~(UInt32.max >> UInt32(bits))).bigEndian))
        case .ipv6:
            PeerAddress(
                family: .ipv6, port: 0, high: high & (~(UInt64.max >> UInt64(min(bits, 64)))).bigEndian,
                low: low & (~(UInt64.max >> UInt64(max(bits - 64, 0)))).bigEndian)
        }
    }

    /// An IPv4 address. Every connection asks for it, and the C library goes through `snprintf` for that.
    private var dottedText: String {
        String(unsafeUninitializedCapacity: Int(INET_ADDRSTRLEN) - 1) { text in
            var end = 0
            func append(_ byte: UInt8) {
                text[end] = byte
                end += 1
            }
            let address = UInt32(bigEndian: UInt32(truncatingIfNeeded: low))
            for place in 0..<UInt32(4) {
                if place > 0 { append(UInt8(ascii: ".")) }
                let number = UInt8(truncatingIfNeeded: address >> (24 - 8 * place))
                if number >= 100 { append(UInt8(ascii: "0") + number / 100) }
                if number >= 10 { append(UInt8(ascii: "0") + number / 10 % 10) }
                append(UInt8(ascii: "0") + number % 10)
            }
            return end
        }
    }

    private var groupedText: String {
        withUnsafeBytes(of: (high, low)) { bytes in
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { text in
                guard let start = text.baseAddress,
                    inet_ntop(AF_INET6, bytes.baseAddress, start, socklen_t(text.count)) != nil
                else { return "" }
                return String(cString: start)
            }
        }
    }
}

extension PeerAddress: CustomStringConvertible {
    /// As mosquitto logs it: `127.0.0.1:50312`, `::1:50312`, without brackets; `local` for a local peer.
    public var description: String {
        family == .local ? "local" : "\(host):\(port)"
    }
}
