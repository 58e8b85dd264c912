import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Which subscription gets which message, and how.
@Suite struct SubscriptionTests {
    @Test(.statement("MQTT-4.7.2-1", .v5), arguments: [1, 4]) func `wildcards match whole levels and no dollar at the front`(
        shards: Int
    ) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("publisher")
        let topics: [EncodedString] = ["a", "a/b", "a/b/c", "/a", "a/", "$x", "$x/a", "A", "ab"]
        let expected: [(TopicFilter, [String])] = [
            ("#", ["a", "a/b", "a/b/c", "/a", "a/", "A", "ab"]), ("+", ["a", "A", "ab"]), ("a/#", ["a", "a/b", "a/b/c", "a/"]),
            ("a/+", ["a/b", "a/"]), ("+/a", ["/a"]), ("+/+", ["a/b", "/a", "a/"]), ("$x/#", ["$x", "$x/a"]), ("$x/+", ["$x/a"]),
            ("+/b/#", ["a/b", "a/b/c"]), ("a", ["a"]),
        ]
        for (filter, matching) in expected {
            let subscriber = broker.connected("s")
            subscriber.subscribe(filter)
            for topic in topics { publisher.publish(topic, topic.description) }
            #expect(subscriber.texts == matching, "\(filter)")
        }
    }

    @Test(.statement("MQTT-3.3.4-2", .v5), .statement("MQTT-3.3.4-4", .v5), arguments: [1, 4])
    func `overlapping subscriptions give one copy at the highest QoS with all identifiers`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("a/b", qos: .atMostOnce, identifier: 1)
        subscriber.subscribe("a/#", qos: .exactlyOnce, identifier: 2)
        subscriber.subscribe("+/b", qos: .atLeastOnce, identifier: 300_000)
        subscriber.subscribe("#", qos: .atMostOnce)
        let publisher = broker.connected("publisher")
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            publisher.publish("a/b", "x", qos: qos)
            let messages = subscriber.takeMessages()
            #expect(messages.map(\.qos) == [qos])
            #expect(messages.map { $0.properties.subscriptionIdentifiers.sorted() } == [[1, 2, 300_000]])
        }
    }

    @Test(.statement("MQTT-3.8.4-3", .v5), arguments: [1, 4]) func `a repeated subscription replaces the first`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        let publisher = broker.connected("publisher")
        subscriber.subscribe("t", qos: .exactlyOnce, identifier: 1)
        subscriber.subscribe("t", qos: .atMostOnce, identifier: 2)
        publisher.publish("t", "x", qos: .exactlyOnce)
        #expect(subscriber.messages.map(\.qos) == [.atMostOnce])
        #expect(subscriber.messages.map(\.properties.subscriptionIdentifiers) == [[2]])
        subscriber.subscribe("t", qos: .atLeastOnce)
        publisher.publish("t", "x", qos: .exactlyOnce)
        #expect(subscriber.messages.last?.properties.subscriptionIdentifiers == [])
        #expect(broker.statistics().subscriptions == 1)
    }

    @Test(.statement("MQTT-3.8.3-3", .v5), arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce])
    func `No Local keeps a client's own messages from it`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        let other = broker.connected("b")
        client.subscribe("t", noLocal: true, identifier: 1)
        client.publish("t", "own", qos: qos)
        other.publish("t", "other", qos: qos)
        #expect(client.texts == ["other"])
        // Another subscription without it still wants them.
        client.subscribe("#", identifier: 2)
        client.publish("t", "own", qos: qos)
        #expect(client.texts == ["other", "own"])
        #expect(client.messages.last?.properties.subscriptionIdentifiers == [2])
    }

    @Test(.statement("MQTT-3.10.4-2", .v5), .statement("MQTT-3.10.4-4", .v5), arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `after UNSUBACK nothing more comes`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a", version: version)
        client.subscribe([Subscription(filter: "a"), Subscription(filter: "b/#")])
        #expect(
            client.unsubscribe("a", "b/#", "c")?.reasonCodes
                == (version == .v5 ? [.success, .success, .noSubscriptionExisted] : []))
        let publisher = broker.connected("p")
        publisher.publish("a")
        publisher.publish("b/c")
        #expect(client.messages.isEmpty)
        #expect(broker.statistics().subscriptions == 0)
    }

    @Test(.statement("MQTT-3.8.4-6", .v5), arguments: [1, 4]) func `SUBACK answers every filter in order`(shards: Int) {
        let settings = SimulatedBroker.testSettings {
            $0.listeners[0].maximumQoS = .atLeastOnce
            $0.topicBytesMax = 6
            $0.sharedSubscriptionAvailable = false
        }
        let client = SimulatedBroker(shards: shards, settings: settings).connected("a")
        let options = SubscriptionOptions(maximumQoS: .exactlyOnce)
        let answer = client.subscribe(
            ["a", "a/b/c/d", "$share/g/a", "b"].map { Subscription(filter: $0, options: options) })
        #expect(answer?.reasonCodes == [.grantedQoS1, .topicFilterInvalid, .sharedSubscriptionsNotSupported, .grantedQoS1])
    }

    @Test(arguments: [1, 4]) func `a topic that is longer than allowed is refused, in a name, a filter and a will`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.topicBytesMax = 10 })
        let client = broker.connected("a")
        let answer = client.subscribe([TopicFilter](["ten/bytes!", "eleven/byte"]).map { Subscription(filter: $0) })
        #expect(answer?.reasonCodes == [.grantedQoS0, .topicFilterInvalid])
        client.publish("ten/bytes!", qos: .atLeastOnce)
        client.publish("eleven/byte", qos: .atLeastOnce)
        #expect(client.acknowledgements(.puback).map(\.reasonCode) == [.success, .topicNameInvalid])
        let another = broker.client("b")
        #expect(another.connect(will: Will(topic: "eleven/byte", payload: []))?.reasonCode == .topicNameInvalid)
    }

    @Test func `whatever a SUBACK causes reaches the subscription`() {
        for seed in 0..<400 as Range<UInt64> {
            let broker = SimulatedBroker(shards: 4, seed: seed)
            var random = SeededGenerator(seed: seed)
            let publishers = (0..<4).map { broker.connected("publisher\($0)") }
            let neighbours = (0..<3).map { broker.connected("neighbour\($0)") }
            let subscriber = broker.connected("subscriber")
            let connection = subscriber.connection
            let receive = connection?.onReceive
            var isSubscribed = false
            connection?.onReceive = {
                receive?($0)
                guard !isSubscribed, subscriber.packets.contains(where: { $0.type == .suback }) else { return }
                isSubscribed = true
                // As if the subscriber had told them that it is ready.
                for publisher in publishers { publisher.publish("t/a", "x", until: .sent) }
            }
            let filter: TopicFilter = seed % 2 == 0 ? "t/+" : "$share/g/t/+"
            // Others come and go with the same filter at the same time. A group would give them a part of the messages.
            for neighbour in neighbours where seed % 2 == 0 && random.oneIn(2) {
                neighbour.beginSubscribe([Subscription(filter: filter)])
                for _ in 0..<Int.random(in: 0..<4, using: &random) { broker.step() }
                neighbour.connection?.close()
            }
            for _ in 0..<Int.random(in: 0..<6, using: &random) { broker.step() }
            subscriber.beginSubscribe([Subscription(filter: filter)])
            broker.settle()
            #expect(subscriber.messages.count == 4, "seed \(seed)")
        }
    }

    @Test(.statement("MQTT-3.14.4-1", .v5), arguments: [1, 4]) func `no SUBACK comes behind DISCONNECT`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("client")
        // What it is sent waits, and so does the end of its connection.
        client.connection?.isReading = false
        client.beginSubscribe([Subscription(filter: "t")])
        // A packet of no type, before the other shards have heard of the subscription.
        client.connection?.send([0x00, 0x00])
        broker.settle()
        client.connection?.isReading = true
        broker.settle()
        #expect(client.packetsOfConnection.last?.type == .disconnect)
    }
}
