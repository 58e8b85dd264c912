import Bytes
import MQTTCodec
import Testing

@testable import Cluster

/// Nodes with bus, their clients, the engine, and chance, which breaks what can break.
final class BusWorld: CustomStringConvertible {
    let seed: UInt64
    let clock: SimulatedClock
    let engine: EngineModel
    var nodes: [BusNode] = []
    /// The leases that are held, and when nodes hear of changes.
    private var leases: Set<NodeID> = []
    private var lastClient = 0
    private var lastMessage: UInt64 = 0
    private var lastNode: UInt64 = 0
    var clients: [BusClient] = []
    /// Whether nodes change their servers when others have a SUBACK.
    var isMoving = false
    /// Whether each SUBACK makes all other nodes publish.
    var isProbing = true
    private(set) var failures: [String] = []
    /// When something broke that a node's messages went through.
    private var faults: [Int: [UInt64]] = [:]
    private(set) var messages: [UInt64: SentMessage] = [:]
    /// How many pairs of a subscription and a message from another node were looked at.
    private(set) var checkedCount = 0
    /// Members of share groups, and what was dispatched to the groups.
    var members: [BusMember] = []
    private var lastMember = 0
    private var groups: [ShareGroupName: BusGroup] = [:]
    private(set) var givenUp: Set<UInt64> = []
    private let topics = ["a/b", "a/c", "b", "a/b/c", "/x", "a.*/ %"]
    private let filters = ["a/b", "a/+", "a/#", "#", "+/b", "b", "/+", "a.*/ %", "a/+/c", "+/+"]

    struct SentMessage {
        let topic: TopicName
        let publisher: Int
        let node: BusNode
        let at: UInt64
        /// Whether the node knew of the members of share groups.
        let isKnowing: Bool
        /// When it left the bus; nil as long as it has not.
        var leftAt: UInt64?
    }

    init(seed: UInt64, serverCount: Int = 3, nodeCount: Int = 3) {
        self.seed = seed
        clock = SimulatedClock(seed: seed)
        engine = EngineModel(clock: clock, serverCount: serverCount)
        if seed % 3 == 0 {
            let far = clock.random.below(serverCount)
            engine.slow(far, (far + 1) % serverCount, times: 200)
        }
        for _ in 0..<nodeCount { startNode() }
        clock.run(for: 2_000_000)
    }

    var description: String { "seed \(seed): \(failures.prefix(3).joined(separator: "; "))" }

    func fail(_ text: String) { failures.append("\(text) at \(clock.now)") }

    // MARK: Leases

    /// Writes a lease, and gives the list as it is then.
    func takeLease(_ node: NodeID) -> [NodeID] {
        leases.insert(node)
        tellLeases()
        return leases.sorted()
    }

    func endLease(_ node: NodeID) {
        leases.remove(node)
        tellLeases()
    }

    private func tellLeases() {
        let list = leases.sorted()
        for node in nodes {
            clock.at(node.watch.arrival(clock, after: clock.delay(500...5000) * (clock.random.oneIn(4) ? 100 : 1))) {
                node.hear(list)
            }
        }
    }

    // MARK: Chance

    private func pick<T>(_ all: [T]) -> T? { all.isEmpty ? nil : all[clock.random.below(all.count)] }

    @discardableResult
    func startNode() -> BusNode {
        lastNode += 1
        let node = BusNode(NodeID(lastNode), index: Int(lastNode), world: self)
        nodes.append(node)
        node.start()
        return node
    }

    /// One thing happens; then some time passes.
    func step(faults: Bool) {
        switch clock.random.below(faults ? 40 : 30) {
        case 0..<9:
            guard let node = pick(nodes), let filter = pick(filters).flatMap({ TopicFilter($0) }) else { return }
            subscribe(filter, at: node)
        case 9..<13:
            guard let client = pick(clients.filter { $0.isSubscribed }) else { return }
            client.isSubscribed = false
            client.node.release(client)
        case 13..<30:
            guard let node = pick(nodes), let topic = pick(topics).flatMap({ TopicName($0) }) else { return }
            publish(topic, at: node, count: 1 + clock.random.below(5))
        case 30..<34:
            guard let node = pick(nodes) else { return }
            record(node)
            node.connection?.breakDown()
        case 34: pick(Array(engine.servers.indices)).map { kill($0) }
        case 35: engine.servers.indices.forEach { engine.start($0) }
        case 36:
            let (one, other) = (clock.random.below(engine.servers.count), clock.random.below(engine.servers.count))
            guard one != other else { return }
            record(server: one)
            record(server: other)
            engine.cut(one, other)
        case 37: engine.mend()
        case 38:
            guard nodes.count > 2, let node = pick(nodes) else { return }
            killNode(node)
        default:
            if nodes.count < 5 { startNode() }
        }
        clock.run(for: clock.random.oneIn(10) ? 3_000_000 : UInt64(clock.random.below(3000)))
    }

