public import EpollLoop
internal import HTTP
public import Platform
public import Transports

/// Listeners that speak HTTP, and their connections, on one event loop.
///
/// Belongs to the loop's thread once that runs. A connection counts from accept to close, `connectionCount` of a listener is at most its
/// `connectionsMax` and `Limits.reserveMax`; see `findPlace`.
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
    /// By listener.
    private(set) var connectionsMax: [Int: Int] = [:]
    /// When the alarm rings; nil when it is not set.
    private var alarm: UInt64?
    private var date: (second: Int64, text: String) = (-1, "")

    /// - `handler`: answers; not kept alive.
    /// - `wallSeconds`: gives the seconds since 1970, for the field Date.
    public init(on loop: EventLoop, bodyBytesMax: Int, handler: any HTTPHandler, wallSeconds: @escaping () -> Int64) {
        self.loop = loop
        self.bodyBytesMax = bodyBytesMax
        self.handler = handler
        self.wallSeconds = wallSeconds
    }

    /// How many connections there are.
    public var connectionCount: Int { connections.count }

    /// The bytes of requests and answers that connections hold.
    public var heldByteCount: Int { connections.reduce(0) { $0 + $1.heldByteCount } }

    /// How many connections a listener has.
    public func connectionCount(of listener: Int) -> Int { connections.count { $0.listener == listener } }

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
            report: { [unowned self] in handler.note(.listener(listener, $0)) })
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
            handler.note(.untrustedProxy(listener: door.listener, address))
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
        let place = findPlace(on: door.listener, for: network)
        guard place != .none else {
            handler.note(.full(listener: door.listener, address))
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
        let connection = HTTPConnection(
            channel, listener: door.listener, path: path, user: user, isEncrypted: door.layers.tls != nil, proxy: proxy,
            isInReserve: place == .reserve, service: self)
        connection.network = network
        do throws(SystemError) {
            try connection.begin()
        } catch {
            channel.close()
            return
        }
        connections.append(connection)
        connection.settle()
    }

    func forget(_ connection: HTTPConnection) { connections.removeAll { $0 === connection } }

    /// The time as the field Date has it.
    func dateText() -> String {
        let second = wallSeconds()
        if second != date.second { date = (second, HTTPDate.text(second)) }
        return date.text
    }
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
