import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Messages that come in a row and go out in a row: nobody must notice that they are delivered together.
@Suite struct FrameBatchTests {
    private var broker = SimulatedBroker(shards: 1, settings: settings)

    private static let settings = SimulatedBroker.testSettings { $0.inFlightMessagesMax = 1000 }

    /// A client that is subscribed to everything below `t`.
    private func subscriber(
        _ name: EncodedString, _ version: ProtocolVersion = .v311, properties: Properties = Properties(), qos: QoS = .exactlyOnce
    ) -> TestClient {
        let client = broker.client(name, version: version)
        client.connect(properties: properties)
        client.subscribe("t/#", qos: qos)
        return client
    }

    private func message(
        _ number: Int, _ qos: QoS = .atLeastOnce, topic: TopicName = "t/a", retain: Bool = false, size: Int = 0,
        expiry: UInt32? = nil
    ) -> ControlPacket {
        var packet = PublishPacket(
            topic: EncodedString(String(describing: topic)) ?? "", packetIdentifier: qos == .atMostOnce ? nil : UInt16(number + 1),
            qos: qos, retain: retain, payload: Array("\(number)".utf8) + [UInt8](repeating: 32, count: size))
        packet.properties.messageExpiryInterval = expiry
        return .publish(packet)
    }

    private func send(_ packets: [ControlPacket], from client: TestClient) {
        client.connection?.send(packets.flatMap { $0.encoded(version: client.version) })
        broker.settle()
    }

    private func numbers(_ client: TestClient) -> [Int] {
        client.messages.map { Int($0.text.split(separator: " ").first ?? "") ?? -1 }
    }

    @Test(.statement("MQTT-4.6.0-5", .v5), arguments: [1, 3])
    mutating func `whatever breaks a batch, messages keep their order`(shards: Int) {
        broker = SimulatedBroker(shards: shards, settings: Self.settings)
        let subscribers = [
            subscriber("one"), subscriber("two", .v5), subscriber("three", .v5), subscriber("four"), subscriber("five"),
            subscriber("six"),
        ]
        let publisher = broker.connected("publisher", version: .v5)
        var packets: [ControlPacket] = []
        for number in 0..<300 {
            switch number % 17 {
            case 3: packets.append(message(number, .exactlyOnce))
            case 5: packets.append(message(number, .atMostOnce))
            case 7: packets.append(message(number, retain: true))
            case 9: packets.append(message(number, size: 600))
            case 11: packets.append(message(number, topic: "t/b"))
            case 13: packets.append(.pingreq)
            case 14: packets.append(message(number, expiry: 60))
            default: packets.append(message(number))
            }
        }
        send(packets, from: publisher)
        let expected = (0..<300).filter { $0 % 17 != 13 }
        for client in subscribers { #expect(numbers(client) == expected, "\(client.identifier)") }
        #expect(
            subscribers[1].messages.allSatisfy {
                $0.properties.messageExpiryInterval == (Int($0.text).map { $0 % 17 == 14 } == true ? 60 : nil)
            })
        #expect(publisher.acknowledgements(.puback).count == expected.count { $0 % 17 != 3 && $0 % 17 != 5 })
    }

    @Test(.statement("MQTT-4.9.0-2", .v5), arguments: [1, 3, 64, 65]) func `a window that ends within a batch is kept`(
        window: UInt16
    ) {
        var properties = Properties()
        properties.receiveMaximum = window
        let narrow = subscriber("narrow", .v5, properties: properties)
        let wide = subscriber("wide")
        narrow.acknowledgement = .manual
        let publisher = broker.connected("publisher", version: .v311)
        send((0..<100).map { message($0) }, from: publisher)
        #expect(numbers(wide) == Array(0..<100))
        #expect(narrow.messages.count == Int(window))
        for index in 0..<100 {
            #expect(narrow.messages.count == min(100, index + Int(window)))
            narrow.acknowledge(.puback, narrow.messages[index].packetIdentifier ?? 0)
        }
        #expect(numbers(narrow) == Array(0..<100))
    }

