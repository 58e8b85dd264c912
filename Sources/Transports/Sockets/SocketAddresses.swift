package import Glibc
public import Platform

/// The file that a Unix socket is bound to: it must not exist when the socket is bound, and outlives its process. It is
/// removed when the last listener that has it lets go of it.
final class UnixSocketFile: Sendable {
    private let path: String

    init(path: String) { self.path = path }

    deinit { try? SystemCall.remove(path) }

    /// Makes way for a socket: removes the file that a dead one has left behind. Throws EADDRINUSE when somebody
    /// listens there, and when the file is none of a socket.
    static func makeWay(at path: String, for address: SocketAddress) throws(SystemError) {
        guard let status = SystemCall.status(of: path) else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else { throw SystemError(errno: EADDRINUSE, operation: "bind") }
        let probe = try SystemCall.createSocket(family: AF_UNIX)
        defer { probe.close() }
        do throws(SystemError) {
            _ = try SystemCall.connect(probe, to: address.storage, length: address.length)
        } catch {
            // Nobody accepts there any more.
            guard error.errno == ECONNREFUSED else {
                throw error.errno == EAGAIN ? SystemError(errno: EADDRINUSE, operation: "bind") : error
            }
            try SystemCall.remove(path)
            return
        }
        throw SystemError(errno: EADDRINUSE, operation: "bind")
    }

    /// Owner and group may connect, as with mosquitto.
    static let mode: UInt32 = 0o770
}

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

/// Listening sockets that the service manager has opened for this process: systemd's socket activation.
///
/// They are descriptors 3, 4, … as LISTEN_FDS counts them, if LISTEN_PID is this process. A listener of the
/// configuration takes the one that is bound to its address; what nobody takes stays open and is named by
/// `unusedAddresses`.
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

extension ListenAddress {
    /// Opens listeners for that many loops: one list for each loop, in it one listener for each address.
    ///
    /// The first loop's listener binds alone, so that a second broker on the same port is refused; only then is the
    /// port shared with the other loops', among which the kernel spreads connections. All addresses get the same port,
    /// also when the kernel chose it. An address family that the machine lacks is passed over when another address can
    /// be had. An address on which one of `inherited` listens is not bound again; its loops share that socket.
    ///
    /// - Parameters:
    ///   - loops: how many lists.
    ///   - inherited: what the service manager has opened.
    ///   - leaving: listeners of this process that are about to be stopped: their ports may be bound beside them.
    public func open(
        loops: Int, inherited: InheritedSockets = InheritedSockets(), leaving: [Listener] = []
    ) throws(ListenError) -> [[Listener]] {
        precondition(loops > 0)
        let addresses: [SocketAddress]
        do throws(ResolutionError) {
            addresses = try resolve()
        } catch {
            throw .unresolved(error)
        }
        var attempts = port == 0 && addresses.allSatisfy { $0.path == nil } ? Limits.chosenPortAttemptsMax : 1
        while true {
            attempts -= 1
            do throws(ListenError) {
                return try open(addresses, loops: loops, inherited, leaving)
            } catch {
                // The port that the kernel chose for one family is taken in the other: let it choose again.
                guard attempts > 0, case .refused(_, let reason) = error, reason.errno == SystemCall.ErrorNumber.addressInUse
                else { throw error }
            }
        }
    }

    private func open(
        _ addresses: [SocketAddress], loops: Int, _ inherited: InheritedSockets, _ leaving: [Listener]
    ) throws(ListenError) -> [[Listener]] {
        var listeners = [[Listener]](repeating: [], count: loops)
        var passedOver: ListenError?
        for address in addresses where !inherited.isServed(address) {
            let port = listeners[0].first?.boundPort ?? address.port
            do throws(SystemError) {
                let isUnix = address.path != nil
                let neighbours = isUnix || address.port == 0 ? [] : leaving.filter { $0.boundPort == address.port }
                for neighbour in neighbours { try neighbour.admitNeighbour() }
                let taken = inherited.take(address)
                let first =
                    if let taken { try Listener(inherited: taken) } else {
                        try Listener(
                            address: address.withPort(port),
                            sharing: !neighbours.isEmpty ? .member : loops > 1 && !isUnix ? .founder : .none,
                            interface: interface)
                    }
                listeners[0].append(first)
                for loop in 1..<max(loops, 1) {
                    listeners[loop].append(
                        isUnix || taken != nil
                            ? try Listener(sharing: first)
                            : try Listener(address: first.boundAddress, sharing: .member, interface: interface))
                }
            } catch {
                guard Self.isMissingFamily(error), addresses.count > 1 else { throw .refused(address.withPort(port), error) }
                passedOver = .refused(address.withPort(port), error)
            }
        }
        if listeners[0].isEmpty, let passedOver { throw passedOver }
        return listeners
    }