    /// A member of a share group comes or goes, or somebody publishes; then some time passes.
    func stepGroups() {
        switch clock.random.below(10) {
        case 0..<3:
            guard let node = pick(nodes), let name = pick([("g", "a/#"), ("h", "a/b")]) else { return }
            lastMember += 1
            let member = BusMember(
                lastMember, ShareGroupName(shareName: Array(name.0.utf8), filter: Array(name.1.utf8)), node)
            members.append(member)
            node.join(member)
        case 3..<5:
            guard let member = pick(members) else { return }
            members.removeAll { $0 === member }
            member.isThere = false
            member.node.leave(member)
            if !members.contains(where: { $0.name == member.name && $0.isConfirmed }) {
                groups[member.name]?.isConfirmed = false
                groups[member.name]?.emptiedAt.append(clock.now)
            }
        default:
            guard let node = pick(nodes) else { return }
            publish("a/b", at: node, count: 1 + clock.random.below(5))
        }
        clock.run(for: UInt64(clock.random.below(3000)))
    }

    func confirmed(_ member: BusMember) {
        member.isConfirmed = true
        groups[member.name, default: BusGroup()].isConfirmed = true
        for node in nodes where isProbing { publish("a/b", at: node) }
    }

    /// A message has met one node after the other that had just lost its last member, and goes no further.
    func gaveUp(_ number: UInt64) { givenUp.insert(number) }

    func dispatched(_ member: BusMember, _ number: UInt64) {
        groups[member.name, default: BusGroup()].dispatched[number, default: 0] += 1
        if !member.node.hasOpened { groups[member.name]?.unknowing[number, default: 0] += 1 }
    }

    /// How often the messages came of which each group was to have one copy; those that were under way when a group
    /// lost its last member with a SUBACK, on the way from node to node, are left out.
    func checkGroups(from first: UInt64 = 0) -> (lost: Int, extra: Int, whole: Int) {
        var found = (lost: 0, extra: 0, whole: 0)
        for (name, group) in groups {
            for number in group.expected where number >= first {
                // What waits for its node to be open has not left.
                guard !givenUp.contains(number), let message = messages[number], let leftAt = message.leftAt,
                    !group.emptiedAt.contains(where: { (message.at...(leftAt + 4 * Self.flightMicroseconds)).contains($0) })
                else { continue }
                switch group.dispatched[number] ?? 0 {
                case 0: found.lost += 1
                case 1: found.whole += 1
                default: found.extra += 1
                }
                // Who does not know of the members of others leaves a message to them, besides to its own; so does who
                // gets such a message, and does not know of them either.
                let allowed = 1 + (message.isKnowing ? 0 : group.unknowing[number] ?? 0)
                if !(1...allowed).contains(group.dispatched[number] ?? 0) {
                    let text = String(decoding: name.shareName, as: UTF8.self)
                    fail("group \(text) has message \(number) \(group.dispatched[number] ?? 0) times")
                }
            }
        }
        return found
    }

    private func kill(_ server: Int) {
        record(server: server)
        engine.kill(server)
        // Or it is started again at once.
        if clock.random.oneIn(2) {
            clock.after(UInt64.random(in: 1000...30_000, using: &clock.random)) { [self] in engine.start(server) }
        }
    }

    private func record(server: Int) { for node in nodes where node.connection?.server == server { record(node) } }

    private func record(_ node: BusNode) { faults[node.index, default: []].append(clock.now) }

    private func killNode(_ node: BusNode) {
        record(node)
        nodes.removeAll { $0 === node }
        clients.removeAll { $0.node === node }
        for member in members where member.node === node { member.isThere = false }
        members.removeAll { !$0.isThere }
        for name in groups.keys where !members.contains(where: { $0.name == name && $0.isConfirmed }) {
            groups[name]?.isConfirmed = false
        }
        node.stop()
        clock.after(10_000_000) { [self] in endLease(node.id) }
    }

    /// Everything works again, and has time to find together.
    func heal() {
        engine.servers.indices.forEach { engine.start($0) }
        engine.mend()
        clock.run(for: 20_000_000)
    }

    // MARK: Clients

    @discardableResult
    func subscribe(_ filter: TopicFilter, at node: BusNode) -> BusClient {
        lastClient += 1
        let client = BusClient(lastClient, filter, node)
        clients.append(client)
        node.subscribe(client)
        return client
    }

    /// A SUBACK has left: whoever hears of it publishes, on every node.
    func confirmed(_ client: BusClient) {
        (client.confirmedAt, client.confirmedAfter) = (clock.now, lastMessage)
        guard isProbing, let topic = topics.lazy.compactMap({ TopicName($0) }).first(where: { client.filter.matches($0) }) else {
            return
        }
        for node in nodes where node !== client.node { publish(topic, at: node) }
        // One of them finds another server, and somebody publishes as soon as it is there.
        guard isMoving, clock.random.oneIn(3), let mover = pick(nodes.filter { $0 !== client.node }) else { return }
        record(mover)
        mover.connection?.breakDown()
        mover.publishesNext = topic
    }

