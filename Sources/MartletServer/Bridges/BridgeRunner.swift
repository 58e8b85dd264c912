import BrokerCore
import Configuration
import EpollLoop
import Federation
import MQTTCodec
import Platform
import Transports

/// Does what a bridge wants: connects, and carries bytes between it, the other broker and the shard. Belongs to the loop's thread.
final class BridgeRunner {
    private(set) var plan: BridgePlan
    let bridge: Bridge
    private unowned let loop: ShardLoop
    private var connection: BridgeConnection?
    private var dialer: Dialer?
    /// The race for the first address while another is connected.
    private var probe: Dialer?
    /// Which answer of the resolver is waited for, and the address that is connected to.
    private var serial = 0
    private var place: BridgePlan.Place
    /// The client here.
    private(set) var client: ConnectionID?
    private var isPerforming = false

    init(_ plan: BridgePlan, on loop: ShardLoop) {
        self.plan = plan
        self.loop = loop
        place = plan.places[0]
        bridge = Bridge(plan.settings, random: KernelRandomNumbers())
    }

    private var now: UInt64 { loop.events.nowMilliseconds }

    /// What bytes are read into.
    var room: UnsafeMutableRawBufferPointer { loop.bridges.room }

    /// Whether nothing is to be read from the other broker.
    var isPaused: Bool { bridge.isFarPaused }

    var nextDeadline: UInt64? { [bridge.nextDeadline, dialer?.nextDeadline, probe?.nextDeadline].compactMap { $0 }.min() }

    // MARK: Orders

    func start() {
        bridge.start(now: now)
        perform()
    }

    func stop() {
        bridge.stop(now: now)
        perform()
    }

    func renew(_ plan: BridgePlan) {
        self.plan = plan
        bridge.renew(plan.settings, atOnce: plan.reloadsAtOnce, now: now)
        perform()
    }

    func advance(now: UInt64) {
        if let dialer, let deadline = dialer.nextDeadline, deadline <= now { dialer.advance(now: now) }
        if let probe, let deadline = probe.nextDeadline, deadline <= now { probe.advance(now: now) }
        bridge.advance(now: now)
        perform()
    }

    // MARK: The other broker

    private func dial(_ address: Int) {
        place = plan.places[min(address, plan.places.count - 1)]
        log(.connection, "Connecting bridge \(plan.name) (\(place.text))")
        resolve(place, isProbe: false)
    }

    private func resolve(_ place: BridgePlan.Place, isProbe: Bool) {
        serial += 1
        switch place.target {
        case .path(let path):
            race(SocketAddress.unix(path: path).map { [$0] } ?? [], isProbe: isProbe)
        case .host(let name, let port):
            let (bridge, serial, mailbox) = (plan.name, serial, loop.mailbox)
            loop.bridges.resolver.resolve(name, port: port) { result in
                mailbox.post(.bridge(.resolved(bridge, serial: serial, isProbe: isProbe, result)))
            }
        }
    }

    func resolved(_ serial: Int, isProbe: Bool, _ result: Result<[SocketAddress], ResolutionError>) {
        guard serial == self.serial else { return }
        switch result {
        case .success(let addresses): race(addresses, isProbe: isProbe)
        case .failure(let error): isProbe ? probed(false) : dialFailed("\(error)")
        }
    }

    private func race(_ addresses: [SocketAddress], isProbe: Bool) {
        let locals: [SocketAddress]
        do throws(ResolutionError) {
            // A numeric address, so that nothing is asked for.
            locals =
                try plan.bindAddress.map { name throws(ResolutionError) in
                    try ListenAddress(host: .named(name), port: 0).resolve()
                } ?? []
        } catch {
            return isProbe ? probed(false) : dialFailed("bridge_bind_address \(error)")
        }
        let dialer = Dialer(addresses, from: locals, loop: loop.events) { [unowned self] channel in
            if isProbe {
                channel?.close()
                return probed(channel != nil)
            }
            if let channel { return open(channel) }
            let reason = self.dialer?.lastFailure.map { "\($0.error.reason)" } ?? "it has no address"
            dialFailed("\(place.text): \(reason)")
        }
        if isProbe { probe = dialer } else { self.dialer = dialer }
        dialer.advance(now: now)
    }

    private func dialFailed(_ reason: String) {
        dialer = nil
        bridge.dialFailed(reason, now: now)
        perform()
    }

