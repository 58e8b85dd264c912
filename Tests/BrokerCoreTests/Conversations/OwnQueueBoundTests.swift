import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Queues that have bounds of their own: those of bridges.
@Suite struct OwnQueueBoundTests {
    private func broker(_ shards: Int, _ bounds: [EncodedString: QueueBound]) -> SimulatedBroker {
        let settings = SimulatedBroker.testSettings {
            $0.queuedMessagesMax = 5
            $0.ownQueueBounds = bounds
        }
        return SimulatedBroker(shards: shards, settings: settings)
    }

    private func absent(_ identifier: EncodedString, _ broker: SimulatedBroker) -> TestClient {
        let client = broker.client(identifier)
        client.connect(expiry: 1000)
        client.subscribe("t")
        client.lose()
        return client
    }

    private func texts(_ client: TestClient) -> [String] {
        client.connect(clean: false, expiry: 1000)
        return client.texts
    }

    private static func bound(_ messages: Int, bytes: Int = 0, _ overflow: QueueOverflow = .dropsNewest) -> QueueBound {
        QueueBound(messagesMax: messages, bytesMax: bytes, overflow: overflow)
    }

    @Test(arguments: [1, 4])
    func `each queue keeps as much as its own bound says, and lets go of what that says`(shards: Int) {
        let broker = broker(
            shards,
            [
                "long": Self.bound(8), "endless": Self.bound(0), "fresh": Self.bound(3, .dropsOldest),
                "small": Self.bound(0, bytes: 4),
            ])
        let clients = ["long", "endless", "fresh", "small", "plain"].map { absent($0, broker) }
        let publisher = broker.client("publisher")
        publisher.connect()
        for number in 0..<10 { #expect(publisher.publish("t", "\(number)", qos: .atLeastOnce)?.reasonCode == .success) }
        let all = (0..<10).map { "\($0)" }
        #expect(clients.map { texts($0) } == [Array(all[..<8]), all, Array(all[7...]), ["0", "1"], Array(all[..<5])])
    }

    @Test(arguments: [1, 4])
    func `a queue that refuses publishers does so for itself, and nobody gets what was refused`(shards: Int) {
        let broker = broker(shards, ["strict": Self.bound(3, .refusesPublisher)])
        let (strict, plain) = (absent("strict", broker), absent("plain", broker))
        let publishers = (0..<4).map { broker.client("publisher \($0)") }
        for publisher in publishers { publisher.connect() }
        let answers = (0..<8).map { publishers[$0 % 4].publish("t", "\($0)", qos: .atLeastOnce)?.reasonCode }
        #expect(answers == Array(repeating: .success, count: 3) + Array(repeating: .quotaExceeded, count: 5))
        #expect(texts(strict) == ["0", "1", "2"] && texts(plain) == ["0", "1", "2"])
        #expect(publishers[0].publish("t", "again", qos: .atLeastOnce)?.reasonCode == .success)
    }

    @Test func `other bounds hold for sessions that are there`() {
        let broker = broker(1, ["bridge": Self.bound(2, .refusesPublisher)])
        let bridge = absent("bridge", broker)
        let publisher = broker.client("publisher")
        publisher.connect()
        for number in 0..<3 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        var settings = broker.cores[0].settings
        settings.ownQueueBounds = ["bridge": Self.bound(4)]
        broker.cores[0].apply(settings)
        for number in 3..<8 { #expect(publisher.publish("t", "\(number)", qos: .atLeastOnce)?.reasonCode == .success) }
        settings.ownQueueBounds = [:]
        broker.cores[0].apply(settings)
        publisher.publish("t", "last", qos: .atLeastOnce)
        #expect(texts(bridge) == ["0", "1", "3", "4", "last"])
    }

    @Test func `the backlog is what was not acknowledged, and as old as its oldest message`() {
        let broker = SimulatedBroker(shards: 1)
        let client = absent("bridge", broker)
        #expect(
            broker.cores[0].backlog(of: "bridge") == SessionBacklog() && broker.cores[0].backlog(of: "nobody") == SessionBacklog())
        let publisher = broker.client("publisher")
        publisher.connect()
        publisher.publish("t", "first", qos: .atLeastOnce)
        broker.advance(seconds: 5)
        publisher.publish("t", "second", qos: .atLeastOnce)
        broker.advance(seconds: 1)
        let waiting = broker.cores[0].backlog(of: "bridge")
        #expect(waiting.messages == 2 && waiting.oldestMilliseconds == 6000 && waiting.storedMessages == 0)
        #expect(waiting.bytes == "tfirst".utf8.count + "tsecond".utf8.count)
        client.connect(clean: false, expiry: 1000)
        #expect(broker.cores[0].backlog(of: "bridge") == SessionBacklog())
    }
}
