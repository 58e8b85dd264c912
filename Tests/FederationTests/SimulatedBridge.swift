import BrokerCore
import BrokerModel
import BrokerSimulation
import Bytes
import Federation
import MQTTCodec

/// A bridge between two simulated brokers, on their clock and over a network of the test's.
final class SimulatedBridge {
    /// One client of the bridge in its broker: what an earlier one is told concerns nobody.
    private final class Party: LocalEventReceiver {
        unowned let owner: SimulatedBridge
        var id: ConnectionID?

        init(_ owner: SimulatedBridge) { self.owner = owner }

        func received(_ event: LocalEvent) { if id != nil, id == owner.client { owner.received(event) } }
    }

    /// The broker that the bridge is part of, and the other one.
    var near: SimulatedBroker
    var far: SimulatedBroker
    private(set) var bridge: Bridge
    let settings: BridgeSettings
    private(set) var connection: SimulatedConnection?
    private var client: ConnectionID?
    private(set) var lines: [String] = []
    /// Whether the other broker can be reached.
    var isReachable = true
    private var random: SeededGenerator
    private var isPerforming = false
    /// Bytes that have left a broker and not reached the other side.
    private var up: [UInt8] = []
    private var down: [UInt8] = []

    init(_ settings: BridgeSettings, near: SimulatedBroker, far: SimulatedBroker, seed: UInt64) {
        (self.settings, self.near, self.far) = (settings, near, far)
        random = SeededGenerator(seed: seed)
        bridge = Bridge(settings, random: SeededGenerator(seed: seed))
        bridge.start(now: near.now)
        perform()
    }

    var isConnected: Bool { bridge.report.state == .connected }

    // MARK: What happens

    private func received(_ event: LocalEvent) {
        switch event {
        case .bytes(let bytes): bytes.withUnsafeBytes { bridge.receivedLocally($0, now: near.now) }
        case .closed:
            client = nil
            bridge.localClosed(now: near.now)
        case .connected, .messages, .published, .subscribed, .unsubscribed: return
        }
        perform()
    }

    /// Some of the bytes on their way arrive, a piece in one direction. Returns whether there were any.
    func carry() -> Bool {
        if let deadline = bridge.nextDeadline, deadline <= near.now {
            bridge.advance(now: near.now)
            perform()
            return true
        }
        down += connection?.takeBytes() ?? []
        let goesUp = up.isEmpty ? false : down.isEmpty ? true : random.oneIn(2)
        if goesUp {
            let piece = Array(up.prefix(random.below(200) + 1))
            up.removeFirst(piece.count)
            connection?.send(piece)
            return true
        }
        if !down.isEmpty, !bridge.isFarPaused {
            let piece = Array(down.prefix(random.below(200) + 1))
            down.removeFirst(piece.count)
            piece.withUnsafeBytes { bridge.received($0, now: near.now) }
            perform()
            return true
        }
        guard let connection, connection.isClosed, down.isEmpty else { return false }
        self.connection = nil
        bridge.farEnded("the other broker closed the connection", now: near.now)
        perform()
        return true
    }

    /// The operator has the settings read again, which are the same.
    ///
    /// - Parameters:
    ///   - isElsewhere: whether it is to connect in another way.
    ///   - atOnce: whether a connection that stands is ended for it.
    func renew(isElsewhere: Bool, atOnce: Bool) {
        bridge.renew(settings, isElsewhere: isElsewhere, atOnce: atOnce, now: near.now)
        perform()
    }

    /// The connection breaks: what is on its way is lost, and the other broker sees the end at some time.
    func cut() {
        guard let connection else { return }
        connection.close(dropsUnsent: random.oneIn(2))
        self.connection = nil
        (up, down) = ([], [])
        bridge.farEnded("Connection reset by peer", now: near.now)
        perform()
    }

    /// The broker with the bridge loses its power, and that of `others` with it.
    func crashNear(with others: [SimulatedBridge] = []) {
        for bridge in [self] + others { bridge.loseNear() }
        near = near.crashed(committing: random.below(3), seed: random.next())
        for bridge in [self] + others { bridge.beginAnew(in: near) }
    }

    private func loseNear() {
        connection?.close(dropsUnsent: true)
        (connection, client, up, down) = (nil, nil, [], [])
    }

    private func beginAnew(in near: SimulatedBroker) {
        self.near = near
        bridge = Bridge(settings, random: SeededGenerator(seed: random.next()))
        bridge.start(now: near.now)
        perform()
    }

