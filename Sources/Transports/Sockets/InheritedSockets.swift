internal import Glibc
internal import Platform

/// Listening sockets that the service manager has opened for this process: systemd's socket activation.
///
/// They are descriptors 3, 4, … as LISTEN_FDS counts them, if LISTEN_PID is this process. A listener of the configuration takes the one
/// that is bound to its address; what nobody takes stays open and is named by `unusedAddresses`.
public final class InheritedSockets {
    private struct Entry {
        let descriptor: FileDescriptor
        let address: SocketAddress
        /// An IPv6 socket that IPv4 clients reach too.
        let isDual: Bool
        var isTaken = false

        /// Whether clients of the address reach the socket.
        func serves(_ wanted: SocketAddress) -> Bool {
            if address.isSame(as: wanted) { return true }
            return isDual && wanted.isSame(as: .anyIPv4(port: wanted.port)) && address.isSame(as: .anyIPv6(port: wanted.port))
        }
    }

    private var entries: [Entry] = []

    /// - Parameter variable: gives the value of an environment variable.
    public init(variable: (String) -> String?) {
        guard variable("LISTEN_PID") == "\(getpid())", let count = variable("LISTEN_FDS").flatMap({ Int32($0) }),
            (1...Limits.inheritedSocketsMax).contains(count)
        else { return }
        for number in 0..<count {
            let descriptor = FileDescriptor(rawValue: Self.first + number)
            guard SystemCall.adopt(descriptor), let (storage, length) = try? SystemCall.localAddress(descriptor) else { continue }
            let isOnlyIPv6 = try? SystemCall.option(descriptor, level: Int32(IPPROTO_IPV6), option: IPV6_V6ONLY)
            let address = SocketAddress(storage: storage, length: length)
            entries.append(Entry(descriptor: descriptor, address: address, isDual: address.family == AF_INET6 && isOnlyIPv6 == 0))
        }
    }

    /// None.
    public convenience init() { self.init { _ in nil } }

    /// The addresses of the sockets that no listener has taken.
    public var unusedAddresses: [String] { entries.filter { !$0.isTaken }.map(\.address.description) }

    /// The socket that is bound to the address, or nil; the caller owns it from then on.
    func take(_ address: SocketAddress) -> FileDescriptor? {
        guard let index = entries.firstIndex(where: { !$0.isTaken && $0.serves(address) }) else { return nil }
        entries[index].isTaken = true
        return entries[index].descriptor
    }

    /// Whether a socket that was taken serves this address too.
    func isServed(_ address: SocketAddress) -> Bool {
        entries.contains { $0.isTaken && $0.serves(address) }
    }

    /// After standard input, output and error.
    private static let first: Int32 = 3
}

extension SocketAddress {
    /// Whether both name the same family, host and port, or path.
    fileprivate func isSame(as other: SocketAddress) -> Bool {
        guard family == other.family else { return false }
        return family == AF_UNIX ? path == other.path : endpoint == other.endpoint
    }
}
