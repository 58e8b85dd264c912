internal import Glibc
public import Platform

/// A listening socket: one for each loop and address. It listens from the moment it is made, and accepts once it is
/// started.
///
/// ```
///            ready, until none waits or 64 are accepted
///             ┌──┐
///             │  ▼        no descriptor, no memory, or a failure that it does not know
///  made ──► accepting ──────────────────────────────────────────────► paused
///   │         │  ▲                                                      │  │
///   │ stop    │  └─────────────── 100 ms ───────────────────────────────┘  │
///   ▼         ▼                                                            ▼ stop
///  stopped ◄──┴────────────────────────────────────────────────────────────┘
/// ```
/// Between `suspend` and `resume` nobody gets in, whatever it was before.
/// Without descriptors a waiting connection would keep the listener ready, and the loop would spin. So a spare
/// descriptor is kept: given up, it lets one connection in to be closed, so that its peer learns at once; then the
/// listener rests.
///
/// Owned by the loop's thread from `start` on.
public final class Listener: @unchecked Sendable {
    /// The address that it is bound to, with the port that the kernel chose if none was asked for.
    public let boundAddress: SocketAddress

    /// nil once it is stopped.
    private var socket: FileDescriptor?
    private var spare: FileDescriptor?
    /// The file of a Unix socket that ends with this listener and those that have succeeded it.
    private var file: UnixSocketFile?
    private var service: Service?
    /// Whether the kernel can be told to refuse connections: to a port that is this process's own. A socket that
    /// another process has too, or that was not asked for by number, would not come back.
    private let isRefusable: Bool
    private var isSuspended = false
    /// Connections closed since the trouble began, nil when there is none.
    private var turnedAway: Int?

    /// What `start` gave.
    private struct Service {
        let loop: EventLoop
        /// Nil while the kernel refuses connections.
        var registration: Registration?
        let accept: (SocketChannel) -> Void
        let report: (ListenerReport) -> Void
    }

    /// How a port is shared with listeners of this process.
    enum Sharing {
        /// Not at all.
        case none
        /// It binds alone, and shares from then on.
        case founder
        /// It joins others that share.
        case member
    }

    /// Binds and listens. With `reusePort` others of this user may bind the same port, and the kernel spreads
    /// connections.
    public convenience init(address: SocketAddress, reusePort: Bool) throws(SystemError) {
        try self.init(address: address, sharing: reusePort ? .member : .none)
    }

    init(address: SocketAddress, sharing: Sharing, interface: String? = nil) throws(SystemError) {
        if let path = address.path { try UnixSocketFile.makeWay(at: path, for: address) }
        let socket = try SystemCall.createSocket(family: address.family)
        do throws(SystemError) {
            boundAddress = try Self.listen(socket, address: address, sharing: sharing, interface: interface)
            spare = try Self.openSpare()
        } catch {
            socket.close()
            throw error
        }
        self.socket = socket
        file = address.path.map { UnixSocketFile(path: $0) }
        isRefusable = address.path == nil && address.port != 0
    }

    /// Accepts from the same queue as another listener: a Unix socket cannot be bound twice. The other one keeps the
    /// file.
    init(sharing other: Listener) throws(SystemError) {
        (socket, spare) = try other.queue()
        boundAddress = other.boundAddress
        isRefusable = false
    }

    /// Takes the place of another listener that is about to be stopped: it accepts from the same queue, so that nobody
    /// is refused meanwhile, and keeps the file of a Unix socket. For any thread, as long as the other one is not
    /// stopped.
    ///
    /// - Parameters:
    ///   - other: whose place it takes.
    ///   - isAlone: whether no other listener takes that place too.
    public init(succeeding other: Listener, isAlone: Bool) throws(SystemError) {
        (socket, spare) = try other.queue()
        boundAddress = other.boundAddress
        file = other.file
        isRefusable = isAlone && other.isRefusable
    }

    /// The process is about to become another user, and may bind other addresses of this port beside it later.
    public func give(toUser user: UInt32, group: UInt32) {
        if let socket { SystemCall.give(socket, user: user, group: group) }
    }

    /// Lets another listener of this user bind addresses that are a part of this one's, or that this one is a part of.
    /// For any thread, as long as it is not stopped.
    func admitNeighbour() throws(SystemError) {
        guard let socket, boundAddress.path == nil else { return }
        try Self.sharePort(of: socket)
    }

