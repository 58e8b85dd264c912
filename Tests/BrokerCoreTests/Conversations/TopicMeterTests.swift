import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Counting the messages of chosen topic filters.
struct TopicMeterTests {
    private func meters(_ broker: SimulatedBroker) -> [String: TopicMeterRow] {
        var sums: [String: TopicMeterRow] = [:]
        for rows in broker.pages(.topicMeters) {
            guard case .topicMeters(let rows) = rows else { continue }
            for row in rows { sums["\(row.filter)", default: TopicMeterRow(row.filter)].add(row) }
        }
        return sums
    }

    private func count(_ filters: TopicFilter..., in broker: SimulatedBroker) {
        for filter in filters {
            for shard in 0..<broker.shardCount { #expect(broker.perform(.meterTopic(filter), of: shard) == .done) }
        }
    }

    @Test(arguments: [1, 3]) func `messages and bytes are counted in and out, of every QoS and by every way`(shards: Int) throws {
        let broker = SimulatedBroker(shards: shards)
        let receivers = (0..<4).map { broker.connected("receiver \($0)") }
        for (index, receiver) in receivers.enumerated() {
            receiver.subscribe(index == 3 ? "$share/g/a/#" : "a/#", qos: [.atMostOnce, .atLeastOnce, .exactlyOnce][index % 3])
        }
        let publisher = broker.connected("publisher")
        publisher.publish("a/x", "before")
        count("a/#", "a/x", "b", in: broker)
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            for topic: EncodedString in ["a/x", "a/y", "c"] { publisher.publish(topic, "12345", qos: qos) }
        }
        let meters = meters(broker)
        let all = try #require(meters["a/#"])
        let one = try #require(meters["a/x"])
        #expect(all.received == 6 && all.receivedBytes == 30 && all.sent == 24 && all.sentBytes == 120)
        #expect(one.received == 3 && one.receivedBytes == 15 && one.sent == 12 && one.sentBytes == 60)
        #expect(meters["b"] == TopicMeterRow("b"))
    }

    @Test func `runs, queues and retained messages are counted as they are sent, drops by receiver`() throws {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.queuedMessagesMax = 2 })
        count("t/#", in: broker)
        let away = broker.client("away")
        away.connect(expiry: 100)
        away.subscribe("t/#", qos: .atLeastOnce)
        away.lose()
        let here = [broker.connected("here"), broker.connected("there")]
        for client in here { client.subscribe("t/#", qos: .atLeastOnce) }
        let publisher = broker.connected("publisher")
        for _ in 0..<5 { publisher.publish("t/a", "xy", qos: .atLeastOnce, until: .sent) }
        broker.settle()
        var row = try #require(meters(broker)["t/#"])
        #expect(row.received == 5 && row.sent == 10 && row.sentBytes == 20 && row.dropped == 3)
        away.connect(clean: false, expiry: 100)
        row = try #require(meters(broker)["t/#"])
        #expect(row.sent == 12)
        publisher.publish("t/kept", "z", retain: true)
        broker.connected("late").subscribe("t/kept")
        row = try #require(meters(broker)["t/#"])
        #expect(row.received == 6 && row.sent == 16 && row.sentBytes == 28)
    }

    @Test func `a filter is counted once, forgotten when nobody wants it, and there is an end to them`() {
        let broker = SimulatedBroker()
        count("a", "b", "c", "a", in: broker)
        #expect(meters(broker).count == 3)
        let publisher = broker.connected("publisher")
        publisher.publish("c", "1")
        #expect(broker.perform(.unmeterTopic("a")) == .done && broker.perform(.unmeterTopic("a")) == .notFound)
        publisher.publish("c", "1")
        publisher.publish("a", "1")
        #expect(meters(broker)["c"]?.received == 2 && meters(broker)["a"] == nil)
        #expect(broker.perform(.unmeterTopic("b")) == .done && broker.perform(.unmeterTopic("c")) == .done)
        #expect(broker.cores[0].topicMetrics.observed == nil)
        let topics = ObservedTopics(hashing: TopicHash(seed: 1))
        for number in 0..<Limits.topicMetersMax { #expect(topics.addMeter("t/\(number)")) }
        #expect(!topics.addMeter("one/more") && topics.addMeter("t/0"))
    }
}
