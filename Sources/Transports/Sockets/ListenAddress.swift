internal import Glibc
internal import Platform

/// Where to listen, as an operator says it.
public struct ListenAddress: Sendable, Hashable {
    public enum Host: Sendable, Hashable {
        /// `0.0.0.0` and `::`.
        case all
        /// `127.0.0.1` and `::1`.
        case loopback
        /// A name or a numeric address; whatever it resolves to.
        case named(String)
        /// A Unix socket; port, family and interface mean nothing then.
        case path(String)
    }

    public enum Family: Sendable, Hashable {
        case both
        case ipv4
        case ipv6
    }

    public var host: Host
    /// 0 lets the kernel choose one.
    public var port: UInt16
    public var family: Family
    /// The one network interface whose connections are taken.
    public var interface: String?

    public init(host: Host, port: UInt16, family: Family = .both, interface: String? = nil) {
        self.host = host
        self.port = port
        self.family = family
        self.interface = interface
    }

    /// Without a name every address of the machine is meant.
    public init(host: String?, port: UInt16, family: Family = .both) {
        self.init(host: host.map { .named($0) } ?? .all, port: port, family: family)
    }

    /// The socket addresses that are meant, IPv4 first. May ask a name server and block: for start-up only.
    public func resolve() throws(ResolutionError) -> [SocketAddress] {
        switch host {
        case .all: [.anyIPv4(port: port), .anyIPv6(port: port)].filter(isWanted)
        case .loopback: [.loopbackIPv4(port: port), .loopbackIPv6(port: port)].filter(isWanted)
        case .named(let name): try lookUp(name)
        case .path(let path): try unixAddress(path)
        }
    }

    private func unixAddress(_ path: String) throws(ResolutionError) -> [SocketAddress] {
        guard let address = SocketAddress.unix(path: path) else { throw ResolutionError(host: path, code: EAI_OVERFLOW) }
        return [address]
    }

    private func isWanted(_ address: SocketAddress) -> Bool {
        switch family {
        case .both: true
        case .ipv4: address.family == AF_INET
        case .ipv6: address.family == AF_INET6
        }
    }

    private func lookUp(_ name: String) throws(ResolutionError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(name, String(port), &hints, &first)
        guard code == 0 else { throw ResolutionError(host: name, code: code) }
        defer { freeaddrinfo(first) }
        let addresses = sequence(first: first, next: { $0?.pointee.ai_next }).compactMap { $0.flatMap(Self.copy) }
        let wanted = addresses.filter(isWanted).sorted { $0.family == AF_INET && $1.family != AF_INET }
        guard !wanted.isEmpty else { throw ResolutionError(host: name, code: EAI_NONAME) }
        return wanted.reduce(into: []) { unique, address in
            if !unique.contains(where: { $0.endpoint == address.endpoint }) { unique.append(address) }
        }
    }

    private static func copy(_ entry: UnsafeMutablePointer<addrinfo>) -> SocketAddress? {
        let size = Int(entry.pointee.ai_addrlen)
        guard let address = entry.pointee.ai_addr, size <= MemoryLayout<sockaddr_storage>.size else { return nil }
        guard [AF_INET, AF_INET6].contains(Int32(address.pointee.sa_family)) else { return nil }
        var storage = sockaddr_storage()
        withUnsafeMutableBytes(of: &storage) { $0.copyMemory(from: UnsafeRawBufferPointer(start: address, count: size)) }
        return SocketAddress(storage: storage, length: socklen_t(size))
    }
}
