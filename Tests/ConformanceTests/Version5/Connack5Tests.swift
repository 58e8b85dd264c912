import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Section 3.2: CONNACK, and that what it says is true.
@Suite struct Connack5Tests {
    @Test(.statement("MQTT-3.2.0-1", .v5), .statement("MQTT-3.2.0-2", .v5), arguments: [1, 4])
    func `CONNACK comes first and once`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(expiry: 100)
        client.subscribe("t")
        client.lose()
        let publisher = broker.connected("p")
        for number in 0..<5 { publisher.publish("t", "\(number)", qos: .atLeastOnce, retain: true) }
        let connection = broker.open()
        let connect = ConnectPacket(cleanStart: false, clientIdentifier: "a")
        connection.send(.connect(connect))
        connection.send(.pingreq)
        connection.send(.subscribe(SubscribePacket(packetIdentifier: 1, subscriptions: [Subscription(filter: "t")])))
        broker.settle()
        let types = connection.takePackets().map(\.type)
        #expect(types.first == .connack)
        #expect(types.filter { $0 == .connack }.count == 1)
        #expect(types.count == 9)
    }

    @Test(.statement("MQTT-3.2.2-1", .v5), arguments: [1, 4])
    func `the reserved acknowledge flags are 0`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let connect = RawPacket.connect(flags: 0, properties: [0x11, 0, 0, 1, 0])
        #expect(broker.open().exchange(connect)[2] == 0)
        #expect(broker.open().exchange(connect)[2] == 1)
    }

    @Test(
        .statement("MQTT-3.2.2-6", .v5), .statement("MQTT-3.2.2-7", .v5), .statement("MQTT-3.2.2-8", .v5),
        .statement("MQTT-3.1.4-2", .v5), arguments: [1, 4])
    func `a refusal has its code, no session, and ends the connection`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.connected("a", expiry: 100) { _ in }.lose()
        for code in UInt8(0x80)...0xA2 {
            let reason = ReasonCode(rawValue: code)
            broker.authenticate = { _ in .refused(reason) }
            let client = broker.client("a")
            // A code that CONNACK does not have is told as Not authorized.
            let told = reason.isAllowed(in: .connack, from: .server) ? reason : .notAuthorized
            let answer = client.connect(clean: false, userName: "u")
            #expect(answer?.reasonCode == told)
            #expect(answer?.sessionPresent == false)
            #expect(client.connection?.isClosed == true)
        }
    }

    @Test(.statement("MQTT-3.2.2-9", .v5), .statement("MQTT-3.2.2-10", .v5), arguments: [1, 4], [QoS.atMostOnce, .atLeastOnce])
    func `a lower Maximum QoS is told, and subscriptions for more are granted it`(shards: Int, maximum: QoS) {
        let broker = SimulatedBroker(
            shards: shards, settings: SimulatedBroker.testSettings { $0.listeners[0].maximumQoS = maximum })
        let client = broker.connected("a")
        #expect(client.connack?.properties.maximumQoS == maximum)
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            #expect(client.subscribe("t", qos: qos)?.reasonCodes == [ReasonCode(rawValue: min(qos, maximum).rawValue)])
        }
        broker.connected("p").publish("t", "x", qos: maximum)
        #expect(client.messages.map(\.qos) == [maximum])
    }

    @Test(.statement("MQTT-3.2.2-11", .v5), arguments: [QoS.atMostOnce, .atLeastOnce], [QoS.atLeastOnce, .exactlyOnce])
    func `a message above Maximum QoS ends the connection with 0x9B`(maximum: QoS, qos: QoS) {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.listeners[0].maximumQoS = maximum })
        let client = broker.connected("a")
        client.publish("t", qos: qos)
        #expect(client.ending == (qos > maximum ? .closed(.qosNotSupported) : .open))
    }

    @Test(.statement("MQTT-3.2.2-12", .v5), arguments: [QoS.atMostOnce, .atLeastOnce])
    func `a will above Maximum QoS is refused with 0x9B`(maximum: QoS) {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.listeners[0].maximumQoS = maximum })
        let client = broker.client("a")
        for qos in [QoS.atMostOnce, .atLeastOnce, .exactlyOnce] {
            let answer = client.connect(will: Will(topic: "t", qos: qos))
            #expect(answer?.reasonCode == (qos > maximum ? .qosNotSupported : .success))
            #expect(client.isConnected == (qos <= maximum))
        }
    }

    @Test(.statement("MQTT-3.2.2-13", .v5), .statement("MQTT-3.2.2-14", .v5))
    func `without retained messages a will or a message with RETAIN is refused with 0x9A`() {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.retainAvailable = false })
        let client = broker.client("a")
        #expect(client.connect(will: Will(topic: "t", retain: true))?.reasonCode == .retainNotSupported)
        #expect(client.connection?.isClosed == true)
        #expect(client.connect(will: Will(topic: "t"))?.properties.retainAvailable == false)
        client.publish("t")
        #expect(client.ending == .open)
        client.publish("t", retain: true)
        #expect(client.ending == .closed(.retainNotSupported))
    }

    @Test(.statement("MQTT-3.2.2-15", .v5), arguments: [1, 4])
    func `a packet above the broker's Maximum Packet Size ends the connection with 0x95`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.packetBytesMax = 100 })
        let client = broker.connected("a")
        #expect(client.connack?.properties.maximumPacketSize == 100)
        let body = RawPacket.text("t") + [0]
        client.send(RawPacket.packet(0x30, body, Array(repeating: 1, count: 94)))
        #expect(client.ending == .open)
        // It need not come whole.
        client.send(Array(RawPacket.packet(0x30, body, Array(repeating: 1, count: 95)).prefix(2)))
        #expect(client.ending == .closed(.packetTooLarge))
    }

    @Test(.statement("MQTT-3.2.2-17", .v5), .statement("MQTT-3.3.2-9", .v5), arguments: [UInt16(1), 10, 65_535])
    func `a Topic Alias above the broker's maximum ends the connection with 0x94`(maximum: UInt16) {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.listeners[0].topicAliasMaximum = maximum })
        let client = broker.connected("a")
        #expect(client.connack?.properties.topicAliasMaximum == maximum)
        client.publish("t", properties: .having { $0.topicAlias = maximum })
        #expect(client.ending == .open)
        guard maximum < .max else { return }
        client.publish("t", properties: .having { $0.topicAlias = maximum + 1 })
        #expect(client.ending == .closed(.topicAliasInvalid))
    }

    @Test(.statement("MQTT-3.2.2-18", .v5)) func `without Topic Alias Maximum no alias is accepted`() {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.listeners[0].topicAliasMaximum = 0 })
        let client = broker.connected("a")
        #expect(client.connack?.properties.topicAliasMaximum == nil)
        client.publish("t", properties: .having { $0.topicAlias = 1 })
        #expect(client.ending == .closed(.topicAliasInvalid))
    }

    @Test(.statement("MQTT-3.2.2-19", .v5), .statement("MQTT-3.2.2-20", .v5), arguments: UInt32(5)...80)
    func `a refusal leaves its explanation out where there is no room`(limit: UInt32) {
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.retainAvailable = false })
        let connection = broker.open()
        let properties = Properties.having { $0.maximumPacketSize = limit }
        let will = Will(topic: "t", retain: true)
        connection.send(.connect(ConnectPacket(properties: properties, clientIdentifier: "a", will: will)))
        broker.settle()
        #expect(connection.receivedByteCount <= Int(limit))
        guard case .connack(let answer) = connection.takePackets().first else {
            Issue.record("no CONNACK within \(limit) bytes")
            return
        }
        #expect(answer.reasonCode == .retainNotSupported)
        #expect(limit < 80 || answer.properties.reasonString != nil)
        #expect(connection.isClosed)
    }

    @Test(arguments: [1, 4]) func `every feature that is switched off is told, and refused`(shards: Int) {
        let settings = SimulatedBroker.testSettings {
            $0.wildcardSubscriptionAvailable = false
            $0.subscriptionIdentifiersAvailable = false
            $0.sharedSubscriptionAvailable = false
            $0.inFlightMessagesMax = 7
        }
        let client = SimulatedBroker(shards: shards, settings: settings).connected("a")
        let told = client.connack?.properties
        #expect(told?.wildcardSubscriptionAvailable == false)
        #expect(told?.subscriptionIdentifierAvailable == false)
        #expect(told?.sharedSubscriptionAvailable == false)
        #expect(told?.receiveMaximum == 7)
        #expect(client.subscribe("a/+")?.reasonCodes == [.wildcardSubscriptionsNotSupported])
        #expect(client.subscribe("#")?.reasonCodes == [.wildcardSubscriptionsNotSupported])
        #expect(client.subscribe("$share/g/a")?.reasonCodes == [.sharedSubscriptionsNotSupported])
        #expect(client.subscribe("a")?.reasonCodes == [.grantedQoS2])
        client.subscribe("a", identifier: 1)
        #expect(client.ending == .closed(.subscriptionIdentifiersNotSupported))
    }

    @Test func `every feature that is on is left unsaid, as the standard's default`() {
        let told = SimulatedBroker().connected("a").connack?.properties
        #expect(told?.maximumQoS == nil)
        #expect(told?.retainAvailable == nil)
        #expect(told?.wildcardSubscriptionAvailable == nil)
        #expect(told?.subscriptionIdentifierAvailable == nil)
        #expect(told?.sharedSubscriptionAvailable == nil)
        #expect(told?.sessionExpiryInterval == nil)
        #expect(told?.assignedClientIdentifier == nil)
        let unlimited = SimulatedBroker.testSettings { $0.inFlightMessagesMax = 0 }
        #expect(SimulatedBroker(settings: unlimited).connected("a").connack?.properties.receiveMaximum == nil)
    }

    @Test(arguments: [1, 4], [UInt32(0), 59, 60, 61, .max])
    func `the operator's longest session is told, and kept`(shards: Int, asked: UInt32) {
        let broker = SimulatedBroker(
            shards: shards, settings: SimulatedBroker.testSettings { $0.sessionExpirySecondsMax = 60 })
        let client = broker.client("a")
        #expect(client.connect(expiry: asked)?.properties.sessionExpiryInterval == (asked > 60 ? 60 : nil))
        client.lose()
        broker.advance(milliseconds: 60_100)
        #expect(client.connect(clean: false)?.sessionPresent == false)
    }
}