    static func isMissingFamily(_ error: SystemError) -> Bool {
        error.errno == SystemCall.ErrorNumber.familyNotSupported || error.errno == SystemCall.ErrorNumber.addressNotAvailable
    }
}

extension ListenAddress {
    /// Tries whether a listener could be opened, without anybody being able to connect: each address is bound for a
    /// moment and not listened on, and no file is made, removed or connected to.
    ///
    /// - Returns: what stands in the way, nil for nothing; of several addresses the first one's.
    public func obstacle() -> ListenError? {
        let addresses: [SocketAddress]
        do throws(ResolutionError) {
            addresses = try resolve()
        } catch {
            return .unresolved(error)
        }
        var passedOver: ListenError?
        var isPossible = false
        for address in addresses {
            do throws(SystemError) {
                try tryOut(address)
                isPossible = true
            } catch {
                let refusal = ListenError.refused(address, error)
                guard Self.isMissingFamily(error), addresses.count > 1 else { return refusal }
                passedOver = refusal
            }
        }
        return isPossible ? nil : passedOver
    }

    /// Whether this one and another cannot be open at once: they have an address in common, or one of them has all
    /// addresses of the port. One that has no address has none in common with any.
    public func collides(with other: ListenAddress) -> Bool {
        guard port == other.port else { return false }
        if let interface, let device = other.interface, interface != device { return false }
        guard let own = try? resolve(), let others = try? other.resolve() else { return false }
        return own.contains { address in others.contains { address.collides(with: $0) } }
    }

    private func tryOut(_ address: SocketAddress) throws(SystemError) {
        if let path = address.path { return try UnixSocketFile.tryOut(path, for: address) }
        let socket = try SystemCall.createSocket(family: address.family)
        defer { socket.close() }
        if let interface { try SystemCall.bindToDevice(socket, interface) }
        try SystemCall.setOption(socket, level: SOL_SOCKET, option: SO_REUSEADDR, to: 1)
        if address.family == AF_INET6 { try SystemCall.setOption(socket, level: Int32(IPPROTO_IPV6), option: IPV6_V6ONLY, to: 1) }
        try SystemCall.bind(socket, to: address.storage, length: address.length)
    }
}

extension SocketAddress {
    fileprivate func collides(with other: SocketAddress) -> Bool {
        if let path { return path == other.path }
        guard family == other.family, port == other.port, port > 0 else { return false }
        let hosts = [endpoint.host, other.endpoint.host]
        return hosts[0] == hosts[1] || !["0.0.0.0", "::"].filter(hosts.contains).isEmpty
    }
}

extension UnixSocketFile {
    /// Throws what would keep a socket from being bound at a path. Asks the kernel's table and not the socket, which is
    /// somebody's.
    static func tryOut(_ path: String, for address: SocketAddress) throws(SystemError) {
        if let status = SystemCall.status(of: path) {
            guard status.st_mode & S_IFMT == S_IFSOCK else { throw SystemError(errno: EADDRINUSE, operation: "bind") }
            if SocketHolder.of(address) != nil { throw SystemError(errno: EADDRINUSE, operation: "bind") }
        }
        let directory = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        switch FileAccess.obstacle(toMakingFilesIn: directory) {
        case nil: return
        case .missingDirectory: throw SystemError(errno: ENOENT, operation: "bind")
        case .notDirectory: throw SystemError(errno: ENOTDIR, operation: "bind")
        case .readOnlyFileSystem: throw SystemError(errno: EROFS, operation: "bind")
        default: throw SystemError(errno: EACCES, operation: "bind")
        }
    }
}

/// Why a listener could not be opened.
public enum ListenError: Error, Sendable {
    /// The host has no address.
    case unresolved(ResolutionError)
    /// The kernel refused this address: it is in use, not ours, or reserved for root.
    case refused(SocketAddress, SystemError)
}

extension ListenError: CustomStringConvertible {
    /// `127.0.0.1:1883: bind: Address already in use`.
    public var description: String {
        switch self {
        case .unresolved(let error): error.description
        case .refused(let address, let error): "\(address): \(error)"
        }
    }
}

extension Limits {
    /// Sockets that a service manager may hand over; more are an error.
    static let inheritedSocketsMax: Int32 = 1024

    /// Tries to get one free port on all addresses of a listener with port 0.
    static let chosenPortAttemptsMax = 16
}
