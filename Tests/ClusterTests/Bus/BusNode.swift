import BrokerModel
import Bytes
import MQTTCodec

@testable import Cluster

/// A node: a bus, a connection to the engine that comes back, and clients that are matched as a broker does.
final class BusNode: EngineClient, BusSink {
    let id: NodeID
    let index: Int
    private unowned let world: BusWorld
    private(set) var bus: ClusterBus
    private(set) var connection: EngineConnection?
    private var clients: [BusClient] = []
    private var tickets: [(ticket: UInt64, client: BusClient)] = []
    private var isRunning = true
    /// Whether it has been open, and knows of the members of share groups.
    private(set) var hasOpened = false
    private var lastSubscription: UInt64 = 0
    private var ticking: UInt64?
    /// What is published as soon as there is a connection again.
    var publishesNext: TopicName?
    /// What the watch of leases tells comes in order.
    var watch = FIFO()
    /// Messages that could not be expected: when they left, the node was not open, its connection broken, or the
    /// network between the servers cut.
    private(set) var missed: Set<UInt64> = []

    init(_ id: NodeID, index: Int, world: BusWorld) {
        self.id = id
        self.index = index
        self.world = world
        bus = ClusterBus(
            node: id, space: SubjectSpace(cluster: "c"), worksDetached: false,
            groupNewsBytesMax: world.seed % 2 == 0 ? nil : 1)
    }

    /// The members of share groups here, and how many other nodes have told of.
    private var members: [BusMember] = []
    private var elsewhere: [ShareGroupName: [NodeID: GroupNews]] = [:]
    /// The parts of the node learn in order.
    private var learning = FIFO()
    private var memberTickets: [(ticket: UInt64, member: BusMember)] = []

    private var clock: SimulatedClock { world.clock }

