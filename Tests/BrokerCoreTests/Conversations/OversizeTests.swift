import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore
@testable import BrokerModel

/// Messages that became larger inside the broker than a packet can be: by a mount point, an alias that is written out,
/// a packet identifier or Subscription Identifiers. One after the other, for each takes a quarter of a GiB of
/// addresses, and if it is kept, of memory.
@Suite(.serialized) struct OversizeTests {
    private let settings = SimulatedBroker.testSettings { $0.outputBytesMax = 1 << 30 }

    /// Publishes a message of topic `t` whose parts have so many bytes, on the first shard.
    private func publish(byteCount: Int, _ qos: QoS, retain: Bool = false, properties: Int = 0, to broker: SimulatedBroker) {
        let block = UnsafeMutableRawPointer.allocate(byteCount: byteCount, alignment: 16)
        defer { block.deallocate() }
        [UInt8(ascii: "t")].withUnsafeBytes { topic in
            var publication = Publication(
                topic: topic, properties: UnsafeRawBufferPointer(start: block, count: properties),
                payload: UnsafeRawBufferPointer(start: block, count: byteCount - topic.count - properties), qos: qos,
                retain: retain,
                expiresAt: Message.neverExpires, publisher: 1)
            _ = broker.cores[0].publishing.publish(&publication)
        }
        broker.settle()
    }

    private func expectSmallOne(to clients: [TestClient], of broker: SimulatedBroker, _ qos: QoS) {
        broker.connected("publisher").publish("t", "small", qos: qos)
        for client in clients { #expect(client.texts == ["small"], "\(client.identifier)") }
    }

    /// One byte more than QoS 0 has room for in 3.1.1.
    private static let tooLarge = VariableByteInteger.max - 1

    @Test(arguments: [QoS.atMostOnce, .atLeastOnce, .exactlyOnce], [1, 3])
    func `what no packet can hold is dropped for every receiver of every version`(qos: QoS, count: Int) {
        for version in [ProtocolVersion.v31, .v311, .v5] {
            let broker = SimulatedBroker(settings: settings)
            let clients = (0..<count).map { broker.connected("\(version) \($0)", version: version) }
            for client in clients { client.subscribe("t", qos: qos) }
            publish(byteCount: Self.tooLarge, qos, to: broker)
            publish(byteCount: Self.tooLarge, qos, properties: Self.tooLarge - 10, to: broker)
            if version == .v5 {
                #expect(broker.statistics().drops[.tooLargeForClient] == UInt64(2 * count))
            } else {
                // They get no properties.
                #expect(broker.statistics().drops[.tooLargeForClient] == UInt64(count))
            }
            for client in clients { #expect(client.isConnected) }
            if version == .v5 { expectSmallOne(to: clients, of: broker, qos) }
        }
    }

    @Test func `what no packet can hold is dropped for a share group's member`() {
        let broker = SimulatedBroker(settings: settings)
        let member = broker.connected("member")
        member.subscribe("$share/g/t", qos: .atLeastOnce)
        publish(byteCount: Self.tooLarge, .atLeastOnce, to: broker)
        #expect(broker.statistics().drops[.tooLargeForClient] == 1)
        expectSmallOne(to: [member], of: broker, .atLeastOnce)
    }

    @Test func `what no packet can hold leaves the queue and the retained messages without a trace`() {
        let broker = SimulatedBroker(settings: settings)
        let sleeper = broker.client("sleeper")
        sleeper.connect(expiry: 100)
        sleeper.subscribe("t", qos: .exactlyOnce)
        sleeper.disconnect()
        publish(byteCount: Self.tooLarge, .exactlyOnce, retain: true, to: broker)
        broker.connected("publisher").publish("t", "small", qos: .exactlyOnce)
        for time in 1...2 {
            sleeper.connect(clean: false, expiry: 100)
            #expect(sleeper.texts == ["small"])
            #expect(broker.statistics().drops[.tooLargeForClient] == 1)
            if time == 1 { sleeper.lose() }
        }
        let newcomer = broker.connected("newcomer")
        newcomer.subscribe("t", qos: .exactlyOnce)
        #expect(newcomer.messages.isEmpty)
        #expect(broker.statistics().drops[.tooLargeForClient] == 2)
    }

    @Test(arguments: [QoS.atMostOnce, .exactlyOnce])
    func `Subscription Identifiers that make a packet too large have it dropped`(qos: QoS) {
        let broker = SimulatedBroker(settings: settings)
        let client = broker.connected("client")
        for (number, filter): (UInt16, TopicFilter) in [(1, "t"), (2, "+"), (3, "#")] {
            var packet = SubscribePacket(
                packetIdentifier: number,
                subscriptions: [Subscription(filter: filter, options: SubscriptionOptions(maximumQoS: qos))])
            packet.properties.subscriptionIdentifiers = [UInt32(VariableByteInteger.max)]
            client.send(.subscribe(packet))
        }
        publish(byteCount: Limits.fittingBytesMax, qos, to: broker)
        #expect(broker.statistics().drops[.tooLargeForClient] == 1)
        expectSmallOne(to: [client], of: broker, qos)
    }

    /// Lengths without bytes.
    private struct Parts: PublishParts {
        let topic: UnsafeRawBufferPointer
        let properties: UnsafeRawBufferPointer
        let payload: UnsafeRawBufferPointer
        var byteCount: Int { topic.count + properties.count + payload.count }
    }

    @Test func `what need not be measured fits, with all that may stand beside it`() throws {
        let start = try #require(UnsafeRawPointer(bitPattern: 4096))
        func bytes(_ count: Int) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: count) }
        for properties in [0, 100, 20_000, 3_000_000, Limits.fittingBytesMax - 1] {
            let parts = Parts(
                topic: bytes(1), properties: bytes(properties), payload: bytes(Limits.fittingBytesMax - 1 - properties))
            for version in [ProtocolVersion.v31, .v311, .v5] {
                for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
                    var frame = PublishFrame(version: version, qos: qos, retain: true)
                    frame.expirySeconds = .max
                    #expect(frame.size(parts) <= BrokerSettings.packetBytesLargest)
                }
            }
        }
    }
}
