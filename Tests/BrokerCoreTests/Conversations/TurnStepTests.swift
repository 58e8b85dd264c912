import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// What one client asks for at once takes many turns, each with a bounded number of steps: packets with many deep
/// filters, the ends of sessions that have such, and presence events.
@Suite struct TurnStepTests {
    /// Filters that have nothing in common, so deep that a turn does some twenty of them.
    private static func deepFilters(_ count: Int, _ prefix: String = "", levels: Int = 200) -> [TopicFilter] {
        (0..<count).map { number in
            let rest = (2..<levels).map { "\(number % 7 + $0 % 3)" }.joined(separator: "/")
            return TopicFilter(stringLiteral: "\(prefix)\(number)/\(rest)/+")
        }
    }

    private static func topic(of filter: TopicFilter) -> EncodedString {
        EncodedString(filter.matchingBytes.dropLast() + [UInt8(ascii: "x")]) ?? ""
    }

    private struct Most {
        var packets = 0
        var ends = 0
        var turns = 0
    }

    /// Goes on turn by turn until nothing is left to do, and notes the most steps of a turn.
    private func most(_ broker: SimulatedBroker, _ look: (Int) -> Void = { _ in }) -> Most {
        var most = Most()
        func counts() -> [(packets: Int, ends: Int)] {
            broker.cores.map { ($0.connections.openPackets.stepCount, $0.sessions.ended.stepCount) }
        }
        while true {
            let before = counts()
            guard broker.stepOnce() else { return most }
            for (before, after) in zip(before, counts()) {
                most.packets = max(most.packets, after.packets - before.packets)
                most.ends = max(most.ends, after.ends - before.ends)
            }
            most.turns += 1
            look(most.turns)
        }
    }

    /// A turn has its steps for packets that come and those that are open, and the last filter of each may be more than
    /// what is left.
    private static let packetStepsMax = 2 * (Limits.packetStepsPerTurn + 300)
    /// The same for ends; with other shards a level counts three times.
    private static let endedStepsMax = 2 * (Limits.endedStepsPerTurn + 700)

    private func subscriptions(_ filters: [TopicFilter]) -> [Subscription] {
        filters.map { Subscription(filter: $0, options: SubscriptionOptions(maximumQoS: .atLeastOnce)) }
    }

    private func suback(_ client: TestClient) -> SubackPacket? {
        for case .suback(let packet) in client.packets.reversed() { return packet }
        return nil
    }

    private func unsubscribe(_ filters: [TopicFilter], _ client: TestClient) {
        client.connection?.send(.unsubscribe(UnsubscribePacket(packetIdentifier: 60_000, filters: filters)))
    }

    /// Whether the tree is as before anybody came.
    private func isClean(_ broker: SimulatedBroker) -> Bool {
        broker.cores.allSatisfy {
            $0.tree.records.count == 0 && $0.tree.nodes.count == 1 && $0.sessions.ended.isEmpty
                && $0.connections.openPackets.isEmpty
        }
    }

    // MARK: SUBSCRIBE and UNSUBSCRIBE

    @Test(arguments: [1, 3]) func `a SUBSCRIBE with many deep filters takes many turns, and others are served between`(shards: Int)
    {
        let broker = SimulatedBroker(shards: shards)
        let other = broker.connected("other")
        other.subscribe("other")
        let client = broker.connected("client")
        let filters = Self.deepFilters(300)
        client.beginSubscribe(subscriptions(filters))
        var pings = 0
        let most = most(broker) { turn in
            guard suback(client) == nil else { return }
            pings = other.packets.count { $0 == .pingresp }
            if turn % 2 == 0 { other.connection?.send(.pingreq) }
        }
        #expect(most.packets <= Self.packetStepsMax, "\(most)")
        #expect(pings >= 300 * 200 / (2 * Limits.packetStepsPerTurn) / 2, "\(most)")
        #expect(suback(client)?.reasonCodes == Array(repeating: .grantedQoS1, count: 300))
        #expect(broker.statistics().subscriptions == 301)
        for number in [0, 150, 299] { other.publish(Self.topic(of: filters[number]), "\(number)") }
        #expect(client.texts == ["0", "150", "299"])
        unsubscribe(filters, client)
        let mostOfUnsubscribe = self.most(broker)
        #expect(mostOfUnsubscribe.packets <= Self.packetStepsMax, "\(mostOfUnsubscribe)")
        #expect(client.packets.contains { if case .unsuback(let answer) = $0 { answer.reasonCodes.count == 300 } else { false } })
        #expect(broker.statistics().subscriptions == 1)
    }

