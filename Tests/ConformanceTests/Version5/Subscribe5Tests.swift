import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Sections 3.8 and 3.9: SUBSCRIBE and SUBACK.
@Suite struct Subscribe5Tests {
    @Test(.statement("MQTT-3.8.1-1", .v5), .statement("MQTT-3.10.1-1", .v5))
    func `SUBSCRIBE and UNSUBSCRIBE with other flags than 0010 are malformed`() {
        let broker = SimulatedBroker()
        for flags in 0..<UInt8(16) where flags != 2 {
            let filter = RawPacket.text("t")
            #expect(broker.ending(after: RawPacket.packet(0x80 | flags, [0, 1, 0], filter, [0])) == .closed(.malformedPacket))
            #expect(broker.ending(after: RawPacket.packet(0xA0 | flags, [0, 1, 0], filter)) == .closed(.malformedPacket))
        }
    }

    @Test(.statement("MQTT-3.8.3-2", .v5), .statement("MQTT-3.10.3-2", .v5))
    func `SUBSCRIBE and UNSUBSCRIBE without a filter are protocol errors`() {
        let broker = SimulatedBroker()
        #expect(broker.ending(after: [0x82, 3, 0, 1, 0]) == .closed(.protocolError))
        #expect(broker.ending(after: [0xA2, 3, 0, 1, 0]) == .closed(.protocolError))
    }

    @Test(.statement("MQTT-3.8.3-5", .v5)) func `every reserved bit of the options is malformed, and so is what has no meaning`() {
        let broker = SimulatedBroker()
        for options in UInt8.min...UInt8.max {
            let packet = RawPacket.packet(0x82, [0, 1, 0], RawPacket.text("t"), [options])
            let expected: Ending =
                if options & 0xC0 != 0 {
                    .closed(.malformedPacket)
                } else if options & 3 == 3 || options & 0x30 == 0x30 {
                    .closed(.protocolError)
                } else {
                    .open
                }
            #expect(broker.ending(after: packet) == expected, "\(options)")
        }
    }