    private func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }

    // MARK: Life

    func start() {
        clock.after(clock.delay(1000...5000) * (clock.random.oneIn(3) ? 30 : 1)) { [self] in
            guard isRunning else { return }
            bus.live(world.takeLease(id), now: clock.milliseconds, self)
            schedule()
        }
        dial()
    }

    func stop() {
        isRunning = false
        connection?.close()
    }

    func hear(_ leases: [NodeID]) {
        // A list that was read before the own lease was written is not for the bus.
        guard isRunning, leases.contains(id) else { return }
        bus.live(leases, now: clock.milliseconds, self)
        schedule()
    }

    private func dial() {
        clock.after(clock.delay(500...50_000, rareFactor: 20)) { [self] in
            guard isRunning, connection == nil else { return }
            let up = world.engine.servers.indices.filter { world.engine.servers[$0].isUp }
            guard !up.isEmpty else { return dial() }
            connection = world.engine.connect(self, to: up[clock.random.below(up.count)])
            bus.attached(now: clock.milliseconds, self)
            if let topic = publishesNext {
                publishesNext = nil
                world.publish(topic, at: self)
            }
            schedule()
        }
    }

    func closed() {
        connection = nil
        bus.detached(self)
        dial()
    }

    private func schedule() {
        if bus.state == .open, !hasOpened { learn { [self] in hasOpened = true } }
        guard let at = bus.wakesAt, ticking != at else { return }
        ticking = at
        clock.at(at * 1000) { [self] in
            guard isRunning else { return }
            if ticking == at { ticking = nil }
            bus.tick(now: clock.milliseconds, self)
            schedule()
        }
    }

    // MARK: Clients

    func subscribe(_ client: BusClient) {
        clients.append(client)
        let ticket = bus.want(client.filter.bytes, now: clock.milliseconds, self)
        schedule()
        if let ticket { tickets.append((ticket, client)) } else { world.confirmed(client) }
    }

    func release(_ client: BusClient) {
        clients.removeAll { $0 === client }
        tickets.removeAll { $0.client === client }
        bus.release(client.filter.bytes, self)
    }

    func publish(_ topic: TopicName, _ number: UInt64) {
        for client in clients where client.filter.matches(topic) { world.received(client, number) }
        collect(topic, number, dispatch(topic, number).map { GroupDispatch(shares: $0, hops: 0) })
    }

    private func collect(_ topic: TopicName, _ number: UInt64, _ dispatch: GroupDispatch?) {
        withUnsafeBytes(of: number.bigEndian) { payload in
            withMessage(topic.bytes, payload) { message in
                message.dispatch = dispatch
                bus.collect(message, now: clock.milliseconds, self)
            }
        }
    }

    func sendCollected() { bus.sendCollected(self) }

    // MARK: Share groups

    func join(_ member: BusMember) {
        members.append(member)
        let tickets = [bus.want(member.name.filter, now: clock.milliseconds, self), report(member.name)].compactMap { $0 }
        if let ticket = tickets.max() { memberTickets.append((ticket, member)) } else { world.confirmed(member) }
    }

    func leave(_ member: BusMember) {
        members.removeAll { $0 === member }
        memberTickets.removeAll { $0.member === member }
        bus.release(member.name.filter, self)
        _ = report(member.name)
    }

    private func report(_ name: ShareGroupName) -> UInt64? {
        let count = members.count { $0.name == name }
        let ticket = bus.members(of: name, part: 0, GroupSize(connected: count), now: clock.milliseconds, self)
        schedule()
        return ticket
    }

    /// Chooses a member of each group as a broker does; nil if no group matches.
    private func dispatch(_ topic: TopicName, _ number: UInt64) -> [GroupShare]? {
        let names = Set(members.map(\.name)).union(elsewhere.keys).sorted { $0.shareName.lexicographicallyPrecedes($1.shareName) }
            .filter { TopicFilter($0.filter)?.matches(topic) ?? false }
        guard !names.isEmpty else { return nil }
        guard hasOpened else {
            for name in names { if let member = members.last(where: { $0.name == name }) { world.dispatched(member, number) } }
            return nil
        }
        return names.compactMap { name in
            let here = members.filter { $0.name == name }
            let others = (elsewhere[name] ?? [:]).sorted { $0.key < $1.key }
            let isNear = bus.state != .open && !here.isEmpty
            let turn = clock.random.below(here.count + (isNear ? 0 : 1) * others.reduce(0) { $0 + $1.value.size.connected })
            if turn < here.count {
                world.dispatched(here[turn], number)
                return nil
            }
            var left = turn - here.count
            for (node, news) in others {
                if left < news.size.connected { return GroupShare(node: node.rawValue, number: news.number) }
                left -= news.size.connected
            }
            return nil
        }
    }

    private func dispatch(
        _ number: UInt64, _ topic: TopicName, _ dispatched: DispatchedGroups?, from publisher: NodeID?
    ) {
        let hops = dispatched?.hops ?? 0
        let names =
            dispatched?.names.map { ShareGroupName(shareName: $0.shareName, filter: $0.filter) }
            ?? Set(members.map(\.name)).filter { name in
                let others = (elsewhere[name] ?? [:]).keys
                return others.allSatisfy { $0 > id || $0 == publisher } && TopicFilter(name.filter)?.matches(topic) ?? false
            }
        for name in names {
            if let member = members.last(where: { $0.name == name }) {
                world.dispatched(member, number)
            } else if hops < Self.hopsMax {
                let others = (elsewhere[name] ?? [:]).sorted { $0.key < $1.key }
                guard !others.isEmpty else { continue }
                let (node, news) = others[clock.random.below(others.count)]
                // In front of what it says to have learned.
                let share = GroupShare(node: node.rawValue, number: news.number)
                collect(topic, number, GroupDispatch(shares: [share], hops: hops + 1))
                sendCollected()
            } else {
                world.gaveUp(number)
            }
        }
    }

    /// How often a message is passed on from one node to another.
    private static let hopsMax: UInt8 = 8

    func learn(_ news: [GroupNews], of node: NodeID, _ receipt: GroupReceipt) {
        learn { [self] in
            for one in news {
                elsewhere[one.name, default: [:]][node] = one.size.connected == 0 ? nil : one
                if elsewhere[one.name]?.isEmpty ?? false { elsewhere[one.name] = nil }
            }
            guard isRunning else { return }
            bus.learned(receipt, self)
            schedule()
        }
    }

    func forget(_ node: NodeID) {
        learn { [self] in
            for name in elsewhere.keys {
                elsewhere[name]?[node] = nil
                if elsewhere[name]?.isEmpty ?? false { elsewhere[name] = nil }
            }
        }
    }

    /// What chooses members gets later what the bus has, in the same order.
    private func learn(_ body: @escaping () -> Void) {
        clock.at(learning.arrival(clock, after: clock.delay(0...300)), body)
    }

    /// Whether a message that left at a server, just now, can be expected to reach this node. That a server has just
    /// started is no excuse: a node is not open before its server has found the others.
    func isReachable(from server: Int) -> Bool {
        guard bus.state == .open, let connection, connection.isOpen else { return false }
        return server == connection.server || !world.engine.isCut(server, connection.server)
    }

    func miss(_ number: UInt64) { missed.insert(number) }

    // MARK: The engine

    func received(subject: String, reply: String, isNobodyThere: Bool, payload: [UInt8]) {
        guard isRunning else { return }
        bus.receive(
            Array(subject.utf8), reply: Array(reply.utf8), payload, isNobodyThere: isNobodyThere, now: clock.milliseconds, self)
        schedule()
    }

    // MARK: BusSink

    func subscribe(_ subject: [UInt8]) -> UInt64 {
        lastSubscription += 1
        connection?.subscribe(text(subject), identifier: lastSubscription)
        return lastSubscription
    }

    func unsubscribe(_ subscription: UInt64) { connection?.unsubscribe(subscription) }

    func publish(_ subject: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, count: Int) {
        guard let connection, connection.isOpen else { return }
        connection.publish(text(subject), reply: text(reply), payload: Array(payload))
        _ = BusBatch.forEach(payload) { envelope in
            guard let decoded = ClusterMessage.decode(envelope, now: 0) else { return }
            let number = decoded.message.payload.reduce(0) { $0 << 8 | UInt64($1) }
            world.left(number)
            for node in world.nodes where node !== self && !node.isReachable(from: connection.server) { node.miss(number) }
        }
    }

    func deliver(_ message: ClusterMessage) {
        let number = message.payload.reduce(0) { $0 << 8 | UInt64($1) }
        guard let topic = TopicName(message.topic) else { return world.fail("a topic is none") }
        let (dispatched, publisher) = (message.dispatched, message.undispatched.map { NodeID($0.by) })
        learn { [self] in if isRunning { dispatch(number, topic, dispatched, from: publisher) } }
        guard dispatched?.hops ?? 0 == 0 else { return }
        for client in clients where client.filter.matches(topic) { world.received(client, number) }
    }

    func confirm(through ticket: UInt64) {
        let confirmed = tickets.filter { $0.ticket <= ticket }
        tickets.removeAll { $0.ticket <= ticket }
        // After the call: what is told to clients leads to calls of the bus.
        let joined = memberTickets.filter { $0.ticket <= ticket }
        memberTickets.removeAll { $0.ticket <= ticket }
        clock.after(0) { [self] in for (_, member) in joined where isRunning && member.isThere { world.confirmed(member) } }
        clock.after(0) { [self] in for (_, client) in confirmed where isRunning && client.isSubscribed { world.confirmed(client) } }
    }
}

/// A message of a client of QoS 0, to be changed by `body`; it is valid during the call.
func withMessage<Result>(
    _ topic: [UInt8], _ payload: UnsafeRawBufferPointer, _ body: (inout ClusterMessage) -> Result
) -> Result {
    topic.withUnsafeBytes { topic in
        var message = ClusterMessage(
            topic: topic, properties: UnsafeRawBufferPointer(start: nil, count: 0), payload: payload, qos: .atMostOnce,
            retain: false,
            expiresAt: nil)
        return body(&message)
    }
}

extension ClusterBus {
    /// Handles a message as `received` does.
    mutating func receive(
        _ subject: [UInt8], reply: [UInt8] = [], _ payload: [UInt8], isNobodyThere: Bool = false, now: UInt64 = 0,
        _ sink: some BusSink
    ) {
        subject.withUnsafeBytes { subject in
            reply.withUnsafeBytes { reply in
                payload.withUnsafeBytes {
                    received(subject: subject, reply: reply, isNobodyThere: isNobodyThere, payload: $0, now: now, sink)
                }
            }
        }
    }
}
