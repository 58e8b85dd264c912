internal import Glibc
public import HTTP
public import Platform
public import Transports

/// Listeners that speak HTTP, and their connections, on one event loop.
///
/// Belongs to the loop's thread once that runs. A connection counts from accept to close, `connectionCount` of a
/// listener is at most its `connectionsMax` and `Limits.reserveMax`; see `findSlot`.
public final class HTTPService {
    private final class Door {
        let acceptor: any Acceptor
        let listener: Int
        var layers: TransportLayers

        init(acceptor: any Acceptor, listener: Int, layers: TransportLayers) {
            (self.acceptor, self.listener, self.layers) = (acceptor, listener, layers)
        }
    }

    let loop: EventLoop
    /// Bytes of a request's body; a longer one is answered with 413.
    let bodyBytesMax: Int
    unowned let handler: any HTTPHandler
    private let wallSeconds: () -> Int64
    private let workspace = FilterWorkspace()
    private var doors: [Door] = []
    private(set) var connections: [HTTPConnection] = []
    private let counts: HTTPConnectionCounts
    /// By listener.
    private(set) var connectionsMax: [Int: Int] = [:]
    /// When the alarm rings; nil when it is not set.
    private var alarm: UInt64?
    private var date: (second: Int64, text: String) = (-1, "")

    /// - `handler`: answers; not kept alive.
    /// - `counts`: is kept for whoever wants to know how many connections there are, and does not know the service.
    /// - `wallSeconds`: gives the seconds since 1970, for the field Date.
    public init(
        on loop: EventLoop, bodyBytesMax: Int, handler: any HTTPHandler, counts: HTTPConnectionCounts = HTTPConnectionCounts(),
        wallSeconds: @escaping () -> Int64
    ) {
        self.loop = loop
        self.bodyBytesMax = bodyBytesMax
        self.handler = handler
        self.counts = counts
        self.wallSeconds = wallSeconds
    }

    /// How many connections there are.
    public var connectionCount: Int { connections.count }

    /// The bytes of requests and answers that connections hold.
    public var heldByteCount: Int { connections.reduce(0) { $0 + $1.heldByteCount } }

    /// How many connections a listener has.
    public func connectionCount(of listener: Int) -> Int { counts.count(of: listener) }

    /// Accepts connections from now on. Throws when the loop cannot take the listener.
    ///
    /// - `listener`: what handlers are told of where a request came from.
    /// - `connectionsMax`: connections of all acceptors with that number.
    public func serve(
        _ acceptor: any Acceptor, listener: Int, layers: TransportLayers = TransportLayers(),
        connectionsMax: Int = Limits.connectionsMax
    ) throws(SystemError) {
        self.connectionsMax[listener] = connectionsMax
        let door = Door(acceptor: acceptor, listener: listener, layers: layers)
        try acceptor.serve(
            on: loop, accept: { [unowned self] in accept($0, door) },
            report: { [unowned self] in handler.record(.listener(listener, $0)) })
        doors.append(door)
    }

    /// Lets a listener have so many connections from now on; those that are there stay.
    public func setConnectionsMax(_ count: Int, listener: Int) { connectionsMax[listener] = count }

    /// Gives the connections that a listener accepts from now on these layers.
    public func setLayers(_ layers: TransportLayers, listener: Int) {
        for door in doors where door.listener == listener { door.layers = layers }
    }

    /// Accepts nothing more there, and ends its connections with what is on its way.
    public func stop(listener: Int) {
        for door in doors where door.listener == listener { door.acceptor.stop() }
        doors.removeAll { $0.listener == listener }
        for connection in connections where connection.listener == listener { connection.end() }
    }

    /// Accepts nothing more, and ends every connection with what is on its way.
    public func stop() {
        for door in doors { door.acceptor.stop() }
        doors = []
        for connection in connections { connection.end() }
        if alarm != nil { loop.cancelAlarm(for: self) }
        alarm = nil
    }

