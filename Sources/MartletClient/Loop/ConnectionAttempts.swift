internal import Bytes
internal import ClientCore
internal import Platform
internal import Transports

/// Which server is tried, how often, and when again.
struct ConnectionAttempts {
    enum Next {
        case nextServer
        case pause(milliseconds: UInt64)
        case stop
    }

    private var servers: [ServerAddress] = []
    private var choice = ServerChoice(count: 1)
    private var schedule = ReconnectSchedule(.never)
    private var timeout: UInt64 = 0
    private var redirection: ServerAddress?
    private var contexts = TLSContexts()
    private var hasAskedForFreshLogin = false
    private var onlineSince: UInt64?
    /// When attempts were given up whose CONNECT the server may still get.
    private var abandonedAt: [UInt64] = []
    /// How often the client has gone back to the first server and did not stay.
    private var returnCount: UInt64 = 0
    /// Whether servers that are asked for are to be asked for now.
    private(set) var needsServers = true
    /// What the server that is tried is shown, where that was asked for.
    var identity: TLSSettings.Identity?
    /// Attempts since the last success.
    private(set) var number = 0
    /// Attempts ever: what an answer that comes late was asked for.
    private(set) var serial = 0
    /// When the attempt has taken too long.
    private(set) var deadline: UInt64?
    /// How often a server has let us in.
    private(set) var successCount: UInt64 = 0
    /// Whether one has since it was asked to connect.
    private(set) var wasOnline = false

    init() {}

    init(_ settings: ClientSettings) {
        servers = settings.servers
        choice = ServerChoice(count: servers.count)
        timeout = settings.connectTimeout.milliseconds
        schedule = ReconnectSchedule(settings.reconnect.schedule)
    }

    /// The one that is tried.
    var server: ServerAddress { redirection ?? (servers.isEmpty ? Self.unknown : servers[choice.current]) }

    /// Before anybody has said which there are.
    private static let unknown = ServerAddress(.invalid(text: "the servers", reason: "none is known yet"))

    /// Replaces the servers that are tried from now on; none, if their provider failed.
    mutating func replaceServers(with servers: [ServerAddress]) {
        (self.servers, choice, redirection) = (servers, ServerChoice(count: servers.count), nil)
        needsServers = servers.isEmpty
    }

    /// The first of several servers, while the client is connected to another that is one of them.
    var betterServer: ServerAddress? { redirection == nil && choice.current != 0 ? servers.first : nil }

    /// How many times its interval the look at the first server is to take.
    var checkGrowth: UInt64 { min(1 << min(returnCount, 32), Limits.firstServerCheckGrowthMax) }

    /// The connection is given up for one to the first server.
    mutating func returnToFirst() {
        choice.returnToFirst()
        returnCount += 1
        onlineSince = nil
    }

    /// It is asked to connect: what was before does not count.
    mutating func start() {
        (number, wasOnline, hasAskedForFreshLogin, onlineSince, needsServers) = (0, false, false, nil, true)
        schedule.reset()
    }

    /// The connection of an attempt is closed, and CONNACK has not come.
    mutating func abandoned(now: UInt64) {
        abandonedAt.removeAll { now - $0 >= Limits.lateConnectMillisecondsMax }
        abandonedAt.append(now)
    }

    /// Whether the server may just have got the CONNECT of an attempt that was given up; said once for each.
    mutating func takeAbandoned(now: UInt64) -> Bool {
        abandonedAt.removeAll { now - $0 >= Limits.lateConnectMillisecondsMax }
        guard !abandonedAt.isEmpty else { return false }
        abandonedAt.removeFirst()
        return true
    }

    mutating func begin(now: UInt64) {
        number += 1
        serial += 1
        deadline = now + timeout
    }

    mutating func succeeded(now: UInt64) {
        choice.succeeded()
        (number, deadline, hasAskedForFreshLogin, onlineSince) = (0, nil, false, now)
        successCount += 1
        wasOnline = true
    }

    /// What comes after a failure, or after the end of a connection.
    mutating func failed(now: UInt64, chance: UInt64) -> Next {
        deadline = nil
        redirection = nil
        if let since = onlineSince, now - since >= schedule.lastingMilliseconds {
            schedule.reset()
            if choice.current == 0 { returnCount = 0 }
        }
        let isFirst = onlineSince == nil
        onlineSince = nil
        if choice.failed() || !isFirst {
            needsServers = true
            return schedule.failed(chance: chance).map { .pause(milliseconds: $0) } ?? .stop
        }
        return .nextServer
    }