    /// The other broker loses its power, which is that of `others` too.
    func crashFar(with others: [SimulatedBridge] = []) {
        let connected = ([self] + others).filter { $0.connection != nil }
        for bridge in [self] + others { (bridge.connection, bridge.up, bridge.down) = (nil, [], []) }
        far = far.crashed(committing: random.below(3), seed: random.next())
        for bridge in others { bridge.far = far }
        for bridge in connected {
            bridge.bridge.farEnded("Connection reset by peer", now: near.now)
            bridge.perform()
        }
    }

    /// Lets time pass on both sides, for `others` between the same brokers too.
    func advance(milliseconds: UInt64, with others: [SimulatedBridge] = []) {
        near.advance(milliseconds: milliseconds)
        far.advance(milliseconds: milliseconds)
        for bridge in [self] + others {
            bridge.bridge.advance(now: near.now)
            bridge.perform()
        }
    }

    /// Goes on until nothing more happens at this time, nor to `others` between the same brokers.
    func settle(with others: [SimulatedBridge] = []) {
        var steps = 0
        repeat {
            near.settle()
            far.settle()
            steps += 1
            precondition(steps < 100_000, "the bridge does not settle")
        } while carry() || others.contains { $0.carry() } || near.hasWorkOrStore || far.hasWorkOrStore
    }

    /// Lets time pass until the bridge is connected and nothing is left to do, and `others` between the same brokers
    /// are too.
    func heal(with others: [SimulatedBridge] = []) {
        for _ in 0..<200 {
            settle(with: others)
            if isConnected, others.allSatisfy(\.isConnected) { return }
            advance(milliseconds: 1000, with: others)
        }
    }

    /// Ends both brokers, for good.
    func powerOff() {
        near.powerOff()
        far.powerOff()
    }

    // MARK: What the bridge wants

    private func perform() {
        guard !isPerforming else { return }
        isPerforming = true
        defer { isPerforming = false }
        while true {
            pass()
            let effects = bridge.takeEffects()
            if effects.isEmpty { break }
            for effect in effects { perform(effect) }
        }
    }

    private var core: BrokerShard { near.cores[near.shard(of: settings.localClientIdentifier)] }

    private func pass() {
        let bytes = bridge.localOutput
        bridge.localOutput = []
        if let client { core.relay(bytes, from: client) }
        up += connection == nil ? [] : bridge.farOutput
        bridge.farOutput = []
        bridge.farWaits(up.count)
    }

    private func perform(_ effect: BridgeEffect) {
        switch effect {
        case .dial:
            guard isReachable else { return bridge.dialFailed("Connection refused", now: near.now) }
            connection = far.open()
            bridge.connected(now: near.now)
        case .probe: bridge.probed(isReachable, now: near.now)
        case .hangUp:
            if !up.isEmpty { connection?.send(up) }
            connection?.close()
            (connection, up, down) = (nil, [], [])
        case .attach(let join): attach(join)
        case .openRoom(let count): if let client { core.openRoom(count, of: client) }
        case .resume: bridge.resume(now: near.now)
        case .forget: client = nil
        case .publish(let topic, let payload):
            _ = core.perform(
                ShardCommand(.publish(PublishPacket(topic: topic.text, qos: .atLeastOnce, retain: true, payload: payload))))
        case .log(_, let line): lines.append(line)
        case .changed: return
        }
    }

    private func attach(_ join: LocalJoin) {
        var login = LocalLogin(settings.localClientIdentifier)
        (login.cleanStart, login.sessionExpiryInterval) = (join.cleanStart, join.sessionExpiryInterval)
        (login.messagesMax, login.bytesMax, login.relays) = (join.receiveMaximum, join.room, true)
        let filters = join.cleanStart ? [] : core.subscriptions(of: settings.localClientIdentifier)
        let unreleased = join.cleanStart ? [] : core.unreleasedIdentifiers(of: settings.localClientIdentifier)
        let id = core.attach(login)
        client = id
        let party = Party(self)
        party.id = id
        near.shards[core.index].parties[id] = party
        bridge.attached(unreleased: unreleased, filters: filters, now: near.now)
    }
}

extension BridgeSettings {
    /// A bridge named `b` with these topics.
    static func test(
        _ version: ProtocolVersion = .v311, _ topics: [BridgedTopic], _ change: (inout BridgeSettings) -> Void = { _ in }
    )
        -> BridgeSettings
    {
        var settings = BridgeSettings(
            name: "b", remote: .init(clientIdentifier: "host.b"), localClientIdentifier: "local.host.b")
        settings.version = version
        settings.topics = topics
        settings.sessionExpiryInterval = 3600
        change(&settings)
        return settings
    }
}
