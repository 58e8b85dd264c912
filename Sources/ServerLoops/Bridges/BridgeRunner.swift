package import BrokerCore
package import BrokerModel
import Configuration
package import Federation
package import MQTTCodec
import Platform
package import Transports

/// Messages to the bridges of a loop, from the control thread and the resolver.
package enum BridgeMessage: Sendable {
    /// Run this bridge from now on, or as this plan says.
    ///
    /// - Parameters:
    ///   - atOnce: whether a connection that stands is ended for a change in any case.
    ///   - isPaused: whether one that is new rests until it is resumed.
    case run(BridgePlan, atOnce: Bool, isPaused: Bool)
    /// End its connection; its session stays.
    case pause(String)
    case resume(String)
    /// End it, and forget it and its session here.
    case remove(String)
    /// End a session that was a connection's of a bridge that has fewer of them now.
    case endSession(EncodedString)
    /// How all connections of a bridge are together, for its first one to tell below `$SYS`.
    case sum(BridgeStatus)
    /// Tell how the bridges are.
    case report
    case resolved(String, serial: Int, isProbe: Bool, Result<BridgeRoute, BridgeRouteFailure>)
}

/// The state of one connection of a bridge, and what waits for it here; or of all its connections together.
package struct BridgeStatus: Sendable {
    package let name: String
    /// Counted from 1; of all together, 1.
    package let connection: Int
    /// At the other broker.
    package let clientIdentifier: EncodedString
    package let report: BridgeReport
    /// The address that is connected, or tried; nil before the first attempt.
    package let address: String?
    package let backlog: SessionBacklog
    package let rates: BridgeRates

    package init(
        name: String, connection: Int, clientIdentifier: EncodedString, report: BridgeReport, address: String?,
        backlog: SessionBacklog, rates: BridgeRates
    ) {
        self.name = name
        self.connection = connection
        self.clientIdentifier = clientIdentifier
        self.report = report
        self.address = address
        self.backlog = backlog
        self.rates = rates
    }
}

/// The bridges of one loop: those whose local session lives there.
package struct LoopBridges {
    var runners: [BridgeRunner] = []
    /// When `$SYS` is told of them next.
    var systemTopicsDueAt: UInt64 = 0
    package let resolver = NameResolver()
    private var lastSerial = 0
    /// What the connections read into; made for the first one.
    package lazy var room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
    package var isEmpty: Bool { runners.isEmpty }

    /// Numbers what the resolver is asked, over all bridges: one may be removed, and another of its name be there when
    /// the answer comes.
    mutating func nextSerial() -> Int {
        lastSerial += 1
        return lastSerial
    }
    package var nextDeadline: UInt64? { runners.compactMap(\.nextDeadline).min() }
}

extension ShardLoop {
    package func received(_ message: BridgeMessage) {
        func runner(_ name: String) -> BridgeRunner? { bridges.runners.first { $0.plan.key == name } }
        switch message {
        case .run(let plan, let atOnce, let isPaused):
            if let known = runner(plan.key) { return known.renew(plan, atOnce: atOnce) }
            guard !isStopping else { return }
            let made = BridgeRunner(plan, on: self)
            bridges.runners.append(made)
            if !isPaused { made.start() }
        case .pause(let name): runner(name)?.stop()
        case .resume(let name): runner(name)?.start()
        case .remove(let name):
            guard let removed = runner(name) else { return }
            removed.stop()
            removed.forgetTopics()
            bridges.runners.removeAll { $0 === removed }
            // Another of its name may follow at once.
            shard.endLocalSession(of: removed.plan.settings.localClientIdentifier)
        case .endSession(let clientIdentifier):
            shard.endLocalSession(of: clientIdentifier)
        case .sum(let status): runner(status.name)?.sum = status
        case .report:
            let statuses = bridges.runners.map { $0.status() }
            control?.post(.bridges(statuses))
            sendSystemTopics(statuses)
        case .resolved(let name, let serial, let isProbe, let result):
            runner(name)?.resolved(serial, isProbe: isProbe, result)
        }
    }

    /// Tells of bridges below `$SYS`, as often as of all else; the control thread asks every second, give or take half
    /// of one.
    private func sendSystemTopics(_ statuses: [BridgeStatus]) {
        let now = events.nowMilliseconds
        let interval = UInt64(shard.settings.systemIntervalSeconds) * 1000
        guard interval > 0, now + 500 >= bridges.systemTopicsDueAt else { return }
        bridges.systemTopicsDueAt = now + interval
        for (runner, status) in zip(bridges.runners, statuses) {
            if runner.plan.connectionCount == 1 { runner.report(status) } else if let sum = runner.sum { runner.report(sum) }
        }
    }