    private func accept(_ socket: any ByteChannel, _ door: Door) {
        let address = socket.peerAddress
        if let proxy = door.layers.proxyProtocol, !proxy.trusts(address) {
            handler.record(.untrustedProxy(listener: door.listener, address))
            socket.close()
            return
        }
        let proxy = door.layers.forwardingProxy(address)
        let isForwarded = door.layers.proxyProtocol != nil || proxy != nil
        guard isForwarded || handler.admits(address, listener: door.listener) else {
            socket.close()
            return
        }
        let network = isForwarded ? nil : network(of: address, door.listener)
        let slot = findSlot(on: door.listener, for: network)
        guard slot != .none else {
            handler.record(.full(listener: door.listener, address))
            socket.close()
            return
        }
        let path = door.acceptor.path
        let user = path == nil || isForwarded ? nil : PeerUser.of(socket)
        var channel: (any ByteChannel)? = socket
        if !door.layers.isEmpty { channel = door.layers.channel(on: socket, workspace: workspace) }
        guard let channel else {
            // No memory for TLS.
            socket.close()
            return
        }
        let peer = HTTPPeer(
            listener: door.listener, address: channel.peerAddress, socketPath: path, user: user,
            isEncrypted: door.layers.tls != nil, identity: PeerIdentity())
        let connection = HTTPConnection(channel, from: peer, proxy: proxy, isInReserve: slot == .reserve, service: self)
        connection.network = network
        do throws(SystemError) {
            try connection.begin()
        } catch {
            channel.close()
            return
        }
        connections.append(connection)
        counts.add(1, to: connection.listener)
        connection.settle()
    }

    func forget(_ connection: HTTPConnection) {
        guard let index = connections.firstIndex(where: { $0 === connection }) else { return }
        connections.remove(at: index)
        counts.add(-1, to: connection.listener)
    }

    /// The time as the field Date has it.
    func dateText() -> String {
        let second = wallSeconds()
        if second != date.second { date = (second, HTTPDate.text(second)) }
        return date.text
    }
}

/// How many connections each listener has. Belongs to the loop's thread.
public final class HTTPConnectionCounts {
    private var byListener: [Int: Int] = [:]

    /// There are none.
    public init() {}

    /// How many a listener has.
    public func count(of listener: Int) -> Int { byListener[listener] ?? 0 }

    fileprivate func add(_ count: Int, to listener: Int) { byListener[listener, default: 0] += count }
}

extension HTTPService: AlarmHandler {
    /// A connection has to be looked at then.
    func expect(_ deadline: UInt64) {
        guard deadline < alarm ?? .max else { return }
        alarm = deadline
        loop.setAlarm(at: deadline, for: self)
    }

    public func alarmRang() {
        alarm = nil
        let now = loop.nowMilliseconds
        for connection in connections where connection.deadline <= now { connection.timeIsUp() }
        if let next = connections.lazy.map(\.deadline).min(), next < .max { expect(next) }
    }
}

/// Decides which connections stay when there are more than the listener may have.
///
/// ```
///  a newcomer ─► a free slot ──────────────────────────────► all is answered
///                  │ none: is there a connection that waits for its peer?
///                  ├─► it gives way ───────────────────────► all is answered
///                  │ none, all are of use
///                  └─► the reserve ────────────────────────► what is urgent is answered, all else with 503
/// ```
/// One network has three quarters of the slots at most: beyond that its own connections give way.
extension HTTPService {
    enum Slot {
        case ordinary
        case reserve
        case none
    }

    /// Finds a slot for a newcomer, and makes one free for it where that takes one.
    ///
    /// - Parameter network: what it counts for; nil for none.
    func findSlot(on listener: Int, for network: PeerAddress?) -> Slot {
        let most = connectionsMax[listener] ?? 0
        guard most > 0 else { return .none }
        let ordinary = connections.filter { $0.listener == listener && !$0.isInReserve }
        let own = network == nil ? [] : ordinary.filter { $0.network == network }
        if own.count >= Self.share(of: most) {
            if end(longestIdleOf: own) { return .ordinary }
        } else if ordinary.count < most || end(longestIdleOf: ordinary) {
            return .ordinary
        }
        let reserve = connections.filter { $0.listener == listener && $0.isInReserve }
        return reserve.count < Limits.reserveMax || end(longestIdleOf: reserve) ? .reserve : .none
    }

    /// The proxy in front has told whom a connection is for: whether that one may have it. It has its slot already.
    func findsSlot(for connection: HTTPConnection, of address: PeerAddress) -> Bool {
        guard let network = network(of: address, connection.listener) else { return true }
        let own = connections.filter { $0.listener == connection.listener && $0.network == network && !$0.isInReserve }
        guard own.count < Self.share(of: connectionsMax[connection.listener] ?? 0) || end(longestIdleOf: own) else {
            handler.record(.full(listener: connection.listener, address))
            return false
        }
        connection.network = network
        return true
    }

