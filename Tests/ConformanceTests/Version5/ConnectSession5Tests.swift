import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Section 3.1.2: Clean Start, Keep Alive, Session Expiry Interval and the limits that CONNECT sets.
@Suite struct ConnectSession5Tests {
    @Test(.statement("MQTT-3.1.2-4", .v5), .statement("MQTT-3.2.2-2", .v5), arguments: [1, 4])
    func `Clean Start throws away subscriptions, queue and flows`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(clean: false, expiry: 100)
        client.subscribe("t")
        let publisher = broker.connected("p")
        client.acknowledgement = .manual
        publisher.publish("t", "in flight", qos: .exactlyOnce)
        client.lose()
        publisher.publish("t", "queued", qos: .atLeastOnce)
        #expect(client.connect(clean: true, expiry: 100)?.sessionPresent == false)
        publisher.publish("t", "later", qos: .atLeastOnce)
        #expect(client.publishesOfConnection.isEmpty)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-3.1.2-5", .v5), .statement("MQTT-3.1.2-6", .v5), .statement("MQTT-3.2.2-3", .v5), arguments: [1, 4])
    func `without Clean Start a session goes on, or a new one begins`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        #expect(client.connect(clean: false, expiry: 100)?.sessionPresent == false)
        client.subscribe("t")
        client.lose()
        broker.connected("p").publish("t", "queued", qos: .atLeastOnce)
        #expect(client.connect(clean: false, expiry: 100)?.sessionPresent == true)
        #expect(client.texts == ["queued"])
        #expect(client.connack?.reasonCode == .success)
    }

    @Test(
        .statement("MQTT-3.1.2-23", .v5), .statement("MQTT-4.1.0-1", .v5), .statement("MQTT-4.1.0-2", .v5), arguments: [1, 4],
        [UInt32(1), 60, 600])
    func `a session is kept while its connection stands and for its interval after that`(shards: Int, interval: UInt32) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(expiry: interval)
        client.subscribe("t")
        broker.advance(seconds: UInt64(interval) * 3)
        let publisher = broker.connected("p")
        publisher.publish("t", "1", qos: .atLeastOnce)
        #expect(client.texts == ["1"])
        client.lose()
        broker.advance(milliseconds: UInt64(interval) * 1000 - 100)
        #expect(client.connect(clean: false, expiry: interval)?.sessionPresent == true)
        client.lose()
        broker.advance(milliseconds: UInt64(interval) * 1000 + 100)
        #expect(client.connect(clean: false, expiry: interval)?.sessionPresent == false)
        publisher.publish("t", "2", qos: .atLeastOnce)
        #expect(client.texts == ["1"])
    }

    @Test(.statement("MQTT-3.1.2-22", .v5), arguments: [1, 4])
    func `silence of one and a half times the Keep Alive ends the connection`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(keepAlive: 10, will: Will(topic: "will"))
        let witness = broker.connected("w")
        witness.subscribe("will")
        broker.advance(milliseconds: 14_900)
        #expect(client.isConnected)
        client.ping()
        broker.advance(milliseconds: 14_900)
        #expect(client.isConnected)
        #expect(witness.messages.isEmpty)
        broker.advance(milliseconds: 200)
        #expect(client.ending == .closed(.keepAliveTimeout))
        // As if the network had failed: the will is published.
        #expect(witness.messages.count == 1)
    }

    @Test(.statement("MQTT-3.2.2-22", .v5), arguments: [0, 60] as [UInt16])
    func `without Server Keep Alive the client's own counts`(keepAlive: UInt16) {
        let broker = SimulatedBroker()
        let client = broker.client("a")
        #expect(client.connect(keepAlive: keepAlive)?.properties.serverKeepAlive == nil)
        broker.advance(seconds: 89)
        #expect(client.isConnected)
        broker.advance(seconds: 2)
        #expect(client.isConnected == (keepAlive == 0))
    }

    @Test(arguments: [0, 5, 100] as [UInt16])
    func `an operator's longest Keep Alive is told, and kept`(asked: UInt16) {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.keepAliveSecondsMax = 20 })
        let client = broker.client("a")
        let answer = client.connect(keepAlive: asked)
        #expect(answer?.properties.serverKeepAlive == (asked == 5 ? nil : 20))
        broker.advance(milliseconds: asked == 5 ? 7_400 : 29_900)
        #expect(client.isConnected)
        broker.advance(milliseconds: 200)
        #expect(client.ending == .closed(.keepAliveTimeout))
    }

    @Test(arguments: [1, 4]) func `a connection that sends no CONNECT is ended in time`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let connection = broker.open()
        broker.advance(milliseconds: 29_900)
        #expect(!connection.isClosed)
        broker.advance(milliseconds: 200)
        #expect(connection.isClosed)
        #expect(connection.takeBytes() == [])
    }

    @Test(
        .statement("MQTT-3.1.2-24", .v5), .statement("MQTT-3.1.2-25", .v5), arguments: [1, 4],
        [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `a message too large for a client is discarded as if it had been sent`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let limited = broker.connected("limited", expiry: 100) { $0.maximumPacketSize = 50 }
        let other = broker.connected("other")
        for client in [limited, other] { client.subscribe("t") }
        let publisher = broker.connected("p")
        // Fixed header 2, topic 3, identifier 2 from QoS 1, property length 1.
        let fitting = 50 - (qos == .atMostOnce ? 6 : 8)
        for size in [fitting, fitting + 1, 1000, 1] { publisher.publish("t", bytes: Array(repeating: 7, count: size), qos: qos) }
        #expect(limited.messages.map(\.payload.count) == [fitting, 1])
        #expect(other.messages.map(\.payload.count) == [fitting, fitting + 1, 1000, 1])
        // The same for what waited.
        limited.lose()
        for size in [fitting + 1, 1] { publisher.publish("t", bytes: Array(repeating: 8, count: size), qos: qos) }
        limited.connect(clean: false, expiry: 100, properties: .having { $0.maximumPacketSize = 50 })
        #expect(limited.publishesOfConnection.map(\.payload.count) == (qos == .atMostOnce ? [] : [1]))
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(.statement("MQTT-3.1.2-24", .v5), arguments: [1, 4])
    func `a retained message too large for a client is not sent to it`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = broker.connected("p")
        publisher.publish("t/large", bytes: Array(repeating: 7, count: 100), qos: .atLeastOnce, retain: true)
        publisher.publish("t/small", "x", qos: .atLeastOnce, retain: true)
        let limited = broker.connected("limited") { $0.maximumPacketSize = 50 }
        limited.subscribe("t/#")
        #expect(limited.texts == ["x"])
    }

    @Test(.statement("MQTT-3.1.2-24", .v5), arguments: [1, 4])
    func `a client whose limit leaves no room for CONNACK is not connected`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        for limit in UInt32(1)...15 {
            let connection = broker.open()
            let connect = ConnectPacket(properties: .having { $0.maximumPacketSize = limit }, clientIdentifier: "a")
            #expect(connection.exchange(.connect(connect)).isEmpty)
            #expect(connection.isClosed)
        }
        #expect(broker.statistics().clientsConnected == 0)
        let connection = broker.open()
        let connect = ConnectPacket(properties: .having { $0.maximumPacketSize = 16 }, clientIdentifier: "a")
        #expect(connection.exchange(.connect(connect)).count == 1)
        #expect(!connection.isClosed)
    }

    @Test(.statement("MQTT-3.1.2-28", .v5), arguments: [nil, false, true])
    func `Response Information comes to those who ask for it`(asked: Bool?) {
        let client = SimulatedBroker().connected("a") { $0.requestResponseInformation = asked }
        #expect(client.connack?.properties.responseInformation == (asked == true ? "response/a" : nil))
    }

    @Test(.statement("MQTT-3.1.2-29", .v5), arguments: [nil, false, true])
    func `without Request Problem Information only CONNACK and DISCONNECT give reasons`(asked: Bool?) {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.sharedSubscriptionAvailable = false })
        let client = broker.connected("a") { $0.requestProblemInformation = asked }
        client.subscribe("$share/g/t")
        client.unsubscribe("nothing")
        client.publish("$SYS/no", qos: .atLeastOnce)
        client.publish("$SYS/no", qos: .exactlyOnce)
        client.acknowledge(.pubrel, 77)
        client.acknowledge(.pubrec, 78)
        #expect(client.packets.count == 7)
        for packet in client.packets.dropFirst() where asked == false {
            switch packet {
            case .acknowledgement(let packet): #expect(packet.properties.isEmpty)
            case .suback(let packet): #expect(packet.properties.isEmpty)
            case .unsuback(let packet): #expect(packet.properties.isEmpty)
            default: Issue.record("\(packet) was not asked for")
            }
        }
    }
}