    func advanceBridges(now: UInt64) {
        for runner in bridges.runners {
            if let deadline = runner.nextDeadline, deadline <= now { runner.advance(now: now) }
        }
    }

    package func received(_ event: LocalEvent, of id: ConnectionID) {
        bridges.runners.first { $0.client == id }?.received(event)
    }

    /// Says goodbye to all other brokers.
    func stopBridges() {
        for runner in bridges.runners { runner.stop() }
    }
}

/// Carries out a bridge's effects: connects, and passes bytes between the bridge, the other broker and the shard.
/// Belongs to the loop's thread.
final class BridgeRunner: StreamOwner {
    private(set) var plan: BridgePlan
    let bridge: Bridge
    private unowned let loop: ShardLoop
    private var connection: DialledStream?
    private var dialer: Dialer?
    /// The race for the first address while another is connected.
    private var probe: Dialer?
    /// Which answer of the resolver is waited for, 0 for none; and the address that is connected to.
    private var serial = 0
    private var endpoint: BridgePlan.Endpoint
    /// The client here.
    private(set) var client: ConnectionID?
    private var isPerforming = false
    private var figures = BridgeFigures()
    /// How all connections of the bridge are together, as the control thread has told; nil before that.
    var sum: BridgeStatus?

    init(_ plan: BridgePlan, on loop: ShardLoop) {
        self.plan = plan
        self.loop = loop
        endpoint = plan.endpoints[0]
        bridge = Bridge(Self.settings(plan, on: loop), random: KernelRandomNumbers())
    }

    private static func settings(_ plan: BridgePlan, on loop: ShardLoop) -> BridgeSettings {
        var settings = plan.settings
        if plan.saysBrokers { settings.brokerIdentifier = loop.shard.settings.brokerIdentifier }
        return settings
    }

    private var now: UInt64 { loop.events.nowMilliseconds }

    /// What bytes are read into.
    var room: UnsafeMutableRawBufferPointer { loop.bridges.room }

    /// Whether nothing is to be read from the other broker.
    var isPaused: Bool { bridge.isFarPaused }

    var nextDeadline: UInt64? { [bridge.nextDeadline, dialer?.nextDeadline, probe?.nextDeadline].compactMap { $0 }.min() }

    // MARK: Commands

    func start() {
        bridge.start(now: now)
        perform()
    }

    func stop() {
        bridge.stop(now: now)
        perform()
    }

    /// - Parameter atOnce: whether a connection that stands is ended for it, also if the plan's own option says
    ///   otherwise.
    func renew(_ plan: BridgePlan, atOnce: Bool) {
        let isElsewhere = plan.way != self.plan.way
        self.plan = plan
        bridge.renew(
            Self.settings(plan, on: loop), isElsewhere: isElsewhere, atOnce: atOnce || plan.reloadsAtOnce, now: now)
        perform()
    }

    func advance(now: UInt64) {
        if let dialer, let deadline = dialer.nextDeadline, deadline <= now { dialer.advance(now: now) }
        if let probe, let deadline = probe.nextDeadline, deadline <= now { probe.advance(now: now) }
        bridge.advance(now: now)
        perform()
    }

    /// How it is, and how many messages have crossed it since this was asked last.
    func status() -> BridgeStatus {
        let backlog = loop.shard.backlog(of: plan.settings.localClientIdentifier)
        let isTried = bridge.report.connectionCount > 0 || bridge.report.failure != nil || bridge.report.state == .connecting
        let rates = figures.rates(of: bridge.report, now: now)
        return BridgeStatus(
            name: plan.name, connection: plan.connection, clientIdentifier: plan.settings.remote.clientIdentifier,
            report: bridge.report, address: isTried ? endpoint.text : nil, backlog: backlog, rates: rates)
    }

    /// Tells of a status below `$SYS`, where it has changed.
    func report(_ status: BridgeStatus) {
        for (topic, value) in figures.changes(to: status) { loop.shard.publishSystemTopic(topic, value) }
    }

    /// Removes the bridge's `$SYS` topics, because the bridge is removed.
    func forgetTopics() {
        for topic in figures.systemTopics(name: plan.name) { loop.shard.publishSystemTopic(topic, "") }
        guard plan.settings.notifies, let topic = plan.settings.stateTopic else { return }
        loop.shard.performOwn(.publish(PublishPacket(topic: topic.text, qos: .atLeastOnce, retain: true, payload: [])))
    }

    // MARK: The other broker

