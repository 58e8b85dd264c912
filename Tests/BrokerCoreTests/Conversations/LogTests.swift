import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerModel

/// What the log says of clients.
@Suite struct LogTests {
    @Test func `long names come into the log with their first 256 bytes`() {
        var settings = SimulatedBroker.testSettings
        settings.logTopics = LogTopics(rawValue: UInt16.max)
        settings.connectBytesMax = 1 << 20
        let broker = SimulatedBroker(settings: settings)
        let long = EncodedString(Array(repeating: UInt8(ascii: "x"), count: 65_000)) ?? ""
        let topic = TopicName(Array(repeating: UInt8(ascii: "x"), count: 65_000)) ?? "t"
        let client = broker.client(long)
        client.connect(will: Will(topic: topic, payload: [], qos: .atMostOnce, retain: false), userName: long)
        client.subscribe("#")
        client.publish(topic.text, "x")
        client.connection?.close()
        broker.settle()
        #expect(broker.logLines.contains { $0.hasPrefix("New client connected from") })
        #expect(broker.logLines.contains { $0.contains("Received PUBLISH from") })
        #expect(broker.logLines.allSatisfy { $0.utf8.count < 1000 })
    }
}