    /// Whether a login that was refused may be asked for once more.
    mutating func mayAskForFreshLogin() -> Bool {
        defer { hasAskedForFreshLogin = true }
        return !hasAskedForFreshLogin
    }

    /// The server names another. Returns whether it is tried: not when servers send their clients on again and again.
    mutating func follow(_ reference: EncodedString?, isForGood: Bool, now: UInt64) -> Bool {
        if let since = onlineSince, now - since >= Limits.redirectionRestMilliseconds { choice.lasted() }
        guard let name = reference?.description.split(separator: " ").first, choice.mayFollow(),
            let address = Self.address(String(name), like: server)
        else { return false }
        if isForGood, redirection == nil { servers[choice.current] = address } else { redirection = address }
        return true
    }

    private static func address(_ name: String, like server: ServerAddress) -> ServerAddress? {
        guard case .network(_, _, let usesTLS, let path) = server.kind else { return nil }
        let scheme = path == nil ? (usesTLS ? "mqtts" : "mqtt") : (usesTLS ? "wss" : "ws")
        let text = name.holds("://") ? name : "\(scheme)://\(name)\(path ?? "")"
        guard let address = try? ServerAddress(text) else { return nil }
        // Nobody sends a password in the clear because a server says so.
        if usesTLS, case .network(_, _, usesTLS: false, _) = address.kind { return nil }
        var other = address
        (other.login, other.tls, other.proxy) = (server.login, server.tls, server.proxy)
        if case .network(_, _, _, .some) = address.kind { other.webSocketHeaders = server.webSocketHeaders }
        return other
    }

    /// What connections to the server that is tried go through.
    func proxy(_ settings: ClientSettings) -> ProxyAddress? {
        server.proxy(settings)
    }

    /// What lies between the socket and MQTT. Throws what is wrong with the settings.
    mutating func layers(_ settings: ClientSettings) throws(ClientError) -> ClientLayers {
        try layers(to: server, settings, identity)
    }

    /// The layers of a connection to any server.
    mutating func layers(
        to server: ServerAddress, _ settings: ClientSettings, _ identity: TLSSettings.Identity?
    ) throws(ClientError) -> ClientLayers {
        guard case .network(let host, let port, let usesTLS, let path) = server.kind else { return ClientLayers() }
        var layers = ClientLayers(tunnel: server.proxy(settings)?.tunnel(to: host, port: port))
        if usesTLS {
            do throws(TLSFailure) {
                let tls = (server.tls ?? settings.tls).forServer(host, provided: identity)
                layers.tls = try contexts.context(for: "\(host):\(port)", tls)
            } catch {
                throw .settings("\(error)")
            }
        }
        if let path {
            let name = host.contains(":") ? "[\(host)]" : host
            layers.webSocket = WebSocketClientSettings(
                host: port == (usesTLS ? 443 : 80) ? name : "\(name):\(port)", path: path, fields: server.webSocketFields)
        }
        return layers
    }

    /// Why the server that is tried cannot be reached.
    func unreachable(_ reason: String) -> ClientError { .unreachable(server: "\(server)", reason: reason) }

    /// The end of a connection in words.
    func explain(_ end: ServerConnection.End) -> ClientError {
        switch end {
        case .left:
            unreachable(
                onlineSince == nil
                    ? "it closed the connection without an answer: perhaps its port wants another of mqtt, mqtts, ws and wss, or another version of MQTT"
                    : "it closed the connection")
        case .broken(let error): unreachable(error.reason)
        case .refused(let refusal): unreachable("\(refusal)")
        }
    }

    /// Why nobody answers at any of the server's addresses, or the proxy's: the last of them says it.
    func explain(_ failure: DialFailure?, through proxy: ProxyAddress? = nil) -> String {
        let subject = proxy.map { "the proxy \($0): " } ?? ""
        guard let failure else { return "\(subject)it has no address" }
        // Who has written the address knows it.
        if case .network(let host, _, _, _) = server.kind, failure.address.endpoint.host != proxy?.host ?? host {
            return "\(subject)\(failure.address): \(failure.error.reason)"
        }
        return "\(subject)\(failure.error.reason)"
    }
}

extension ServerAddress {
    /// What connections there go through; nil for going straight.
    func proxy(_ settings: ClientSettings) -> ProxyAddress? {
        guard case .network = kind, let proxy = proxy ?? settings.proxy, !proxy.isDirect else { return nil }
        return proxy
    }
}