    private func dial(_ address: Int) {
        endpoint = plan.endpoints[min(address, plan.endpoints.count - 1)]
        // Tries that follow one in vain are told of when they end in another way.
        log(bridge.report.failure == nil ? .connection : .debug, "Connecting bridge \(plan.settings.name) (\(endpoint.text))")
        resolve(endpoint, isProbe: false)
    }

    private func resolve(_ endpoint: BridgePlan.Endpoint, isProbe: Bool) {
        serial = loop.bridges.nextSerial()
        switch endpoint.target {
        case .path(let path):
            race(BridgeRoute(remotes: SocketAddress.unix(path: path).map { [$0] } ?? []), isProbe: isProbe)
        case .host(let name, let port):
            let (bridge, serial, mailbox) = (plan.key, serial, loop.mailbox)
            loop.bridges.resolver.route(to: name, port: port, from: plan.bindAddress) { result in
                mailbox.post(.bridge(.resolved(bridge, serial: serial, isProbe: isProbe, result)))
            }
        }
    }

    func resolved(_ serial: Int, isProbe: Bool, _ result: Result<BridgeRoute, BridgeRouteFailure>) {
        guard serial == self.serial else { return }
        switch result {
        case .success(let route): race(route, isProbe: isProbe)
        case .failure(let error): isProbe ? probed(false) : dialFailed("\(error)")
        }
    }

    private func race(_ route: BridgeRoute, isProbe: Bool) {
        let dialer = Dialer(route.remotes, from: route.locals, loop: loop.events) { [unowned self] channel in
            if isProbe {
                channel?.close()
                return probed(channel != nil)
            }
            if let channel { return open(channel) }
            let reason = self.dialer?.lastFailure.map { "\($0.error.reason)" } ?? "it has no address"
            dialFailed("\(endpoint.text): \(reason)")
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
            let channel = try endpoint.layers.put(on: socket, workspace: loop.workspace)
            connection = try DialledStream(channel, on: loop.events, for: self)
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

    /// The connection has taken some of what waited for it: this broker may have room for more.
    func wrote() { perform() }

    func ended(_ reason: String?) {
        close()
        bridge.farEnded("\(endpoint.text): \(reason ?? "the other broker closed the connection")", now: now)
        perform()
    }

    func failedToWrite(_ error: SystemError, hasLayers: Bool) { if !hasLayers { ended(error.reason) } }

    private func close() {
        connection?.close()
        connection = nil
        dialer?.cancel()
        probe?.cancel()
        (dialer, probe) = (nil, nil)
        serial = 0
    }

    // MARK: This broker

    /// Takes an event of the bridge's client in this broker.
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
        var login = LocalLogin(identifier, identity: plan.localUserName.map { .user($0) } ?? .broker)
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

    /// Carries out the bridge's effects, until there are none.
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

    /// Gives both sides the bytes that wait for them.
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
        case .probe: if probe == nil { resolve(plan.endpoints[0], isProbe: true) }
        case .hangUp: close()
        case .attach(let join): attach(join)
        case .openRoom(let count): if let client { loop.shard.openRoom(count, of: client) }
        case .resume: bridge.resume(now: now)
        case .forget: client = nil
        case .publish(let topic, let payload):
            let packet = PublishPacket(topic: topic.text, qos: .atLeastOnce, retain: true, payload: payload)
            loop.shard.performOwn(.publish(packet))
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

/// Where a connection of a bridge goes to, and where it may come from.
package struct BridgeRoute: Sendable {
    /// The other broker's addresses, in the order in which they are tried.
    let remotes: [SocketAddress]
    /// This machine's; empty for any.
    var locals: [SocketAddress] = []

    package init(
        remotes: [SocketAddress], locals: [SocketAddress] = []
    ) {
        self.remotes = remotes
        self.locals = locals
    }
}

/// Why there is no route: one of the names is not known.
package struct BridgeRouteFailure: Error, CustomStringConvertible {
    package let description: String
}

extension NameResolver {
    /// Looks both ends up, for `bridge_bind_address` may be a name too. Calls `answer` on another thread.
    package func route(
        to host: String, port: UInt16, from local: String?,
        answer: @escaping @Sendable (Result<BridgeRoute, BridgeRouteFailure>) -> Void
    ) {
        resolve(host, port: port) { [self] remotes in
            switch remotes {
            case .failure(let error): answer(.failure(BridgeRouteFailure(description: "\(error)")))
            case .success(let remotes):
                guard let local else { return answer(.success(BridgeRoute(remotes: remotes))) }
                resolve(local, port: 0) { locals in
                    answer(
                        locals.map { BridgeRoute(remotes: remotes, locals: $0) }
                            .mapError { BridgeRouteFailure(description: "bridge_bind_address \($0)") })
                }
            }
        }
    }
}