    /// Takes over a socket that listens already. Whoever bound it keeps its file.
    init(inherited socket: FileDescriptor) throws(SystemError) {
        let (storage, length) = try SystemCall.localAddress(socket)
        boundAddress = SocketAddress(storage: storage, length: length)
        if boundAddress.path == nil {
            try SystemCall.setOption(socket, level: Int32(IPPROTO_TCP), option: TCP_NODELAY, to: 1)
        }
        // It may be bound without listening yet.
        try SystemCall.listen(socket, backlog: Limits.backlog)
        spare = try Self.openSpare()
        self.socket = socket
        isRefusable = false
    }

    deinit {
        closeSocket()
    }

    public var boundPort: UInt16 { boundAddress.port }

    /// Accepts on the loop: `accept` gets each connection, `report` each trouble once. Throws when the loop cannot take
    /// it.
    public func start(
        on loop: EventLoop, accept: @escaping (SocketChannel) -> Void, report: @escaping (ListenerReport) -> Void
    ) throws(SystemError) {
        precondition(service == nil, "a listener is started once")
        guard let socket else { return }
        let registration = try loop.register(socket.rawValue, for: .readable, handler: self)
        service = Service(loop: loop, registration: registration, accept: accept, report: report)
    }

    /// Lets nobody connect until `resume`: TCP clients are refused by the kernel; those of a socket that is not this
    /// process's own are accepted and closed. Connections that wait to be accepted are reset.
    public func suspend() {
        guard !isSuspended, let socket, let service else { return }
        isSuspended = true
        guard isRefusable, let registration = service.registration else { return }
        service.loop.cancelAlarm(for: self)
        // Before: a socket that does not listen any more is hung up, and the loop would spin.
        service.loop.deregister(registration)
        self.service?.registration = nil
        SystemCall.stopListening(socket)
    }

    /// Accepts again after `suspend`.
    public func resume() throws(SystemError) {
        guard isSuspended, let socket, let service else { return }
        isSuspended = false
        guard service.registration == nil else { return }
        try SystemCall.listen(socket, backlog: Limits.backlog)
        self.service?.registration = try service.loop.register(socket.rawValue, for: .readable, handler: self)
    }

    /// Closes the socket. Connections that wait to be accepted are reset; those accepted live on.
    public func stop() {
        if let service {
            service.loop.cancelAlarm(for: self)
            if let registration = service.registration { service.loop.deregister(registration) }
        }
        service = nil
        closeSocket()
    }

    private func closeSocket() {
        guard let socket else { return }
        // Before the close: from then on another process may have bound its own socket there.
        file = nil
        socket.close()
        self.socket = nil
        spare?.close()
        spare = nil
    }
}

// MARK: - Accepting

extension Listener: EventHandler, AlarmHandler {
    public func ready(_ events: ReadyEvents) {
        var peer = sockaddr_storage()
        for _ in 0..<Limits.acceptsPerTurn {
            // The one who accepts may stop the listener.
            guard let socket, let service else { return }
            switch SystemCall.accept(socket, peer: &peer) {
            case .done(let number):
                let connection = FileDescriptor(rawValue: Int32(number))
                guard !isSuspended else {
                    connection.close()
                    continue
                }
                resume(service)
                service.accept(SocketChannel(socket: connection, peerAddress: PeerAddress(peer)))
            case .wouldBlock:
                return
            case .failed(let error) where SystemCall.ErrorNumber.connectionGone.contains(error.errno):
                continue
            case .failed(let error):
                pause(service, after: error)
                return
            }
        }
    }

    public func alarmRang() {
        guard let service, let registration = service.registration else { return }
        service.loop.modify(registration, interest: .readable)
    }

    private func pause(_ service: Service, after error: SystemError) {
        let isNew = turnedAway == nil
        let count = SystemCall.ErrorNumber.descriptorsExhausted.contains(error.errno) ? turnAwayOne() : 0
        turnedAway = (turnedAway ?? 0) + count
        if let registration = service.registration { service.loop.modify(registration, interest: []) }
        service.loop.setAlarm(at: service.loop.nowMilliseconds + Limits.acceptPauseMilliseconds, for: self)
        if isNew { service.report(.paused(error)) }
    }

    private func resume(_ service: Service) {
        guard let count = turnedAway else { return }
        turnedAway = nil
        service.report(.resumed(turnedAway: count))
    }