    private func probed(_ isThere: Bool) {
        probe = nil
        bridge.probed(isThere, now: now)
        perform()
    }

    private func open(_ socket: SocketChannel) {
        dialer = nil
        do throws(SystemError) {
            let alive = plan.tcpKeepAlive.map { (idle: $0.idleSeconds, interval: $0.intervalSeconds, count: $0.count) }
            try socket.watch(keepAlive: alive, userTimeout: plan.tcpUserTimeoutMilliseconds)
            let channel = try place.layers.put(on: socket, workspace: loop.workspace)
            connection = try BridgeConnection(channel, on: loop.events, for: self)
        } catch {
            socket.close()
            return dialFailed("\(error)")
        }
        bridge.connected(now: now)
        perform()
    }

    func received(_ bytes: UnsafeRawBufferPointer) {
        bridge.received(bytes, now: now)
        perform()
    }

    func ended(_ reason: String) {
        close()
        bridge.farEnded("\(place.text): \(reason)", now: now)
        perform()
    }

    private func close() {
        connection?.close()
        connection = nil
        dialer?.cancel()
        probe?.cancel()
        (dialer, probe) = (nil, nil)
        serial += 1
    }

    // MARK: This broker

    /// What the shard has to say to the client here.
    func received(_ event: LocalEvent) {
        switch event {
        case .bytes(let bytes): bytes.withUnsafeBytes { bridge.receivedLocally($0, now: now) }
        case .closed:
            client = nil
            bridge.localClosed(now: now)
        // Of clients that do not relay.
        case .connected, .messages, .published, .subscribed, .unsubscribed: return
        }
        perform()
    }

    private func attach(_ join: LocalJoin) {
        let identifier = plan.settings.localClientIdentifier
        let listener = loop.shard.settings.listeners.count > 1 ? 0 : nil
        var login = LocalLogin(identifier)
        if let user = plan.localUserName, let listener { login.identity = .client(listener: listener, userName: user) }
        login.cleanStart = join.cleanStart
        login.sessionExpiryInterval = join.sessionExpiryInterval
        login.messagesMax = join.receiveMaximum
        login.bytesMax = join.room
        login.relays = true
        let filters = join.cleanStart ? [] : loop.shard.subscriptions(of: identifier)
        let unreleased = join.cleanStart ? [] : loop.shard.unreleasedIdentifiers(of: identifier)
        client = loop.shard.attach(login)
        bridge.attached(unreleased: unreleased, filters: filters, now: now)
    }

    // MARK: Effects

    /// Does what the bridge wants, until it wants nothing more.
    private func perform() {
        guard !isPerforming else { return }
        isPerforming = true
        defer { isPerforming = false }
        while true {
            pass()
            let effects = bridge.takeEffects()
            guard !effects.isEmpty else { break }
            for effect in effects { perform(effect) }
        }
        connection?.settle()
    }

    /// Gives both sides what there is for them.
    private func pass() {
        if !bridge.localOutput.isEmpty {
            var bytes: [UInt8] = []
            swap(&bytes, &bridge.localOutput)
            if let client { loop.shard.relay(bytes, from: client) }
        }
        guard let connection else {
            bridge.farOutput = []
            return
        }
        if !bridge.farOutput.isEmpty {
            var bytes: [UInt8] = []
            swap(&bytes, &bridge.farOutput)
            connection.send(bytes)
        }
        bridge.farWaits(connection.waitingBytes)
    }

    private func perform(_ effect: BridgeEffect) {
        switch effect {
        case .dial(let address): dial(address)
        case .probe: if probe == nil { resolve(plan.places[0], isProbe: true) }
        case .hangUp: close()
        case .attach(let join): attach(join)
        case .openRoom(let count): if let client { loop.shard.openRoom(count, of: client) }
        case .resume: bridge.resume(now: now)
        case .forget: client = nil
        case .publish(let topic, let payload):
            let packet = PublishPacket(topic: topic.text, qos: .atLeastOnce, retain: true, payload: payload)
            _ = loop.shard.order(ShardOrder(.publish(packet)))
        case .log(let level, let text): log(level, text)
        case .changed: return
        }
    }

    private func log(_ level: BridgeLogLevel, _ text: String) {
        switch level {
        case .debug: loop.log.write(.debug, text)
        case .connection: if plan.logsConnections { loop.log.write(.notice, text) }
        case .warning: loop.log.write(.warning, text)
        case .error: loop.log.write(.error, text)
        }
    }
}
