package import Glibc

/// An address that a socket can be bound or connected to: resolved, with its port.
public struct SocketAddress: Sendable {
    package var storage: sockaddr_storage
    package let length: socklen_t

    package init(storage: sockaddr_storage, length: socklen_t) {
        self.storage = storage
        self.length = length
    }

    /// Every IPv4 address of the machine, `0.0.0.0`.
    public static func anyIPv4(port: UInt16) -> SocketAddress {
        ipv4(INADDR_ANY, port: port)
    }

    /// `127.0.0.1`.
    public static func loopbackIPv4(port: UInt16) -> SocketAddress {
        ipv4(INADDR_LOOPBACK, port: port)
    }

    /// Every IPv6 address of the machine, `::`, and no IPv4 one.
    public static func anyIPv6(port: UInt16) -> SocketAddress {
        ipv6(in6addr_any, port: port)
    }

    /// `::1`.
    public static func loopbackIPv6(port: UInt16) -> SocketAddress {
        ipv6(in6addr_loopback, port: port)
    }

    /// A path in the file system; nil when it is empty or longer than the kernel's 107 bytes.
    public static func unix(path: String) -> SocketAddress? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        guard !bytes.isEmpty, bytes.count < capacity, !bytes.contains(0) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return SocketAddress(copying: address)
    }

    /// The path of a Unix socket, nil for other families.
    public var path: String? {
        guard family == AF_UNIX else { return nil }
        return withUnsafeBytes(of: storage) { bytes in
            String(decoding: bytes.dropFirst(MemoryLayout<sa_family_t>.size).prefix { $0 != 0 }, as: UTF8.self)
        }
    }

    public var isIPv6: Bool { family == AF_INET6 }

    /// `sockaddr`'s family, such as AF_INET.
    package var family: Int32 { Int32(storage.ss_family) }

    /// Host and port without the padding, to be printed and compared.
    public var endpoint: PeerAddress { PeerAddress(storage) }

    public var port: UInt16 { endpoint.port }

    /// The address with another port; a path has none, and stays as it is.
    public func withPort(_ port: UInt16) -> SocketAddress {
        guard path == nil else { return self }
        var copy = self
        withUnsafeMutableBytes(of: &copy.storage) { bytes in
            // Both families keep the port at the same place.
            bytes.storeBytes(of: port.bigEndian, toByteOffset: 2, as: UInt16.self)
        }
        return copy
    }

    private static func ipv4(_ host: in_addr_t, port: UInt16) -> SocketAddress {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = host.bigEndian
        return SocketAddress(copying: address)
    }

    private static func ipv6(_ host: in6_addr, port: UInt16) -> SocketAddress {
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        address.sin6_port = port.bigEndian
        address.sin6_addr = host
        return SocketAddress(copying: address)
    }

    private init<Address>(copying address: Address) {
        var storage = sockaddr_storage()
        withUnsafeMutableBytes(of: &storage) { $0.storeBytes(of: address, as: Address.self) }
        self.init(storage: storage, length: socklen_t(MemoryLayout<Address>.size))
    }
}

extension SocketAddress: CustomStringConvertible {
    /// `127.0.0.1:1883`, `[::1]:1883`, `/run/martlet.sock`.
    public var description: String {
        if let path { return path }
        return family == AF_INET6 ? "[\(endpoint.host)]:\(port)" : endpoint.description
    }
}
