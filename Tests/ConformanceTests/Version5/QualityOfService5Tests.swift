import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Sections 4.3 to 4.6: the flows of QoS 1 and 2, redelivery, and order.
@Suite struct QualityOfService5Tests {
    @Test(
        .statement("MQTT-2.2.1-4", .v5), .statement("MQTT-4.3.2-1", .v5), .statement("MQTT-4.3.2-2", .v5),
        .statement("MQTT-4.3.3-1", .v5), .statement("MQTT-4.3.3-2", .v5), arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `each new message has an unused identifier, its QoS and DUP 0`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards, settings: SimulatedBroker.testSettings { $0.inFlightMessagesMax = 0 })
        let subscriber = broker.connected("s")
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        let publisher = broker.connected("p")
        for _ in 0..<100 { publisher.publish("t", qos: qos) }
        let identifiers = subscriber.publishes.compactMap(\.packetIdentifier)
        #expect(identifiers.count == 100)
        #expect(Set(identifiers).count == 100)
        #expect(!identifiers.contains(0))
        #expect(subscriber.publishes.allSatisfy { !$0.duplicate && $0.qos == qos })
    }

    @Test(
        .statement("MQTT-4.3.2-3", .v5), .statement("MQTT-4.3.3-3", .v5), .statement("MQTT-4.4.0-1", .v5), arguments: [1, 4],
        [QoS.atLeastOnce, .exactlyOnce])
    func `a message is sent again at each return until it is acknowledged, and at no other time`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s", expiry: .max) { _ in }
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        broker.connected("p").publish("t", "x", qos: qos)
        let identifier = subscriber.publishes[0].packetIdentifier ?? 0
        for _ in 0..<3 {
            broker.advance(seconds: 1_000)
            #expect(subscriber.publishesOfConnection.count == 1)
            subscriber.lose()
            subscriber.connect(clean: false, expiry: .max)
            #expect(subscriber.publishesOfConnection.map(\.packetIdentifier) == [identifier])
        }
        subscriber.acknowledge(qos == .atLeastOnce ? .puback : .pubrec, identifier)
        subscriber.lose()
        subscriber.connect(clean: false, expiry: .max)
        #expect(subscriber.publishesOfConnection.isEmpty)
    }

    @Test(
        .statement("MQTT-4.3.2-4", .v5), .statement("MQTT-4.3.2-5", .v5), .statement("MQTT-4.5.0-1", .v5), arguments: [1, 4])
    func `a QoS 1 message is acknowledged, and one with its identifier after that is new whatever its DUP`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let absent = broker.connected("absent", expiry: 100) { _ in }
        absent.subscribe("t")
        absent.lose()
        let publisher = broker.connected("p")
        for duplicate in [false, true, true] {
            publisher.send(.publish(PublishPacket(topic: "t", packetIdentifier: 7, qos: .atLeastOnce, duplicate: duplicate)))
        }
        #expect(publisher.acknowledgements(.puback).map(\.packetIdentifier) == [7, 7, 7])
        absent.connect(clean: false)
        #expect(absent.messages.count == 3)
        #expect(absent.messages.allSatisfy { !$0.duplicate })
    }

    @Test(
        .statement("MQTT-4.3.3-4", .v5), .statement("MQTT-4.3.3-5", .v5), .statement("MQTT-4.3.3-6", .v5), arguments: [1, 4])
    func `PUBREC brings PUBREL, which is sent again until PUBCOMP, the message never`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s", expiry: .max) { _ in }
        subscriber.subscribe("t")
        subscriber.acknowledgement = .withoutPubcomp
        broker.connected("p").publish("t", "x", qos: .exactlyOnce)
        let identifier = subscriber.publishes[0].packetIdentifier ?? 0
        #expect(subscriber.acknowledgements(.pubrel).map(\.packetIdentifier) == [identifier])
        subscriber.acknowledge(.pubrec, identifier)
        #expect(subscriber.acknowledgements(.pubrel).map(\.packetIdentifier) == [identifier, identifier])
        for _ in 0..<3 {
            subscriber.lose()
            subscriber.connect(clean: false, expiry: .max)
            #expect(subscriber.publishesOfConnection.isEmpty)
            #expect(subscriber.acknowledgements(.pubrel).map(\.packetIdentifier) == [identifier])
        }
        subscriber.acknowledge(.pubcomp, identifier)
        subscriber.lose()
        subscriber.connect(clean: false)
        #expect(subscriber.packetsOfConnection.count == 1)
    }

    @Test(.statement("MQTT-4.3.3-7", .v5), arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `a message that was sent once does not expire`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s", expiry: .max) { _ in }
        subscriber.subscribe("t")
        subscriber.acknowledgement = .manual
        broker.connected("p").publish("t", "x", qos: qos, properties: .having { $0.messageExpiryInterval = 5 })
        subscriber.lose()
        broker.advance(seconds: 100)
        subscriber.acknowledgement = .automatic
        subscriber.connect(clean: false, expiry: .max)
        #expect(subscriber.publishesOfConnection.count == 1)
        #expect(subscriber.publishesOfConnection.first?.properties.messageExpiryInterval == 0)
        #expect(broker.statistics().storedMessages == 0)
    }

    @Test(
        .statement("MQTT-4.3.3-8", .v5), .statement("MQTT-4.3.3-10", .v5), .statement("MQTT-4.3.3-11", .v5),
        .statement("MQTT-4.3.3-12", .v5), arguments: [1, 4])
    func `a QoS 2 identifier means one message from PUBLISH to PUBREL, over reconnects too`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s")
        subscriber.subscribe("t")
        let publisher = broker.connected("p", expiry: 100) { _ in }
        for round in 1...2 {
            for _ in 0..<3 {
                let packet = PublishPacket(topic: "t", packetIdentifier: 7, qos: .exactlyOnce, payload: [UInt8(round)])
                publisher.send(.publish(packet))
                #expect(publisher.acknowledgements(.pubrec).last?.packetIdentifier == 7)
                publisher.lose()
                publisher.connect(clean: false, expiry: 100)
            }
            #expect(subscriber.messages.map(\.payload) == (1...round).map { [UInt8($0)] })
            for known in [true, false] {
                publisher.acknowledge(.pubrel, 7)
                let answer = publisher.acknowledgements(.pubcomp).last
                #expect(answer?.packetIdentifier == 7)
                #expect(answer?.reasonCode == (known ? .success : .packetIdentifierNotFound))
            }
        }
    }

    @Test(.statement("MQTT-4.3.3-9", .v5), arguments: [1, 4])
    func `after a PUBREC with an error the identifier is free`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s")
        subscriber.subscribe("#")
        let publisher = broker.connected("p")
        publisher.send(.publish(PublishPacket(topic: "$SYS/no", packetIdentifier: 7, qos: .exactlyOnce)))
        publisher.send(.publish(PublishPacket(topic: "t", packetIdentifier: 7, qos: .exactlyOnce)))
        #expect(publisher.acknowledgements(.pubrec).map(\.reasonCode) == [.notAuthorized, .success])
        #expect(subscriber.messages.map(\.topic) == ["t"])
    }

    @Test(.statement("MQTT-4.3.3-13", .v5), arguments: [1, 4])
    func `expiry does not stop the flow towards the publisher`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let absent = broker.connected("absent", expiry: 100) { _ in }
        absent.subscribe("t")
        absent.lose()
        let publisher = broker.connected("p")
        publisher.publish("t", qos: .exactlyOnce, properties: .having { $0.messageExpiryInterval = 1 }, until: .answered)
        broker.advance(seconds: 50)
        publisher.release()
        #expect(publisher.acknowledgements(.pubcomp).map(\.reasonCode) == [.success])
        #expect(publisher.unfinished == [])
        absent.connect(clean: false)
        #expect(absent.messages.isEmpty)
    }

    @Test(.statement("MQTT-4.4.0-2", .v5), arguments: [1, 4], [0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99] as [UInt8])
    func `PUBACK and PUBREC with an error end the flow`(shards: Int, code: UInt8) {
        let broker = SimulatedBroker(shards: shards)
        for qos in [QoS.atLeastOnce, .exactlyOnce] {
            let subscriber = broker.connected("s", expiry: 100) { $0.receiveMaximum = 1 }
            subscriber.subscribe("t")
            subscriber.acknowledgement = .manual
            let publisher = broker.connected("p")
            publisher.publish("t", "refused", qos: qos)
            publisher.publish("t", "next", qos: qos)
            let type: PacketType = qos == .atLeastOnce ? .puback : .pubrec
            subscriber.acknowledge(type, subscriber.publishes[0].packetIdentifier ?? 0, ReasonCode(rawValue: code))
            #expect(subscriber.acknowledgements(.pubrel).isEmpty)
            #expect(subscriber.texts == ["refused", "next"])
            subscriber.lose()
            subscriber.connect(clean: false)
            #expect(subscriber.publishesOfConnection.map(\.payload) == [Array("next".utf8)])
            subscriber.disconnect()
        }
    }

    @Test(.statement("MQTT-4.5.0-1", .v5), arguments: [1, 4])
    func `a message is kept for every session that subscribes, there or away`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let clients = (0..<12).map { broker.connected("c\($0)", expiry: 100) { _ in } }
        for (position, client) in clients.enumerated() {
            client.subscribe(position % 3 == 0 ? "t" : position % 3 == 1 ? "+" : "t/#")
            if position % 2 == 0 { client.lose() }
        }
        let publisher = broker.connected("p")
        for qos in [QoS.atLeastOnce, .exactlyOnce] { publisher.publish("t", "\(qos)", qos: qos) }
        for client in clients {
            if !client.isConnected { client.connect(clean: false, expiry: 100) }
            #expect(client.messages.count == 2)
        }
    }

    @Test(
        .statement("MQTT-4.6.0-1", .v5), .statement("MQTT-4.6.0-5", .v5), .statement("MQTT-4.6.0-6", .v5), arguments: [1, 4],
        [QoS.atMostOnce, .atLeastOnce, .exactlyOnce])
    func `order is kept from each publisher, live, queued and sent again`(shards: Int, qos: QoS) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("s", expiry: 100) { $0.receiveMaximum = 7 }
        subscriber.subscribe("t/#")
        let publishers = (0..<3).map { broker.connected("p\($0)", version: .v311) }
        func publish(_ range: Range<Int>) {
            for number in range {
                for (position, publisher) in publishers.enumerated() {
                    publisher.publish("t/\(position)", "\(number)", qos: qos, until: .sent)
                }
            }
            broker.settle()
        }
        publish(0..<30)
        subscriber.acknowledgement = .manual
        publish(30..<40)
        subscriber.acknowledgement = .automatic
        subscriber.lose()
        if qos > .atMostOnce { publish(40..<50) }
        subscriber.connect(clean: false, properties: .having { $0.receiveMaximum = 3 })
        publish(50..<60)
        for position in 0..<3 {
            var seen: [String] = []
            for message in subscriber.messages where message.topic == "t/\(position)" && !seen.contains(message.text) {
                seen.append(message.text)
            }
            let missed = qos > .atMostOnce ? [] : Array(40..<50)
            #expect(seen == (0..<60).filter { !missed.contains($0) }.map(String.init))
        }
    }
}
