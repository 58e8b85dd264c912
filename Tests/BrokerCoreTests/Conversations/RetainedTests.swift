import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

@testable import BrokerCore

/// Retained messages.
@Suite struct RetainedTests {
    @Test(.statement("MQTT-3.3.1-5", .v5), .statement("MQTT-3.3.1-6", .v5), arguments: [1, 4], [ProtocolVersion.v31, .v311, .v5])
    func `the last retained message of a topic is kept, and an empty one removes it`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher", version: version)
        publisher.publish("t", "1", retain: true)
        publisher.publish("t", "2", qos: .atLeastOnce, retain: true)
        publisher.publish("t", "live")
        let subscriber = broker.connected("a", version: version)
        subscriber.subscribe("t")
        #expect(subscriber.texts == ["2"])
        #expect(subscriber.messages.map(\.retain) == [true])
        #expect(subscriber.messages.map(\.qos) == [.atLeastOnce])
        publisher.publish("t", "", retain: true)
        // [MQTT-3.3.1-11 v3.1.1] Those who subscribe already get the empty message as any other.
        #expect(subscriber.messages.map(\.retain) == [true, false])
        let late = broker.connected("b", version: version)
        late.subscribe("t")
        #expect(late.messages.isEmpty)
        #expect(broker.statistics().retainedMessages == 0)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(arguments: [1, 4]) func `wildcards find retained messages`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        let topics: [EncodedString] = ["a", "a/b", "a/c", "a/b/c", "b", "/", "/a", "$x/a", "a//c"]
        for topic in topics { publisher.publish(topic, topic.description, retain: true) }
        let expected: [(TopicFilter, [String])] = [
            ("#", ["a", "a/b", "a/c", "a/b/c", "b", "/", "/a", "a//c"]), ("+", ["a", "b"]), ("a/+", ["a/b", "a/c"]),
            ("a/#", ["a", "a/b", "a/c", "a/b/c", "a//c"]), ("+/+", ["a/b", "a/c", "/", "/a"]), ("+/+/c", ["a/b/c", "a//c"]),
            ("$x/#", ["$x/a"]), ("/+", ["/", "/a"]), ("b", ["b"]), ("c", []),
        ]
        for (filter, found) in expected {
            let subscriber = broker.connected("s")
            subscriber.subscribe(filter)
            #expect(subscriber.texts.sorted() == found.sorted(), "\(filter)")
        }
    }

    @Test(.statement("MQTT-3.3.1-9", .v5), .statement("MQTT-3.3.1-10", .v5), .statement("MQTT-3.3.1-11", .v5), arguments: [1, 4])
    func `retain handling says when retained messages are sent`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        broker.connected("publisher").publish("t", "kept", retain: true)
        let subscriber = broker.connected("s")
        subscriber.subscribe("t", retainHandling: .doNotSend)
        #expect(subscriber.takeMessages().isEmpty)
        subscriber.subscribe("t", retainHandling: .sendIfNewSubscription)
        #expect(subscriber.takeMessages().isEmpty)
        subscriber.subscribe("t", retainHandling: .sendAtSubscribe)
        #expect(subscriber.takeMessages().count == 1)
        subscriber.subscribe("t", retainHandling: .sendAtSubscribe)
        #expect(subscriber.takeMessages().count == 1)
        subscriber.unsubscribe("t")
        subscriber.subscribe("t", retainHandling: .sendIfNewSubscription)
        #expect(subscriber.takeMessages().count == 1)
    }

    @Test(.statement("MQTT-3.3.1-12", .v5), .statement("MQTT-3.3.1-13", .v5), arguments: [1, 4])
    func `RETAIN stays set on live messages when the subscription says so`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let plain = broker.connected("plain")
        let asPublished = broker.connected("asPublished")
        plain.subscribe("t")
        asPublished.subscribe("t", retainAsPublished: true)
        let publisher = broker.connected("publisher")
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            publisher.publish("t", "x", qos: qos, retain: true)
            publisher.publish("t", "x", qos: qos, retain: false)
        }
        #expect(plain.messages.map(\.retain) == [false, false, false, false, false, false])
        #expect(asPublished.messages.map(\.retain) == [true, false, true, false, true, false])
    }

    @Test(arguments: [1, 4]) func `5,000 retained messages arrive all at a client with a small window, in bounded turns`(
        shards: Int
    ) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<5000 {
            publisher.publish("r/\(number % 70)/\(number)", "\(number)", qos: .atLeastOnce, retain: true, until: .sent)
            if number % 100 == 99 { broker.settle() }
        }
        #expect(broker.statistics().retainedMessages == 5000)
        let subscriber = broker.connected("subscriber")
        let turns = broker.turnCount
        subscriber.subscribe("r/#", qos: .atLeastOnce)
        #expect(Set(subscriber.texts).count == 5000)
        #expect(subscriber.messages.count == 5000)
        #expect(broker.turnCount - turns < 5000)
        #expect(broker.statistics().publishDropped == 0)
    }

    @Test(arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce])
    func `four megabytes of retained messages arrive without another event`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        let payload = [UInt8](repeating: 1, count: 20_000)
        for number in 0..<200 { publisher.publish("r/\(number)", bytes: payload, qos: qos, retain: true) }
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("r/#")
        #expect(subscriber.messages.count == 200)
    }

    @Test(arguments: [1, 4]) func `a subscriber that goes in the middle leaves nothing behind`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<10_000 {
            publisher.publish("r/\(number)", "x", retain: true, until: .sent)
            if number % 1000 == 999 { broker.settle() }
        }
        for turns in 1..<12 {
            let subscriber = broker.client("subscriber")
            subscriber.connect()
            subscriber.beginSubscribe([Subscription(filter: "r/#", options: SubscriptionOptions(maximumQoS: .atLeastOnce))])
            for _ in 0..<turns { broker.step() }
            subscriber.lose()
        }
        #expect(broker.statistics().clientsConnected == 1)
        #expect(broker.statistics().retainedMessages == 10_000)
    }

    @Test(arguments: [1, 4]) func `a client that does not read holds up nobody's retained messages`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<200 { publisher.publish("r/\(number)", bytes: [UInt8](repeating: 1, count: 10_000), retain: true) }
        let slow = broker.connected("slow")
        slow.connection?.isReading = false
        slow.subscribe("r/#")
        let fast = broker.connected("fast")
        fast.subscribe("r/#")
        #expect(fast.messages.count == 200)
        #expect(slow.messages.isEmpty)
        slow.connection?.isReading = true
        broker.settle()
        #expect(slow.messages.count == 200)
    }

    @Test(arguments: [1, 2, 4], [1, 20])
    func `no retained message is dropped, however many filters a client subscribes to at once`(shards: Int, packets: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<6000 {
            publisher.publish("r/\(number % 20)/\(number)", "x", qos: .atLeastOnce, retain: true, until: .sent)
            if number % 100 == 99 { broker.settle() }
        }
        let subscriber = broker.connected("subscriber")
        let filters = (0..<20).map {
            Subscription(filter: "r/\($0)/#", options: SubscriptionOptions(maximumQoS: .atLeastOnce))
        }
        for packet in 0..<packets {
            subscriber.beginSubscribe(Array(filters[packet * 20 / packets..<(packet + 1) * 20 / packets]))
        }
        broker.settle()
        #expect(Set(subscriber.messages.map(\.topic)).count == 6000)
        #expect(broker.statistics().publishDropped == 0)
        #expect(broker.cores.allSatisfy { $0.sessions.all.allSatisfy { $0.retainedAhead == 0 } })
    }

    @Test(arguments: [1, 2, 4])
    func `no large retained message is dropped for a receiver that does not read`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.outputBytesMax = 8 << 20 })
        let publisher = broker.connected("publisher")
        let payload = String(repeating: "x", count: 100_000)
        for number in 0..<240 {
            publisher.publish("r/\(number)", payload, qos: .atLeastOnce, retain: true, until: .sent)
            broker.settle()
        }
        let subscriber = broker.connected("subscriber")
        subscriber.connection?.isReading = false
        subscriber.beginSubscribe([Subscription(filter: "r/#", options: SubscriptionOptions(maximumQoS: .atMostOnce))])
        broker.settle()
        subscriber.connection?.isReading = true
        broker.settle()
        #expect(subscriber.messages.count == 240)
        #expect(broker.statistics().publishDropped == 0)
    }

    @Test(arguments: [1, 2, 4], [(20, 100_000), (100_000, 20), (20, 0)])
    func `retained messages go on arriving when queues become longer or shorter meanwhile`(shards: Int, lengths: (Int, Int)) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = lengths.0 })
        let publisher = broker.connected("publisher")
        for number in 0..<1500 { publisher.publish("r/\(number)", "x", retain: true, until: .sent) }
        broker.settle()
        for turns in 0..<30 {
            for core in broker.cores { core.apply(SimulatedBroker.testSettings { $0.queuedMessagesMax = lengths.0 }) }
            let subscriber = broker.connected("subscriber \(turns)")
            subscriber.beginSubscribe([Subscription(filter: "r/#", options: SubscriptionOptions(maximumQoS: .atMostOnce))])
            for _ in 0..<turns { broker.step() }
            for core in broker.cores { core.apply(SimulatedBroker.testSettings { $0.queuedMessagesMax = lengths.1 }) }
            broker.settle()
            #expect(subscriber.messages.count == 1500, "after \(turns) turns")
        }
    }

    @Test(arguments: [1, 4]) func `a retained message expires`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        var properties = Properties()
        properties.messageExpiryInterval = 10
        broker.connected("publisher").publish("t", "x", retain: true, properties: properties)
        broker.advance(milliseconds: 4_200)
        let early = broker.connected("early")
        early.subscribe("#")
        #expect(early.messages.map(\.properties.messageExpiryInterval) == [6])
        broker.advance(milliseconds: 5_800)
        let late = broker.connected("late")
        late.subscribe("#")
        #expect(late.messages.isEmpty)
        #expect(broker.statistics().retainedMessages == 0)
    }

    @Test(.statement("MQTT-3.8.3-4", .v5), arguments: [1, 4]) func `a shared subscription gets no retained messages`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("publisher")
        client.publish("t", "x", retain: true)
        client.subscribe("$share/g/t")
        #expect(client.messages.isEmpty)
    }

    @Test func `a retained message published while a subscription is under way is never missed`() {
        for seed in 0..<300 as Range<UInt64> {
            let broker = SimulatedBroker(shards: 4, seed: seed)
            let publisher = broker.connected("publisher")
            let subscriber = broker.connected("subscriber\(seed)")
            var random = SeededGenerator(seed: seed)
            publisher.publish("t/a", "1", retain: true, until: .sent)
            for _ in 0..<Int.random(in: 0..<8, using: &random) { broker.step() }
            subscriber.beginSubscribe([Subscription(filter: "t/+")])
            for _ in 0..<Int.random(in: 0..<8, using: &random) { broker.step() }
            publisher.publish("t/a", "2", retain: true, until: .sent)
            broker.settle()
            #expect(subscriber.texts.contains("2"), "seed \(seed): \(subscriber.texts)")
        }
    }

    @Test func `what a subscription sees last is the newest retained message`() {
        for seed in 0..<300 as Range<UInt64> {
            let broker = SimulatedBroker(shards: 4, seed: seed)
            let publisher = broker.connected("publisher")
            let subscriber = broker.connected("subscriber\(seed)")
            var random = SeededGenerator(seed: seed)
            subscriber.beginSubscribe([Subscription(filter: "t/+")])
            for number in 0..<6 {
                publisher.publish("t/a", "\(number)", retain: true, until: .sent)
                for _ in 0..<Int.random(in: 0..<5, using: &random) { broker.step() }
            }
            broker.settle()
            // Live messages come straight from the publisher's shard, retained ones from the topic's: the older must
            // not be the later.
            #expect(subscriber.texts.last == "5", "seed \(seed): \(subscriber.texts)")
        }
    }

    @Test(arguments: [1, 4]) func `a finished or cancelled scan leaves nothing behind`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        for number in 0..<200 { publisher.publish("r/\(number)", "x", retain: true) }
        let steady = broker.connected("steady")
        for turns in 0..<20 {
            steady.subscribe("r/+")
            let subscriber = broker.connected("subscriber")
            subscriber.subscribe("r/#")
            subscriber.beginSubscribe([Subscription(filter: "r/+")])
            for _ in 0..<turns { broker.step() }
            subscriber.lose()
        }
        #expect(broker.cores.allSatisfy { $0.scans.isEmpty })
    }

    @Test(arguments: [1, 4]) func `a sweep removes what has expired, also from the store, and nothing else`(shards: Int) {
        let store = SimulatedStore()
        let broker = SimulatedBroker(
            shards: shards, settings: SimulatedBroker.testSettings { $0.retainedSweepMinutes = 2 }, store: store)
        let client = broker.connected("a")
        let count = 5000
        for number in 0..<count {
            let properties = Properties.having { $0.messageExpiryInterval = number % 2 == 0 ? 60 : 600 }
            client.publish("t/\(number)/x", "m", qos: .atMostOnce, retain: true, properties: properties)
        }
        #expect(store.rows[.retained]?.count == count)
        broker.advance(seconds: 119)
        #expect(store.rows[.retained]?.count == count, "not before its time")
        broker.advance(seconds: 2)
        #expect(store.rows[.retained]?.count == count / 2)
        #expect(broker.statistics().retainedMessages == count / 2)
        broker.advance(seconds: 800)
        #expect(store.rows[.retained]?.isEmpty == true && broker.statistics().retainedMessages == 0)
    }

    @Test func `a reload begins sweeping, changes how often, and ends it`() {
        let broker = SimulatedBroker()
        let client = broker.connected("a")
        func apply(minutes: UInt32) {
            for core in broker.cores { core.apply(SimulatedBroker.testSettings { $0.retainedSweepMinutes = minutes }) }
        }
        func publish() {
            client.publish("t", "m", retain: true, properties: .having { $0.messageExpiryInterval = 1 })
            #expect(broker.statistics().retainedMessages == 1)
        }
        publish()
        broker.advance(seconds: 1000)
        #expect(broker.statistics().retainedMessages == 1)
        apply(minutes: 1)
        broker.advance(seconds: 61)
        #expect(broker.statistics().retainedMessages == 0)
        publish()
        apply(minutes: 0)
        broker.advance(seconds: 1000)
        #expect(broker.statistics().retainedMessages == 1)
    }
}