    @Test func `many clients with such packets share a turn, and none waits for all of another's`() {
        let broker = SimulatedBroker()
        let clients = (0..<20).map { broker.connected("client \($0)") }
        clients[0].beginSubscribe(subscriptions(Self.deepFilters(400)))
        for (number, client) in clients.enumerated().dropFirst() {
            client.beginSubscribe(subscriptions(Self.deepFilters(number == 1 ? 40 : 2, "\(number)/")))
        }
        var ends: [Int?] = Array(repeating: nil, count: 20)
        let most = most(broker) { turn in
            for (number, client) in clients.enumerated() where ends[number] == nil && suback(client) != nil { ends[number] = turn }
        }
        #expect(most.packets <= Self.packetStepsMax, "\(most)")
        let last = ends[0] ?? 0
        #expect(ends.dropFirst().allSatisfy { $0.map { 2 * $0 < last } ?? false }, "\(ends)")
    }

    @Test(arguments: [1, 3], [ByteDelivery.joined, .separate, .byteByByte])
    func `what comes behind such a packet waits, and keeps its order`(shards: Int, delivery: ByteDelivery) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("client")
        client.connect { $0.delivery = delivery }
        let filters = Self.deepFilters(25)
        client.beginSubscribe(subscriptions(filters))
        // The last of its filters matches it until UNSUBSCRIBE.
        let topic = Self.topic(of: filters[24])
        let publish = PublishPacket(topic: topic, packetIdentifier: 7, qos: .atLeastOnce, payload: Array("mine".utf8))
        client.connection?.send(.publish(publish))
        unsubscribe(Array(filters[10...]), client)
        client.connection?.send(.publish(PublishPacket(topic: topic, packetIdentifier: 8, qos: .atLeastOnce, payload: [1])))
        client.connection?.send(.pingreq)
        client.connection?.send(.disconnect(DisconnectPacket()))
        client.connection?.close()
        broker.settle()
        // It has gone, so that it may have received nothing; the broker has counted what it did.
        let statistics = broker.statistics()
        #expect(statistics.packetsReceived[.disconnect] == 1 && statistics.packetsReceived[.pingreq] == 1)
        #expect(statistics.packetsReceived[.unsubscribe] == 1 && statistics.packetsReceived[.publish] == 2)
        #expect(statistics.messagesSentByQoS[.atLeastOnce] == 1)
        #expect(isClean(broker))
    }

    @Test func `answers to what came behind such a packet follow its SUBACK`() {
        let broker = SimulatedBroker()
        let client = broker.connected("client")
        client.beginSubscribe(subscriptions(Self.deepFilters(60)))
        unsubscribe(Self.deepFilters(60), client)
        client.beginSubscribe(subscriptions(Self.deepFilters(60)))
        client.connection?.send(.pingreq)
        broker.settle()
        let types = client.packetsOfConnection.compactMap { (packet: ControlPacket) -> PacketType? in
            switch packet {
            case .suback: .suback
            case .unsuback: .unsuback
            case .pingresp: .pingresp
            default: nil
            }
        }
        #expect(types == [.suback, .unsuback, .suback, .pingresp])
        #expect(broker.statistics().subscriptions == 60)
    }

    @Test(arguments: [1, 3]) func `a connection that ends within such a packet leaves nothing`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        for kind in 0..<4 {
            let client = broker.connected("client")
            client.beginSubscribe(subscriptions(Self.deepFilters(200)))
            while broker.cores.allSatisfy({ $0.connections.openPackets.isEmpty }), broker.stepOnce() {}
            let core = broker.cores[broker.shard(of: "client")]
            let id = core.sessions.find("client")?.connection?.object.id
            #expect(id.map { core.hasOpenPacket($0) } == true)
            switch kind {
            case 0: if let id { core.closed(id) }
            case 1: broker.connected("client")
            case 2: _ = core.perform(ShardCommand(.kick("client", publishesWill: false), token: 1))
            default: client.connection?.send([0, 0])
            }
            broker.settle()
            #expect(suback(client) == nil || kind == 3)
            if kind == 1 { _ = core.perform(ShardCommand(.endSession("client", publishesWill: false), token: 1)) }
            if kind == 0 { client.connection?.close() }
            broker.settle()
            #expect(isClean(broker), "\(kind)")
            #expect(broker.statistics().subscriptions == 0)
        }
    }

    @Test func `a client is not taken for gone while its packet is worked off`() {
        let broker = SimulatedBroker()
        let client = broker.client("client")
        client.connect(keepAlive: 1)
        client.beginSubscribe(subscriptions(Self.deepFilters(200)))
        while broker.cores[0].connections.openPackets.isEmpty, broker.stepOnce() {}
        broker.cores[0].advance(to: broker.now + 5000)
        broker.now += 5000
        #expect(client.isConnected)
        while suback(client) == nil, broker.stepOnce() {}
        #expect(suback(client)?.reasonCodes.count == 200)
    }

    @Test(arguments: [1, 3])
    func `SUBACK leaves when all rows of such a packet are on the disk, and a crash before loses no session`(
        shards: Int
    ) {
        for turns in [1, 3, 6, 40] {
            let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
            let client = broker.client("client")
            client.connect(expiry: 1000)
            client.beginSubscribe(subscriptions(Self.deepFilters(100)))
            for _ in 0..<turns { broker.stepOnce() }
            let isAnswered = suback(client) != nil
            let restarted = broker.crashed()
            #expect(client.comeBack(to: restarted)?.sessionPresent == true)
            if isAnswered { #expect(restarted.statistics().subscriptions == 100) }
            #expect(client.subscribe(subscriptions(Self.deepFilters(100)))?.reasonCodes.count == 100)
            #expect(restarted.statistics().subscriptions == 100)
            restarted.powerOff()
        }
    }

    @Test func `the steps of a packet grow with its filters and their levels`() {
        func steps(_ count: Int, levels: Int) -> Int {
            let broker = SimulatedBroker()
            let client = broker.connected("client")
            client.subscribe(subscriptions(Self.deepFilters(count, levels: levels)))
            return broker.cores[0].connections.openPackets.stepCount
        }
        let few = steps(50, levels: 100)
        #expect(steps(100, levels: 100) * 10 <= few * 22)
        #expect((15...22).contains(steps(50, levels: 200) * 10 / few))
        #expect(OpenPackets.steps(of: TopicFilter(stringLiteral: String(repeating: "x", count: 60_000))) > 1000)
    }

    // MARK: Retained messages

    @Test(arguments: [1, 3]) func `looking for retained messages of such a packet is steps of a turn too`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        // No wildcards: each topic is looked up.
        let filters = Self.deepFilters(200).map { TopicFilter(Self.topic(of: $0).bytes) ?? "x" }
        for number in [0, 100, 199] {
            publisher.publish(EncodedString(filters[number].bytes) ?? "", "\(number)", retain: true)
        }
        let client = broker.connected("client")
        client.beginSubscribe(subscriptions(filters))
        var visits = 0
        var before = broker.cores.map(\.scans.visitCount)
        _ = most(broker) { _ in
            let after = broker.cores.map(\.scans.visitCount)
            visits = max(visits, zip(before, after).map { $1 - $0 }.max() ?? 0)
            before = after
        }
        #expect(client.texts.sorted() == ["0", "100", "199"])
        // One for each filter of 200 levels, and some for the sessions.
        #expect(visits <= 2 * Limits.scanStepsPerTurn / 200 + 30, "\(visits)")
    }

    // MARK: Ends of sessions

    enum End: CaseIterable { case disconnect, loss, takeover, expiry, command, move }

    @Test(arguments: [1, 3], End.allCases)
    func `a session with many deep subscriptions ends at once, and is taken down over many turns`(shards: Int, end: End) throws {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        let client = broker.client("client")
        client.connect(expiry: end == .expiry || end == .command || end == .takeover ? 10 : nil)
        let filters = Self.deepFilters(300)
        client.subscribe(subscriptions(filters + [TopicFilter("t")].compactMap { $0 }))
        publisher.publish("t", "before")
        let core = broker.cores[broker.shard(of: "client")]
        let found = core.sessions.find("client")
        let old = try #require(found)
        let next = broker.client("client")
        switch end {
        case .disconnect: client.connection?.send(.disconnect(DisconnectPacket()))
        case .loss: client.connection?.close()
        case .takeover: next.beginConnect(ConnectPacket(version: .v5, cleanStart: true, clientIdentifier: "client"))
        case .expiry:
            client.disconnect()
            broker.now += 20_000
        case .command: _ = core.perform(ShardCommand(.endSession("client", publishesWill: false), token: 1))
        case .move: core.endLocalSession(of: "client")
        }
        var hasEnded = false
        // At the first moment at which it is over, everything seen from outside is.
        while !hasEnded, broker.stepOnce() { hasEnded = core.sessions.find("client") !== old }
        #expect(hasEnded)
        #expect(!core.sessions.ended.isEmpty, "it is not taken down yet")
        #expect(broker.cores.reduce(0) { $0 + $1.currentStatistics().subscriptions } == 0)
        let topics = filters.map { Self.topic(of: $0) } + ["t"]
        for topic in topics {
            let routes = topic.bytes.withUnsafeBytes { core.dispatcher.matches(of: $0).with { $0.routeCount } }
            #expect(routes == 0)
        }
        if end != .takeover { next.beginConnect(ConnectPacket(version: .v5, cleanStart: true, clientIdentifier: "client")) }
        next.beginSubscribe(subscriptions([filters[7], "t"]))
        let most = most(broker)
        #expect(most.ends <= Self.endedStepsMax, "\(most)")
        #expect(next.connack?.sessionPresent == false)
        publisher.publish(Self.topic(of: filters[7]), "after")
        publisher.publish(Self.topic(of: filters[8]), "not")
        publisher.publish("t", "t")
        #expect(next.texts == ["after", "t"])
        #expect(broker.statistics().subscriptions == 2)
        next.disconnect()
        #expect(isClean(broker))
        #expect(core.sessions.indexEnd <= 4, "indexes are given back")
    }

    @Test(arguments: [1, 3]) func `a member of many share groups leaves all of them at once, and others get their messages`(
        shards: Int
    ) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        let client = broker.connected("client")
        let stays = broker.connected("stays")
        let filters = Self.deepFilters(200)
        let shared = filters.map { TopicFilter(Array("$share/g/".utf8) + $0.bytes) ?? "x" }
        stays.subscribe(subscriptions(shared))
        client.subscribe(subscriptions(shared))
        client.connection?.send(.disconnect(DisconnectPacket()))
        let core = broker.cores[broker.shard(of: "client")]
        while core.sessions.find("client") != nil, broker.stepOnce() {}
        #expect(!core.sessions.ended.isEmpty)
        #expect(broker.cores.reduce(0) { $0 + $1.currentStatistics().sharedSubscriptions } == 200)
        // Nobody has told the other shards of all of it yet.
        for number in stride(from: 0, to: 200, by: 2) {
            publisher.connection?.send(
                .publish(
                    PublishPacket(
                        topic: Self.topic(of: filters[number]), packetIdentifier: UInt16(number + 1), qos: .atLeastOnce,
                        payload: Array("\(number)".utf8))))
        }
        let most = most(broker)
        #expect(most.ends <= Self.endedStepsMax, "\(most)")
        #expect(stays.texts.sorted() == stride(from: 0, to: 200, by: 2).map { "\($0)" }.sorted())
        stays.disconnect()
        #expect(isClean(broker))
    }

    @Test(arguments: [1, 3]) func `a session that has ended is not there after a crash, however far it was taken down`(shards: Int)
    {
        for turns in [1, 2, 4, 9] {
            let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
            let client = broker.client("client")
            client.connect(expiry: 1000)
            client.subscribe(subscriptions(Self.deepFilters(200)))
            client.connection?.send(
                .disconnect(
                    DisconnectPacket(
                        properties: {
                            var properties = Properties()
                            properties.sessionExpiryInterval = 0
                            return properties
                        }())))
            let core = broker.cores[broker.shard(of: "client")]
            while core.sessions.find("client") != nil, broker.stepOnce() {}
            for _ in 0..<turns { broker.stepOnce() }
            let restarted = broker.crashed(committing: 100)
            #expect(restarted.recovered.sessions == 0)
            #expect(restarted.statistics().subscriptions == 0)
            client.broker = restarted
            #expect(client.connect(clean: false)?.sessionPresent == false)
            restarted.powerOff()
        }
    }

    @Test func `the end of a session takes as many steps as its subscriptions have levels`() {
        func steps(_ count: Int) -> Int {
            let broker = SimulatedBroker()
            let client = broker.connected("client")
            client.subscribe(subscriptions(Self.deepFilters(count)))
            client.disconnect()
            #expect(isClean(broker))
            return broker.cores[0].sessions.ended.stepCount
        }
        let few = steps(100)
        #expect((100 * 200...100 * 220).contains(few))
        #expect(steps(200) * 10 <= few * 21)
    }

    @Test func `sessions whose time is over at once end over many turns`() {
        let broker = SimulatedBroker()
        let watcher = broker.connected("watcher")
        watcher.subscribe("w")
        for number in 0..<600 {
            let client = broker.client("\(number)")
            client.connect(expiry: 10, will: Will(topic: "w", payload: [1]))
            client.connection?.close()
        }
        broker.settle()
        #expect(broker.cores[0].sessions.count == 601)
        var most = 0
        var before = broker.cores[0].sessions.count
        broker.now += 20_000
        while broker.stepOnce() {
            most = max(most, before - broker.cores[0].sessions.count)
            before = broker.cores[0].sessions.count
        }
        #expect(before == 1)
        #expect(most <= Limits.timerStepsPerTurn / Limits.timerStepsOfEnd)
    }
}
