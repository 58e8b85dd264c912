import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Flows that a lost connection has cut, and how they go on.
@Suite struct ResumptionTests {
    private func persistent(_ identifier: EncodedString, _ broker: SimulatedBroker, _ version: ProtocolVersion) -> TestClient {
        let client = broker.client(identifier, version: version)
        reconnect(client)
        return client
    }

    @discardableResult
    private func reconnect(_ client: TestClient) -> ConnackPacket? {
        client.connect(clean: false, expiry: client.version == .v5 ? .max : nil)
    }

    @Test(
        .statement("MQTT-4.4.0-1", .v5), .statement("MQTT-4.4.0-1", .v311), arguments: [1, 4], [ProtocolVersion.v31, .v311, .v5])
    func `what was not acknowledged is sent again with DUP, in order, with its identifier`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = persistent("subscriber", broker, version)
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        let publisher = broker.connected("publisher")
        for number in 0..<5 { publisher.publish("t", "\(number)", qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce) }
        let before = subscriber.publishesOfConnection
        #expect(before.count == 5)
        subscriber.acknowledge(.puback, before[2].packetIdentifier ?? 0)
        subscriber.lose()
        publisher.publish("t", "5", qos: .atLeastOnce)
        reconnect(subscriber)
        let after = subscriber.publishesOfConnection
        #expect(after.map { String(decoding: $0.payload, as: UTF8.self) } == ["0", "1", "3", "4", "5"])
        #expect(after.map(\.duplicate) == [true, true, true, true, false])
        #expect(after.prefix(4).map(\.packetIdentifier) == [0, 1, 3, 4].map { before[$0].packetIdentifier })
    }

    @Test(arguments: [1, 4], [ProtocolVersion.v31, .v311, .v5])
    func `an outgoing QoS 2 flow goes on after PUBREC with PUBREL`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = persistent("subscriber", broker, version)
        subscriber.subscribe("t")
        subscriber.acknowledgement = .withoutPubcomp
        let publisher = broker.connected("publisher")
        for number in 0..<3 { publisher.publish("t", "\(number)", qos: .exactlyOnce) }
        let identifiers = subscriber.publishes.compactMap(\.packetIdentifier)
        for _ in 0..<2 {
            subscriber.lose()
            reconnect(subscriber)
            #expect(subscriber.publishesOfConnection.isEmpty)
            #expect(subscriber.acknowledgements(.pubrel).map(\.packetIdentifier) == identifiers)
        }
        subscriber.acknowledgement = .automatic
        subscriber.lose()
        reconnect(subscriber)
        #expect(broker.statistics().storedMessages == 0)
        subscriber.lose()
        reconnect(subscriber)
        #expect(subscriber.acknowledgements(.pubrel).isEmpty)
        #expect(subscriber.texts == ["0", "1", "2"])
    }

    @Test(arguments: [1, 4]) func `the window counts flows that wait for PUBCOMP after a reconnect`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = persistent("subscriber", broker, .v5)
        subscriber.subscribe("t")
        subscriber.acknowledgement = .withoutPubcomp
        let publisher = broker.connected("publisher")
        for number in 0..<30 { publisher.publish("t", "\(number)", qos: .exactlyOnce) }
        #expect(subscriber.messages.count == 20)
        subscriber.lose()
        reconnect(subscriber)
        #expect(subscriber.messages.count == 20)
        #expect(subscriber.acknowledgements(.pubrel).count == 20)
        subscriber.acknowledgement = .automatic
        subscriber.lose()
        reconnect(subscriber)
        #expect(subscriber.texts == (0..<30).map(String.init))
    }

    @Test(arguments: [1, 4], [ProtocolVersion.v31, .v311, .v5])
    func `an incoming QoS 2 flow goes on before and after PUBREC without delivering twice`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        subscriber.subscribe("t")
        let publisher = persistent("publisher", broker, version)
        // The broker has the message; the client has not seen PUBREC.
        publisher.publish("t", "1", qos: .exactlyOnce, until: .sent)
        publisher.connection?.isReading = false
        publisher.lose()
        reconnect(publisher)
        publisher.resend()
        #expect(publisher.unfinished == [])
        #expect(subscriber.texts == ["1"])
        // The client has seen PUBREC.
        publisher.publish("t", "2", qos: .exactlyOnce, until: .answered)
        publisher.lose()
        reconnect(publisher)
        publisher.resend()
        #expect(publisher.unfinished == [])
        // The broker has had PUBREL; the client has not seen PUBCOMP.
        publisher.publish("t", "3", qos: .exactlyOnce, until: .answered)
        publisher.connection?.isReading = false
        publisher.release()
        publisher.lose()
        reconnect(publisher)
        publisher.resend()
        #expect(publisher.unfinished == [])
        #expect(subscriber.texts == ["1", "2", "3"])
    }

    @Test(arguments: [1, 4]) func `an identifier received before a reconnect counts against Receive Maximum after it`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = persistent("publisher", broker, .v5)
        for _ in 0..<20 { publisher.publish("t", qos: .exactlyOnce, until: .answered) }
        publisher.lose()
        reconnect(publisher)
        publisher.resend()
        #expect(publisher.isConnected)
        #expect(publisher.unfinished == [])
    }

    @Test(arguments: [1, 4]) func `nothing is sent again on a connection that stands`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = persistent("subscriber", broker, .v311)
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        broker.connected("publisher").publish("t", qos: .atLeastOnce)
        broker.advance(seconds: 86_400)
        #expect(subscriber.publishes.count == 1)
    }

    @Test(arguments: [1, 4]) func `packet identifiers stay unique over reconnects and a smaller window`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = persistent("subscriber", broker, .v5)
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        let publisher = broker.connected("publisher")
        for number in 0..<20 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        subscriber.lose()
        var properties = Properties()
        properties.receiveMaximum = 5
        subscriber.connect(clean: false, expiry: .max, properties: properties)
        #expect(subscriber.publishesOfConnection.count == 5)
        for number in 20..<30 { publisher.publish("t", "\(number)", qos: .atLeastOnce) }
        subscriber.acknowledgement = .automatic
        for packet in subscriber.publishesOfConnection { subscriber.acknowledge(.puback, packet.packetIdentifier ?? 0) }
        let after = subscriber.publishesOfConnection
        #expect(after.map { String(decoding: $0.payload, as: UTF8.self) } == (0..<30).map(String.init))
        #expect(Set(after.compactMap(\.packetIdentifier)).count == 30)
        #expect(after.map(\.duplicate) == (0..<30).map { $0 < 20 })
    }
}