    @Test func `receivers of a lower QoS, away or with their own frames get what the others get`() {
        var properties = Properties()
        properties.topicAliasMaximum = 5
        let clients = [
            subscriber("plain"), subscriber("none", qos: .atMostOnce), subscriber("aliases", .v5, properties: properties),
            subscriber("five", .v5),
        ]
        let away = broker.client("away", version: .v5)
        away.connect(expiry: 100)
        away.subscribe("t/#")
        away.disconnect()
        let publisher = broker.connected("publisher", version: .v5)
        send((0..<150).map { message($0, $0 < 70 ? .atLeastOnce : .exactlyOnce) }, from: publisher)
        for client in clients { #expect(numbers(client) == Array(0..<150), "\(client.identifier)") }
        #expect(clients[1].messages.allSatisfy { $0.qos == .atMostOnce })
        away.connect(clean: false, expiry: 100)
        #expect(numbers(away) == Array(0..<150))
    }

    @Test func `what was sent before a mistake or a farewell is delivered before it has its effect`() {
        let other = subscriber("other")
        let wrong = subscriber("wrong", .v5)
        let packets = (0..<5).map { message($0) }
        wrong.connection?.send(packets.flatMap { $0.encoded(version: .v5) } + [0x00, 0x00])
        broker.settle()
        #expect(numbers(other) == Array(0..<5))
        #expect(numbers(wrong) == Array(0..<5))
        #expect(wrong.disconnectReason == .malformedPacket)
        let leaving = subscriber("leaving")
        send(packets + [.unsubscribe(UnsubscribePacket(packetIdentifier: 9, filters: ["t/#"]))] + packets, from: leaving)
        #expect(numbers(leaving) == Array(0..<5))
        #expect(numbers(other) == Array(0..<5) + Array(0..<5) + Array(0..<5))
        send(packets + [.disconnect(DisconnectPacket())], from: leaving)
        #expect(numbers(other).count == 20)
    }

    /// How the client that has a will ends, while its packets are worked off.
    enum End: CaseIterable {
        case mistake, farewell, takeover
    }

    @Test(.statement("MQTT-3.1.2-8", .v5), arguments: End.allCases)
    func `the will of a client that subscribes to it itself goes to the others before its session is gone`(end: End) {
        let others = [subscriber("one"), subscriber("two", .v5)]
        let doomed = broker.client("doomed", version: .v5)
        doomed.connect(will: Will(topic: "t/will", payload: Array("7".utf8), qos: .atLeastOnce))
        doomed.subscribe("t/#", qos: .exactlyOnce)
        switch end {
        case .mistake: doomed.connection?.send(message(6).encoded(version: .v5) + [0x00, 0x00])
        case .farewell:
            send([message(6), .disconnect(DisconnectPacket(reasonCode: .disconnectWithWillMessage))], from: doomed)
        case .takeover:
            doomed.publish("t/a", "6", qos: .atLeastOnce)
            broker.client("doomed", version: .v5).connect()
        }
        broker.settle()
        for client in others { #expect(numbers(client) == [6, 7], "\(client.identifier)") }
    }

    @Test func `a topic that another one pushes out of the cache within a batch keeps its receivers`() {
        let clients = [subscriber("one"), subscriber("two")]
        let publisher = broker.connected("publisher", version: .v311)
        // Three times as many topics as the cache has lines, two messages each.
        for block in 0..<50 {
            send(
                (0..<1000).map { message($0, topic: "t/\(block)/\($0 / 2)") }, from: publisher)
            for client in clients {
                #expect(client.takeMessages().map(\.text) == (0..<1000).map(String.init))
            }
        }
    }

    @Test func `a publisher is answered after its receivers have their messages`() {
        let clients = [subscriber("one"), subscriber("two")]
        let publisher = broker.connected("publisher", version: .v311)
        var order: [String] = []
        for client in clients + [publisher] {
            let receive = client.connection?.onReceive
            client.connection?.onReceive = {
                order.append("\(client.identifier)")
                receive?($0)
            }
        }
        publisher.connection?.send((0..<5).flatMap { message($0).encoded(version: .v311) })
        broker.settle()
        #expect(order.prefix(2).sorted() == ["one", "two"])
        #expect(order[2...].first == "publisher")
    }
}