    /// What an address counts for: who has one address of a network has them all. Nil inside the machine, and for a
    /// proxy that is known, by which many come.
    func network(of address: PeerAddress, _ listener: Int) -> PeerAddress? {
        handler.isProxy(address, listener: listener) ? nil : address.network
    }

    /// Of slots, those that one network may have.
    private static func share(of most: Int) -> Int { max(1, most - max(1, most / 4)) }

    /// Ends the one that waits for its peer since longest; false if there is none.
    private func end(longestIdleOf connections: [HTTPConnection]) -> Bool {
        let idle = connections.compactMap { connection in connection.idleSince.map { (connection, since: $0) } }
        guard let (longest, _) = idle.min(by: { $0.since < $1.since }) else { return false }
        longest.end()
        return true
    }
}

/// Requests that come slowly, and answers that nobody reads.
extension HTTPService {
    /// Ends those connections that have held a part of the memory since longest while all of them hold more than they
    /// may. The one that takes some now stays, for it has to be tried.
    func makeRoom(beside connection: HTTPConnection) {
        var held = heldByteCount
        while held > Limits.heldBytesMax {
            let others = connections.filter { $0 !== connection && $0.heldByteCount > Limits.outputBytesMax }
            guard let longest = others.min(by: { $0.heldSince < $1.heldSince }) else { return }
            held -= longest.heldByteCount
            longest.end()
        }
    }
}

/// The user at the other end of a Unix socket, as the kernel knows it since the connection was made: nobody can pretend
/// to be another.
enum PeerUser {
    /// Its number; nil of a channel that is no Unix socket.
    static func of(_ channel: any ByteChannel) -> UInt32? {
        guard channel is SocketChannel else { return nil }
        // struct ucred: process, user, group.
        var credentials: (Int32, UInt32, UInt32) = (0, .max, .max)
        var size = socklen_t(MemoryLayout.size(ofValue: credentials))
        let result = getsockopt(channel.fileDescriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size)
        return result == 0 && credentials.1 != .max ? credentials.1 : nil
    }
}

/// What a server asks of whoever knows the answers. Called on the loop's thread.
public protocol HTTPHandler: AnyObject {
    /// A request came: it is to be answered with `exchange.answer`, now or later. One that is let go without is
    /// answered with 500.
    func handle(_ exchange: HTTPExchange)

    /// Whether a peer may connect to a listener; asked once its address is known, which behind a proxy is when that has
    /// told.
    func admits(_ peer: PeerAddress, listener: Int) -> Bool

    /// Something that an operator may want to know.
    func record(_ report: HTTPReport)

    /// Whether a request is answered where there is no slot for others: one of a few bytes by which somebody learns
    /// how the server is.
    func isUrgent(_ request: HTTPRequest) -> Bool

    /// Whether many come by this address, as by a proxy: then it has more than one party's share of a listener's
    /// slots.
    func isProxy(_ peer: PeerAddress, listener: Int) -> Bool
}

extension HTTPHandler {
    public func isUrgent(_ request: HTTPRequest) -> Bool { false }
    public func isProxy(_ peer: PeerAddress, listener: Int) -> Bool { false }
}

/// What happens on a server besides requests.
public enum HTTPReport: Sendable {
    /// A listener has trouble, or has none any more.
    case listener(Int, ListenerReport)
    /// A connection was closed as soon as it came, for its listener has as many as it may, and all are of use.
    case full(listener: Int, PeerAddress)
    /// A proxy that is not trusted has connected.
    case untrustedProxy(listener: Int, PeerAddress)
    /// A layer below HTTP does not go on with a peer.
    case layer(HTTPPeer, FilterRefusal)
    /// What a peer sent is no request that is taken.
    case refused(HTTPPeer, HTTPRefusal)
}

extension Limits {
    /// Connections of a listener beside its maximum, which are answered what is urgent alone, and then end. One more
    /// takes the place of the one that waits longest for its request; where none waits it is closed as soon as it
    /// comes. Bytes: `heldBytesMax` for all connections.
    static let reserveMax = 8

    /// Bytes of requests and answers that are held for their peers alone, of all connections together, beside what
    /// `outputBytesMax` allows each. Beyond them the connection ends that holds some since longest.
    static let heldBytesMax = 16 << 20
}