    /// Several leave together.
    func publish(_ topic: TopicName, at node: BusNode, count: Int = 1) {
        for _ in 0..<count { collect(topic, at: node) }
        node.sendCollected()
    }

    private func collect(_ topic: TopicName, at node: BusNode) {
        lastMessage += 1
        for name in groups.keys where groups[name]?.isConfirmed ?? false {
            if TopicFilter(name.filter)?.matches(topic) ?? false { groups[name]?.expected.append(lastMessage) }
        }
        messages[lastMessage] = SentMessage(
            topic: topic, publisher: node.index, node: node, at: clock.now, isKnowing: node.hasOpened)
        node.publish(topic, lastMessage)
    }

    /// The node's bus has let a message go.
    func left(_ number: UInt64) { messages[number]?.leftAt = clock.now }

    func received(_ client: BusClient, _ number: UInt64) {
        guard let message = messages[number] else { return fail("client \(client.number) got a message that nobody sent") }
        if !client.received.insert(number).inserted { fail("client \(client.number) got message \(number) twice") }
        let key = "\(message.publisher) \(message.topic)"
        if number < client.last[key] ?? 0 {
            fail("client \(client.number) got \(number) of \(key) behind \(client.last[key] ?? 0)")
        }
        client.last[key] = number
    }

    // MARK: Promises

    /// How long a message is under way at most.
    private static let flightMicroseconds: UInt64 = 1_000_000

    /// Whether something broke around the node within the time that a message may be under way.
    private func isHit(_ node: BusNode, _ time: UInt64) -> Bool {
        faults[node.index, default: []].contains { (time...(time + Self.flightMicroseconds)).contains($0) }
    }

    /// Whoever was told that its subscription is in force has got all that left afterwards, but for what was under way
    /// when something broke.
    func check() {
        for client in clients where client.isSubscribed {
            guard let confirmedAt = client.confirmedAt else { continue }
            for (number, message) in messages.sorted(by: { $0.key < $1.key }) {
                guard number > client.confirmedAfter, client.filter.matches(message.topic), !client.received.contains(number) else {
                    continue
                }
                guard message.node !== client.node else {
                    fail("client \(client.number) lacks message \(number) of its own node")
                    continue
                }
                checkedCount += 1
                // What has just left is still under way.
                guard let leftAt = message.leftAt, leftAt + Self.flightMicroseconds < clock.now else { continue }
                if isHit(message.node, leftAt) || isHit(client.node, leftAt) || client.node.missed.contains(number) { continue }
                fail(
                    "client \(client.number) of node \(client.node.index), confirmed at \(confirmedAt), lacks message \(number), which left node \(message.publisher) at \(leftAt)"
                )
            }
        }
    }

    /// With everything well again: whoever is subscribed has been told so, and gets what any node publishes.
    func checkLiveness() {
        heal()
        for client in clients where client.isSubscribed && client.confirmedAt == nil {
            fail("client \(client.number) has no SUBACK")
        }
        for node in nodes where node.bus.state != .open { fail("node \(node.index) is \(node.bus.state)") }
        let before = lastMessage
        for topic in topics.compactMap({ TopicName($0) }) { for node in nodes { publish(topic, at: node) } }
        clock.run(for: 3_000_000)
        for client in clients where client.isSubscribed {
            for (number, message) in messages where number > before && client.filter.matches(message.topic) {
                if !client.received.contains(number) { fail("client \(client.number) lacks \(number) after all is well") }
            }
        }
    }
}

/// A client with one subscription.
final class BusClient {
    let number: Int
    let filter: TopicFilter
    let node: BusNode
    var isSubscribed = true
    var confirmedAt: UInt64?
    /// The last message that was published before.
    var confirmedAfter: UInt64 = 0
    var received: Set<UInt64> = []
    /// The newest message by publisher and topic.
    var last: [String: UInt64] = [:]

    init(_ number: Int, _ filter: TopicFilter, _ node: BusNode) {
        self.number = number
        self.filter = filter
        self.node = node
    }
}

/// A member of a share group.
final class BusMember {
    let number: Int
    let name: ShareGroupName
    let node: BusNode
    var isThere = true
    var isConfirmed = false

    init(_ number: Int, _ name: ShareGroupName, _ node: BusNode) { (self.number, self.name, self.node) = (number, name, node) }
}

/// What is known of a share group.
struct BusGroup {
    /// Whether a member has a SUBACK.
    var isConfirmed = false
    /// When the last of these has left.
    var emptiedAt: [UInt64] = []
    /// The messages that were published while one was there.
    var expected: [UInt64] = []
    /// How often each message has come.
    var dispatched: [UInt64: Int] = [:]
    /// How often it has come by nodes that did not know of the members of others.
    var unknowing: [UInt64: Int] = [:]
}