/// A connection to a server as bytes in and out. Belongs to the loop's thread, and to one engine.
final class ServerConnection: EventHandler {
    /// How a connection comes to an end.
    enum End {
        /// The server closed it.
        case left
        case broken(SystemError)
        /// A layer below MQTT does not go on.
        case refused(FilterRefusal)
    }

    private let channel: any ByteChannel
    private let filtered: FilteredChannel?
    private let loop: ClientLoop
    private unowned let engine: ClientEngine
    private var registration: Registration?
    private var interest: Interest = .writable
    /// Whether the transport has taken or given anything: before that, a custom channel may be connecting.
    private(set) var isOpen = false
    private var hasSaidGoodbye = false
    /// Whether nothing is read because those who receive are too slow.
    var isPaused = false

    /// Whether a proxy has not let us through yet.
    var awaitsProxy: Bool { filtered?.awaitsProxy == true }

    /// Throws when the kernel refuses.
    init(_ channel: any ByteChannel, loop: ClientLoop, engine: ClientEngine) throws(SystemError) {
        (self.channel, self.loop, self.engine) = (channel, loop, engine)
        filtered = channel as? FilteredChannel
        registration = try loop.events.register(channel.fileDescriptor, for: interest, handler: self)
    }

    func ready(_ events: ReadyEvents) {
        loop.touch(engine)
        if events.contains(.writable) {
            filtered?.flush()
            isOpen = true
        }
        let mayRead = events.contains(.readable) || !events.isDisjoint(with: [.hangUp, .error])
        if mayRead, !isPaused || !events.isDisjoint(with: [.hangUp, .error]) { read() }
    }

    /// Reads once more what a layer has decoded and the socket will not tell of.
    private func read() {
        let room = UnsafeMutableRawBufferPointer(rebasing: loop.events.scratch[..<Limits.readBytesMax])
        switch channel.read(into: room) {
        case .bytes(let count): engine.received(UnsafeRawBufferPointer(rebasing: room[..<count]))
        case .wouldBlock: break
        case .endOfStream: engine.ended(self, .left)
        case .refused(let refusal): engine.ended(self, .refused(refusal))
        case .failed(let error): engine.ended(self, .broken(error))
        }
        if filtered?.hasMore == true, registration != nil { read() }
    }

    /// Sends what the session has for the server, as far as the transport takes it. Returns why it does not, if it is
    /// broken.
    ///
    /// - Parameter most: how many bytes may leave.
    func write(_ session: inout ClientSession, most: Int = .max) -> (count: Int, end: End?) {
        guard isOpen || filtered != nil else { return (0, nil) }
        var count = 0
        var isBlocked = false
        var end: End?
        while session.outputByteCount > 0, count < most, !isBlocked, end == nil {
            session.withOutput { bytes in
                guard let base = bytes.baseAddress else { return 0 }
                let slice = ByteSlice(base: base, count: min(bytes.count, most - count))
                switch withUnsafePointer(to: slice, { channel.write(UnsafeBufferPointer(start: $0, count: 1)) }) {
                case .wrote(let written):
                    count += written
                    return written
                case .wouldBlock:
                    isBlocked = true
                case .failed(let error):
                    end = .broken(error)
                }
                return 0
            }
        }
        let awaitsSocket = (isBlocked && filtered?.awaitsPeer != true) || filtered?.holdsBytes == true || !isOpen
        setInterest(awaitsSocket ? [.writable] : [])
        return (count, end)
    }

    private func setInterest(_ writing: Interest) {
        let wanted = isPaused ? writing : writing.union(.readable)
        guard wanted != interest, let registration else { return }
        interest = wanted
        loop.events.modify(registration, interest: wanted)
    }

    /// The last byte is written: lets the server read it before the connection ends.
    func sayGoodbye() {
        guard !hasSaidGoodbye else { return }
        hasSaidGoodbye = true
        isPaused = false
        channel.shutdownSending()
        setInterest(filtered?.holdsBytes == true ? [.writable] : [])
    }

    func close() {
        if let registration { loop.events.deregister(registration) }
        registration = nil
        channel.close()
    }
}

extension Limits {
    /// Milliseconds that a connection lasts before redirections of earlier ones do not count any more.
    static let redirectionRestMilliseconds: UInt64 = 30_000

    /// How many times its interval the look at the first server may take, after returns that failed.
    static let firstServerCheckGrowthMax: UInt64 = 64

    /// Milliseconds that the CONNECT of a connection that was closed may still be under way: a kernel sends it again
    /// for so long.
    static let lateConnectMillisecondsMax: UInt64 = 120_000
}