    @Test(.statement("MQTT-3.8.3-3", .v5), arguments: [1, 4], [QoS.atMostOnce, .exactlyOnce])
    func `No Local keeps a client's own messages from it, and nobody else's`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        let other = broker.connected("b")
        client.subscribe("t", noLocal: true)
        other.subscribe("t", noLocal: true)
        client.publish("t", "from a", qos: qos)
        other.publish("t", "from b", qos: qos)
        #expect(client.texts == ["from b"])
        #expect(other.texts == ["from a"])
        // Another subscription of its own without the option lets them through.
        client.subscribe("+")
        client.publish("t", "again", qos: qos)
        #expect(client.texts == ["from b", "again"])
    }

    @Test(.statement("MQTT-3.8.3-3", .v5), arguments: [1, 4])
    func `No Local goes by the Client Identifier, also after the publisher's session has ended`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(clean: true, will: Will(topic: "r/will", payload: [1], retain: true))
        client.publish("r/own", "x", qos: .atLeastOnce, retain: true)
        client.lose()
        broker.connected("b").publish("r/other", "x", qos: .atLeastOnce, retain: true)
        client.connect(clean: true)
        client.subscribe("r/#", noLocal: true)
        #expect(client.messages.map(\.topic) == ["r/other"])
        let other = broker.connected("c")
        other.subscribe("r/#", noLocal: true)
        #expect(other.messages.map(\.topic).sorted() == ["r/other", "r/own", "r/will"])
    }

    @Test(.statement("MQTT-3.8.3-4", .v5)) func `No Local on a shared subscription is a protocol error`() {
        let packet = RawPacket.packet(0x82, [0, 1, 0], RawPacket.text("$share/g/t"), [4])
        #expect(SimulatedBroker().ending(after: packet) == .closed(.protocolError))
    }

    @Test(.statement("MQTT-3.8.4-1", .v5), .statement("MQTT-3.8.4-2", .v5), arguments: [1, 4])
    func `every SUBSCRIBE gets its SUBACK, however many come at once`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        for number in 1...50 {
            let packet = SubscribePacket(
                packetIdentifier: UInt16(number * 1000), subscriptions: [Subscription(filter: "t/\(number)")])
            client.connection?.send(.subscribe(packet))
        }
        broker.settle()
        let answered = client.packets.compactMap { if case .suback(let packet) = $0 { packet.packetIdentifier } else { nil } }
        #expect(answered == (1...50).map { UInt16($0 * 1000) })
    }

    @Test(.statement("MQTT-3.8.4-3", .v5), arguments: [1, 4])
    func `the same filter again replaces the subscription`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        let publisher = broker.connected("p")
        client.subscribe("t", qos: .atMostOnce, noLocal: true, identifier: 1)
        client.subscribe("t", qos: .exactlyOnce, retainAsPublished: true, identifier: 2)
        #expect(broker.statistics().subscriptions == 1)
        publisher.publish("t", qos: .exactlyOnce, retain: true)
        client.publish("t", qos: .exactlyOnce)
        #expect(client.messages.map(\.qos) == [.exactlyOnce, .exactlyOnce])
        #expect(client.messages.map(\.retain) == [true, false])
        #expect(client.messages.map(\.properties.subscriptionIdentifiers) == [[2], [2]])
        client.unsubscribe("t")
        publisher.publish("t")
        #expect(client.messages.count == 2)
    }

    @Test(.statement("MQTT-3.8.4-4", .v5), arguments: [1, 4])
    func `no message is lost while a subscription is replaced`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        client.subscribe("t")
        let publisher = broker.connected("p")
        var sent: [String] = []
        for number in 0..<100 {
            publisher.publish("t", "\(number)", qos: .atLeastOnce, until: .sent)
            sent.append("\(number)")
            client.beginSubscribe([
                Subscription(filter: "t", options: SubscriptionOptions(maximumQoS: number % 2 == 0 ? .atLeastOnce : .exactlyOnce))
            ])
            if number % 7 == 0 { broker.step() }
        }
        broker.settle()
        #expect(client.texts == sent)
    }

    @Test(
        .statement("MQTT-3.8.4-5", .v5), .statement("MQTT-3.8.4-6", .v5), .statement("MQTT-3.8.4-7", .v5),
        .statement("MQTT-3.9.3-1", .v5), .statement("MQTT-3.9.3-2", .v5), arguments: [1, 4])
    func `several filters are answered one by one, in their order, in one SUBACK`(shards: Int) {
        let settings = SimulatedBroker.testSettings {
            $0.sharedSubscriptionAvailable = false
            $0.topicBytesMax = 6
            $0.subscriptionsPerClientMax = 4
        }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.connected("p").publish("r", "x", qos: .atLeastOnce, retain: true)
        let client = broker.connected("a")
        let wanted: [(TopicFilter, QoS, ReasonCode)] = [
            ("r", .exactlyOnce, .grantedQoS2), ("$share/g/t", .exactlyOnce, .sharedSubscriptionsNotSupported),
            ("b", .atMostOnce, .grantedQoS0), ("a/b/c/d", .atMostOnce, .topicFilterInvalid), ("r", .atLeastOnce, .grantedQoS1),
            ("c/#", .atLeastOnce, .grantedQoS1), ("d", .atLeastOnce, .grantedQoS1), ("e", .atLeastOnce, .quotaExceeded),
        ]
        let subscriptions = wanted.map { Subscription(filter: $0.0, options: SubscriptionOptions(maximumQoS: $0.1)) }
        #expect(client.subscribe(subscriptions)?.reasonCodes == wanted.map(\.2))
        // As if each had come alone, save that a filter that stands twice gets what is retained once, by its last
        // terms.
        #expect(client.texts == ["x"])
        #expect(client.messages.map(\.qos) == [.atLeastOnce])
        #expect(broker.statistics().subscriptions == 4)
    }

    @Test(arguments: [1, 4]) func `a subscription that exists may be renewed at the limit`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.subscriptionsPerClientMax = 2 }
        let client = SimulatedBroker(shards: shards, settings: settings).connected("a")
        #expect(
            client.subscribe([Subscription(filter: "a"), Subscription(filter: "$share/g/b")])?.reasonCodes == [.success, .success])
        #expect(client.subscribe("a")?.reasonCodes == [.grantedQoS2])
        #expect(client.subscribe("$share/g/b")?.reasonCodes == [.grantedQoS2])
        #expect(client.subscribe("c")?.reasonCodes == [.quotaExceeded])
    }

    @Test(
        arguments: [
            ([0x0B, 0], .protocolError), ([0x0B, 1, 0x0B, 2], .protocolError),
            ([0x0B, 0x80, 0x80, 0x80, 0x80, 1], .malformedPacket),
            ([0x02, 0, 0, 0, 1], .malformedPacket), ([0x1F, 0, 0], .malformedPacket),
        ] as [([UInt8], ReasonCode)])
    func `a wrong property of SUBSCRIBE ends the connection`(properties: [UInt8], reason: ReasonCode) {
        let packet = RawPacket.packet(0x82, [0, 1], RawPacket.block(properties), RawPacket.text("t"), [0])
        #expect(SimulatedBroker().ending(after: packet) == .closed(reason))
    }
}
