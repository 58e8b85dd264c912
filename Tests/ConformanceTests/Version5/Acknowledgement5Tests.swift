import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// Sections 3.4 to 3.7: PUBACK, PUBREC, PUBREL and PUBCOMP.
@Suite struct Acknowledgement5Tests {
    @Test(
        .statement("MQTT-3.4.2-1", .v5), .statement("MQTT-3.5.2-1", .v5), .statement("MQTT-3.6.2-1", .v5),
        .statement("MQTT-3.7.2-1", .v5), arguments: [1, 4])
    func `each answer has a code of its own table, whatever the broker objects to`(shards: Int) {
        let settings = SimulatedBroker.testSettings {
            $0.payloadBytesMax = 10
            $0.topicBytesMax = 6
            $0.validatesPayloadFormat = true
        }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let client = broker.connected("a")
        broker.connected("s").subscribe("t")
        let text = Properties.having { $0.payloadFormatIndicator = 1 }
        let cases: [(packet: PublishPacket, reason: ReasonCode)] = [
            (PublishPacket(topic: "t"), .success), (PublishPacket(topic: "nobody"), .noMatchingSubscribers),
            (PublishPacket(topic: "t", payload: Array(repeating: 0x61, count: 11)), .implementationSpecificError),
            (PublishPacket(topic: "a/b/c/d"), .topicNameInvalid), (PublishPacket(topic: "$SYS/broker"), .notAuthorized),
            (PublishPacket(topic: "t", properties: text, payload: [0xFF]), .payloadFormatInvalid),
        ]
        for (packet, reason) in cases {
            for qos in [QoS.atLeastOnce, .exactlyOnce] {
                let answer = client.publish(packet.topic, bytes: packet.payload, qos: qos, properties: packet.properties)
                // PUBREC does not say that nobody subscribes.
                let isSilent = qos == .exactlyOnce && reason == .noMatchingSubscribers
                #expect(answer?.reasonCode == (isSilent ? .success : reason), "\(packet.topic)")
            }
        }
        #expect(client.unfinished == [])
        client.acknowledge(.pubrec, 9)
        client.acknowledge(.pubrel, 9)
        #expect(client.acknowledgements(.pubrel).last?.reasonCode == .packetIdentifierNotFound)
        #expect(client.acknowledgements(.pubcomp).last?.reasonCode == .packetIdentifierNotFound)
    }

    @Test(
        .statement("MQTT-3.4.2-1", .v5), .statement("MQTT-3.5.2-1", .v5), .statement("MQTT-3.6.2-1", .v5),
        .statement("MQTT-3.7.2-1", .v5))
    func `a client's code that is not in the packet's table is a protocol error`() {
        let tables: [(first: UInt8, codes: Set<UInt8>)] = [
            (0x40, [0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99]),
            (0x50, [0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99]),
            (0x62, [0, 0x92]), (0x70, [0, 0x92]),
        ]
        let broker = SimulatedBroker()
        for (first, codes) in tables {
            for code in UInt8.min...UInt8.max {
                let ending = broker.ending(after: [first, 3, 0, 1, code])
                #expect(ending == (codes.contains(code) ? .open : .closed(.protocolError)), "\(first) \(code)")
            }
        }
    }

    @Test(.statement("MQTT-3.6.1-1", .v5)) func `a PUBREL with other flags than 0010 is malformed`() {
        let broker = SimulatedBroker()
        for flags in 0..<UInt8(16) where flags != 2 {
            #expect(broker.ending(after: [0x60 | flags, 2, 0, 1]) == .closed(.malformedPacket))
        }
        #expect(broker.ending(after: [0x62, 2, 0, 1]) == .open)
    }

    @Test(
        .statement("MQTT-3.4.2-2", .v5), .statement("MQTT-3.4.2-3", .v5), .statement("MQTT-3.5.2-2", .v5),
        .statement("MQTT-3.5.2-3", .v5), .statement("MQTT-3.6.2-2", .v5), .statement("MQTT-3.6.2-3", .v5),
        .statement("MQTT-3.7.2-2", .v5), .statement("MQTT-3.7.2-3", .v5), .statement("MQTT-3.9.2-1", .v5),
        .statement("MQTT-3.9.2-2", .v5), .statement("MQTT-3.11.2-1", .v5), .statement("MQTT-3.11.2-2", .v5),
        .statement("MQTT-3.14.2-3", .v5), .statement("MQTT-3.14.2-4", .v5), arguments: [1, 4])
    func `no explanation makes an answer larger than the client takes`(shards: Int) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.topicBytesMax = 6 })
        // The smallest that a CONNACK of the default limits fits into.
        let client = broker.connected("a") { $0.maximumPacketSize = 16 }
        var sizes: [Int] = []
        client.connection?.onReceive = { connection in
            var bytes = connection.takeBytes()
            while bytes.count >= 2 {
                sizes.append(Int(bytes[1]) + 2)
                bytes.removeFirst(min(bytes.count, Int(bytes[1]) + 2))
            }
        }
        client.send(RawPacket.packet(0x32, RawPacket.text("a/b/c/d"), [0, 1, 0]))
        client.send(RawPacket.packet(0x34, RawPacket.text("a/b/c/d"), [0, 2, 0]))
        client.acknowledge(.pubrec, 3)
        client.acknowledge(.pubrel, 4)
        client.send(RawPacket.packet(0x82, [0, 5, 0], RawPacket.text("a/b/c/d"), [0]))
        client.send(RawPacket.packet(0xA2, [0, 6, 0], RawPacket.text("a/b/c/d")))
        #expect(sizes == [5, 5, 5, 5, 6, 6])
        client.send([0xFF, 0])
        #expect(client.connection?.isClosed == true)
        #expect(sizes.count == 7)
        #expect(sizes.allSatisfy { $0 <= 16 })
    }

    @Test(.statement("MQTT-3.1.2-24", .v5), arguments: [1, 4])
    func `a client that leaves no room for the answer it asks for is told so`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let filters = (0..<20).map { Subscription(filter: "t/\($0)") }
        let subscriber = broker.connected("a") { $0.maximumPacketSize = 16 }
        subscriber.subscribe(Array(filters.prefix(11)))
        #expect(subscriber.ending == .open)
        subscriber.subscribe(filters)
        #expect(subscriber.ending == .closed(.packetTooLarge))
        let unsubscriber = broker.connected("b") { $0.maximumPacketSize = 16 }
        unsubscriber.send(.unsubscribe(UnsubscribePacket(packetIdentifier: 1, filters: filters.map(\.filter))))
        #expect(unsubscriber.ending == .closed(.packetTooLarge))
    }
}