    /// Spends the spare descriptor on closing one connection. Returns how many that were; another thread may have been
    /// faster.
    private func turnAwayOne() -> Int {
        guard let socket else { return 0 }
        spare?.close()
        spare = nil
        var peer = sockaddr_storage()
        var count = 0
        if case .done(let number) = SystemCall.accept(socket, peer: &peer) {
            FileDescriptor(rawValue: Int32(number)).close()
            count = 1
        }
        spare = try? Self.openSpare()
        return count
    }
}

// MARK: - Opening

extension Listener {
    /// A socket for one more listener on the same queue, and its spare descriptor.
    private func queue() throws(SystemError) -> (socket: FileDescriptor?, spare: FileDescriptor?) {
        guard let socket else { throw SystemError(errno: EINVAL, operation: "listen") }
        let spare = try Self.openSpare()
        do throws(SystemError) {
            return (try SystemCall.duplicate(socket), spare)
        } catch {
            spare.close()
            throw error
        }
    }

    private static func openSpare() throws(SystemError) -> FileDescriptor {
        try SystemCall.open("/dev/null", flags: O_RDONLY)
    }

    private static func listen(
        _ socket: FileDescriptor, address: SocketAddress, sharing: Sharing, interface: String?
    ) throws(SystemError) -> SocketAddress {
        if let path = address.path {
            try SystemCall.bind(socket, to: address.storage, length: address.length)
            try SystemCall.setMode(UnixSocketFile.mode, of: path)
            try SystemCall.listen(socket, backlog: Limits.backlog)
            return address
        }
        if let interface { try SystemCall.bindToDevice(socket, interface) }
        // A port whose connections linger in TIME_WAIT can be bound; one on which somebody listens cannot.
        try SystemCall.setOption(socket, level: SOL_SOCKET, option: SO_REUSEADDR, to: 1)
        // Accepted connections inherit it, which spares a call for each.
        try SystemCall.setOption(socket, level: Int32(IPPROTO_TCP), option: TCP_NODELAY, to: 1)
        if address.family == AF_INET6 {
            try SystemCall.setOption(socket, level: Int32(IPPROTO_IPV6), option: IPV6_V6ONLY, to: 1)
        }
        if sharing == .member { try sharePort(of: socket) }
        try SystemCall.bind(socket, to: address.storage, length: address.length)
        if sharing == .founder { try sharePort(of: socket) }
        try SystemCall.listen(socket, backlog: Limits.backlog)
        let (storage, length) = try SystemCall.localAddress(socket)
        return SocketAddress(storage: storage, length: length)
    }

    private static func sharePort(of socket: FileDescriptor) throws(SystemError) {
        try SystemCall.setOption(socket, level: SOL_SOCKET, option: SO_REUSEPORT, to: 1)
    }
}

/// Where connections come from: a `Listener`, or what a test puts in its place.
///
/// Owned by the loop's thread from `serve` on.
public protocol Acceptor: AnyObject {
    /// The file of a Unix socket, which stands for the address that its peers do not have; nil for any other.
    var path: String? { get }

    /// Lets nobody connect until `resume`: where the kernel can, it refuses them; else they are not accepted.
    func suspend()

    /// Goes on after `suspend`; nothing before it.
    func resume() throws(SystemError)

    /// Accepts on the loop: `accept` gets each connection, `report` each trouble once. Throws when the loop cannot take
    /// it.
    func serve(
        on loop: EventLoop, accept: @escaping (any ByteChannel) -> Void, report: @escaping (ListenerReport) -> Void
    ) throws(SystemError)

    /// Accepts nothing more; connections that were accepted live on.
    func stop()
}

extension Listener: Acceptor {
    public var path: String? { boundAddress.path }

    public func serve(
        on loop: EventLoop, accept: @escaping (any ByteChannel) -> Void, report: @escaping (ListenerReport) -> Void
    ) throws(SystemError) {
        try start(on: loop, accept: { accept($0) }, report: report)
    }
}

/// What an operator should hear of a listener: each told once per trouble, not once per connection.
public enum ListenerReport: Sendable {
    /// Connections cannot be accepted, most often for want of descriptors. The listener tries again by itself.
    case paused(SystemError)
    /// A connection has been accepted again. `turnedAway` were closed meanwhile without a word.
    case resumed(turnedAway: Int)
}

extension Limits {
    /// Connections accepted in one turn before others get theirs.
    static let acceptsPerTurn = 64

    /// How long a listener rests when the process has no descriptor or memory left for a connection, in milliseconds.
    static let acceptPauseMilliseconds: UInt64 = 100

    /// Connections that wait to be accepted; the kernel lowers it to net.core.somaxconn.
    static let backlog: Int32 = 4096
}
