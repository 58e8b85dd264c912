import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// The message behind the last retained message of a SUBSCRIBE.
struct EndOfRetainedTests {
    private static let prefix = "$SYS/broker/subscribed/"

    /// SUBSCRIBE's entries: these filters, and the mark somewhere among them.
    private func entries(_ filters: [String], mark: String, at place: Int = 0, qos: QoS = .exactlyOnce) -> [Subscription] {
        var names = filters
        names.insert(Self.prefix + mark, at: place)
        return names.compactMap { name in
            TopicFilter(name).map { Subscription(filter: $0, options: SubscriptionOptions(maximumQoS: qos)) }
        }
    }

    @Test(arguments: [1, 3], [ProtocolVersion.v31, .v311, .v5])
    func `it comes behind what is retained, once, empty, to who asked`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<20 { publisher.publish("a/\(number)", "x", qos: .exactlyOnce, retain: true) }
        let (subscriber, other) = (broker.connected("s", version: version), broker.connected("other"))
        other.subscribe("$SYS/#")
        let answer = subscriber.subscribe(entries(["a/#"], mark: "n"))
        #expect(answer?.reasonCodes.map(\.rawValue) == [0, 2])
        #expect(subscriber.messages.count == 21)
        let mark = subscriber.messages.last
        #expect(mark?.topic == Self.prefix + "n" && mark?.payload == [] && mark?.qos == .atMostOnce && mark?.retain == false)
        #expect(other.messages.isEmpty)
        #expect(broker.statistics().subscriptions == 2, "it is no subscription")
        // What somebody else publishes there does not come.
        _ = subscriber.takeMessages()
        publisher.publish("$SYS/broker/subscribed/n", "forged")
        #expect(subscriber.messages.isEmpty)
    }

    @Test(arguments: [1, 3]) func `it comes at once where nothing is retained, and where all filters are refused`(shards: Int) {
        var settings = SimulatedBroker.testSettings
        settings.wildcardSubscriptionAvailable = false
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let subscriber = broker.connected("s")
        subscriber.subscribe(entries(["a"], mark: "1", at: 1))
        subscriber.subscribe(entries(["a/+", "a/#"], mark: "2"))
        subscriber.subscribe(entries([], mark: "3"))
        #expect(subscriber.messages.map(\.topic) == ["1", "2", "3"].map { Self.prefix + $0 })
    }

    @Test func `it has the packet's Subscription Identifier`() {
        let subscriber = SimulatedBroker().connected("s")
        subscriber.subscribe(entries(["a"], mark: "1"), identifier: 77)
        #expect(subscriber.messages.map(\.properties.subscriptionIdentifiers) == [[77]])
    }

    @Test(arguments: ["", "a/b", "+", "#", String(repeating: "n", count: 65)])
    func `without a plain nonce it is an ordinary filter`(nonce: String) {
        let broker = SimulatedBroker()
        let subscriber = broker.connected("s")
        #expect(subscriber.subscribe(entries([], mark: nonce))?.reasonCodes == [ReasonCode(rawValue: 2)])
        #expect(subscriber.messages.isEmpty)
        #expect(broker.statistics().subscriptions == 1)
    }

    @Test(arguments: [1, 3]) func `it waits for what waits for acknowledgements, and not for what comes later`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<10 { publisher.publish("a/\(number)", "x", qos: .atLeastOnce, retain: true) }
        let subscriber = broker.client("s")
        subscriber.acknowledgement = .manual
        var properties = Properties()
        properties.receiveMaximum = 3
        subscriber.connect(properties: properties)
        subscriber.subscribe(entries(["a/#"], mark: "n"))
        var taken: [String] = []
        for round in 0..<20 where taken.last != Self.prefix + "n" {
            let messages = subscriber.takeMessages()
            taken += messages.map(\.topic)
            publisher.publish("a/live", "\(round)", qos: .atLeastOnce)
            for message in messages { if let identifier = message.packetIdentifier { subscriber.acknowledge(.puback, identifier) } }
        }
        let place = taken.firstIndex(of: Self.prefix + "n") ?? 0
        #expect(Set((0..<10).map { "a/\($0)" }).isSubset(of: taken[..<place]))
        #expect(place < 18, "what was published afterwards is not waited for")
    }

    @Test(arguments: [1, 3]) func `it is forgotten with the connection that asked`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<10 { publisher.publish("a/\(number)", "x", qos: .atLeastOnce, retain: true) }
        let subscriber = broker.client("s")
        subscriber.acknowledgement = .manual
        var properties = Properties()
        properties.receiveMaximum = 2
        subscriber.connect(expiry: 1000, properties: properties)
        subscriber.subscribe(entries(["a/#"], mark: "n"))
        let successor = broker.client("s")
        successor.connect(clean: false, expiry: 1000)
        #expect(successor.connack?.sessionPresent == true)
        #expect(Set(successor.messages.map(\.topic)) == Set((0..<10).map { "a/\($0)" }))
        successor.subscribe(entries(["b"], mark: "again"))
        #expect(successor.messages.last?.topic == Self.prefix + "again")
    }

    @Test func `a client may wait for 64, and for as many again when those have come`() {
        let broker = SimulatedBroker()
        broker.connected("publisher").publish("a", "x", qos: .atLeastOnce, retain: true)
        let subscriber = broker.client("s")
        subscriber.acknowledgement = .manual
        var properties = Properties()
        properties.receiveMaximum = 1
        subscriber.connect(properties: properties)
        subscriber.subscribe("a")
        let publisher = broker.connected("other")
        publisher.publish("a", "y", qos: .atLeastOnce)
        for number in 0..<64 { #expect(subscriber.subscribe(entries([], mark: "\(number)"))?.reasonCodes == [.success]) }
        #expect(subscriber.subscribe(entries([], mark: "64"))?.reasonCodes == [.quotaExceeded])
        #expect(subscriber.messages.count == 1)
        subscriber.acknowledge(.puback, subscriber.messages[0].packetIdentifier ?? 0)
        #expect(subscriber.messages.count == 66)
        #expect(subscriber.subscribe(entries([], mark: "64"))?.reasonCodes == [.success])
        #expect(subscriber.messages.count == 67)
    }

    /// Several subscribers with windows of their own subscribe while retained messages change; some are cut off and
    /// some come again.
    @Test(arguments: 0..<60 as Range<UInt64>) func `it is behind the last retained message of its packet, whatever happens`(
        seed: UInt64
    ) {
        var random = SeededGenerator(seed: seed)
        var settings = SimulatedBroker.testSettings
        settings.queuesQoS0 = random.oneIn(2)
        settings.queuedMessagesMax = random.oneIn(3) ? 20 : 1000
        let broker = SimulatedBroker(
            shards: Int.random(in: 1...3, using: &random), settings: settings, seed: seed,
            store: random.oneIn(3) ? SimulatedStore() : nil)
        let publisher = broker.connected("publisher")
        let topics = (0..<Int.random(in: 0...300, using: &random)).map { "r/\($0 % 7)/\($0)" }
        for topic in topics {
            guard let name = EncodedString(topic) else { continue }
            publisher.publish(name, "old", qos: random.oneIn(2) ? .atMostOnce : .exactlyOnce, retain: true)
        }
        broker.settle()
        for subscriber in 0..<4 {
            let client = broker.client("s\(subscriber)")
            var properties = Properties()
            properties.receiveMaximum = UInt16.random(in: 1...30, using: &random)
            client.connect(expiry: 100, properties: properties)
            client.connection?.isReading = random.oneIn(2)
            var asked: [(mark: String, filters: [TopicFilter])] = []
            for packet in 0..<Int.random(in: 1...4, using: &random) {
                // Filters of a packet do not match those of another: one can tell whose a message is.
                let filters = ["r/\(packet)/#", "r/\(packet)/\(packet)", "r/\(packet)/+"].shuffled(using: &random)
                let some = Array(filters.prefix(Int.random(in: 0...3, using: &random)))
                let mark = "\(subscriber)-\(packet)"
                client.beginSubscribe(
                    entries(
                        some, mark: mark, at: Int.random(in: 0...some.count, using: &random),
                        qos: random.oneIn(2) ? .atMostOnce : .exactlyOnce))
                asked.append((Self.prefix + mark, some.compactMap { TopicFilter($0) }))
                for _ in 0..<Int.random(in: 0...20, using: &random) { broker.step() }
                if !topics.isEmpty, random.oneIn(2),
                    let name = EncodedString(topics[Int.random(in: 0..<topics.count, using: &random)])
                {
                    publisher.publish(name, "new", qos: .atLeastOnce, retain: true, until: .sent)
                }
            }
            client.connection?.isReading = true
            broker.settle()
            check(client, asked, topics, isWhole: settings.queuedMessagesMax == 1000)
            if random.oneIn(2) { client.lose() }
        }
    }

    /// Every packet's mark came once, behind at least one message of each topic that matched; nothing with RETAIN set
    /// came behind it.
    private func check(
        _ client: TestClient, _ asked: [(mark: String, filters: [TopicFilter])], _ topics: [String], isWhole: Bool
    ) {
        let seen = client.messages.map(\.topic)
        for (mark, filters) in asked {
            let places = seen.indices.filter { seen[$0] == mark }
            #expect(places.count == 1)
            guard let place = places.first else { continue }
            let matching = topics.filter { topic in
                filters.contains { filter in
                    TopicName(topic).map { filter.matches($0) } ?? false
                }
            }
            if isWhole { #expect(Set(matching).isSubset(of: seen[..<place])) }
            let late = client.messages[place...].filter { $0.retain && matching.contains($0.topic) }
            #expect(late.isEmpty)
        }
    }
}
