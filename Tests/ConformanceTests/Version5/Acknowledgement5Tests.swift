import BrokerModel
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

    /// Of the first SUBACK, UNSUBACK, PUBACK or PUBREC.
    private func reason(_ packet: ControlPacket) -> EncodedString? {
        switch packet {
        case .acknowledgement(let packet): packet.properties.reasonString
        case .suback(let packet): packet.properties.reasonString
        case .unsuback(let packet): packet.properties.reasonString
        default: nil
        }
    }

    private func strict(shards: Int) -> SimulatedBroker {
        func rule(_ permission: AccessPermission, _ filter: String) -> AccessRule? {
            AccessFilter(Array(filter.utf8), isPattern: false).map { AccessRule(permission, $0) }
        }
        return SimulatedBroker(
            shards: shards,
            settings: SimulatedBroker.testSettings {
                $0.topicBytesMax = 20
                $0.payloadBytesMax = 10
                $0.sharedSubscriptionAvailable = false
                $0.subscriptionsPerClientMax = 1
                $0.listeners[0].checksAccessOnSubscribe = true
                $0.listeners[0].accessControl = AccessControl(
                    anonymous: [rule([.read, .write], "open/#"), rule([.deny], "open/shut/#")].compactMap { $0 }, users: [:],
                    patterns: [], file: "/etc/secret.acl")
            })
    }

    @Test(arguments: [1, 4], [QoS.atLeastOnce, .exactlyOnce])
    func `PUBACK and PUBREC say in words why a message was not taken, and nothing of the rules`(shards: Int, qos: QoS) {
        let client = strict(shards: shards).connected("a")
        for (topic, payload, code, words) in [
            ("$SYS/x", "", .notAuthorized, "the topic is the broker's own"),
            ("open/shut/x", "", .notAuthorized, "not authorized to publish to this topic"),
            ("else", "", .notAuthorized, "not authorized to publish to this topic"),
            ("open/1234567890123456", "", .topicNameInvalid, "the topic has more than 20 bytes"),
            ("open/a", "12345678901", .implementationSpecificError, "the payload has more than 10 bytes"),
        ] as [(EncodedString, String, ReasonCode, EncodedString)] {
            let answer = client.publish(topic, payload, qos: qos)
            #expect(answer?.reasonCode == code && answer?.properties.reasonString == words, "\(topic)")
        }
        #expect(client.publish("open/a", "", qos: qos)?.properties.isEmpty == true)
    }

    @Test(arguments: [1, 4]) func `SUBACK says in words which filters were refused, and why`(shards: Int) {
        let client = strict(shards: shards).connected("a")
        #expect(client.subscribe("else")?.properties.reasonString == "not authorized to subscribe to this topic filter")
        #expect(client.subscribe("open/a")?.properties.isEmpty == true)
        let filters = ["open/a", "else", "$share/g/open/a", "open/b", "open/1234567890123456"] as [TopicFilter]
        #expect(
            client.subscribe(filters.map { Subscription(filter: $0) })?.properties.reasonString
                == """
                filter 2: not authorized to subscribe to this topic filter; filter 3: shared subscriptions are switched off; \
                filter 4: quota exceeded: the client has its maximum number of subscriptions; \
                filter 5: the topic filter is too long or has too many levels
                """)
        let many = client.subscribe((0..<9).map { Subscription(filter: "else/\($0)") })
        #expect(many?.properties.reasonString?.description.hasSuffix("; 4 more") == true)
    }

    /// Dynamic security whose default keeps everybody from ending subscriptions.
    private final class Binding: RoleSource {
        func rights(of userName: EncodedString?) -> RoleRights? {
            var defaults = RoleRights.Defaults()
            (defaults.subscribes, defaults.unsubscribes) = (true, false)
            return RoleRights(roles: [], defaults: defaults)
        }
    }

    @Test(.statement("MQTT-3.11.2-1", .v5), .statement("MQTT-3.1.2-29", .v5), arguments: [nil, true, false])
    func `UNSUBACK says in words why a subscription stays, to those who want them and take a packet of that size`(asked: Bool?) {
        let broker = SimulatedBroker(
            settings: SimulatedBroker.testSettings {
                $0.listeners[0].accessControl = AccessControl(roles: Binding(), lists: nil)
            })
        for (sizeMax, isTold) in [(UInt32(100), asked != false), (30, false)] {
            let client = broker.connected("a") {
                $0.requestProblemInformation = asked
                $0.maximumPacketSize = sizeMax
            }
            client.subscribe("t")
            let answer = client.unsubscribe("t")
            #expect(answer?.reasonCodes == [.notAuthorized])
            #expect(answer?.properties.reasonString == (isTold ? "not authorized to end this subscription" : nil))
        }
    }

    @Test func `a client before 5 point 0 gets no words`() {
        let broker = strict(shards: 1)
        for version in [ProtocolVersion.v31, .v311] {
            let client = broker.connected("a", version: version)
            client.publish("else", qos: .atLeastOnce)
            client.subscribe("else")
            #expect(client.isConnected && client.packets.allSatisfy { reason($0) == nil })
        }
    }

    @Test(
        .statement("MQTT-3.1.2-29", .v5), .statement("MQTT-3.4.2-2", .v5), .statement("MQTT-3.5.2-2", .v5),
        .statement("MQTT-3.9.2-1", .v5), arguments: UInt32(8)...80)
    func `words come to those who want them and take a packet of that size`(sizeMax: UInt32) {
        let broker = strict(shards: 1)
        for asked in [nil, true, false] {
            let client = broker.client("a")
            client.connect(
                properties: .having {
                    $0.requestProblemInformation = asked
                    $0.maximumPacketSize = max(sizeMax, 60)
                })
            #expect(client.isConnected)
            client.publish("else", qos: .atLeastOnce)
            client.publish("else", qos: .exactlyOnce)
            client.subscribe("else")
            let answers = client.packetsOfConnection.dropFirst()
            #expect(answers.count == 3)
            #expect(answers.allSatisfy { $0.encoded(version: .v5).count <= Int(max(sizeMax, 60)) })
            if asked == false { #expect(answers.allSatisfy { reason($0) == nil }) }
            if asked != false, sizeMax == 80 { #expect(answers.allSatisfy { reason($0) != nil }) }
        }
    }

    @Test func `the words of acknowledgements that wait for the store come in their order`() {
        let broker = SimulatedBroker(
            shards: 1, settings: SimulatedBroker.testSettings { $0.payloadBytesMax = 10 }, store: SimulatedStore())
        let client = broker.client("a")
        client.connect(expiry: 100)
        client.subscribe("t")
        broker.store?.mode = .paused
        let before = client.packets.count
        for number in 0..<6 {
            let payload = number % 2 == 0 ? "kept" : "much too large"
            client.publish("t", payload, qos: number < 3 ? .atLeastOnce : .exactlyOnce, until: .sent)
        }
        broker.settle()
        #expect(client.acknowledgements(.puback).isEmpty && client.acknowledgements(.pubrec).isEmpty)
        for _ in 0..<4 { broker.commit() }
        var answers: [AcknowledgementPacket] = []
        for case .acknowledgement(let packet) in client.packets[before...] where packet.type == .puback || packet.type == .pubrec {
            answers.append(packet)
        }
        #expect(
            answers.filter { $0.type == .puback }.map(\.reasonCode.isError) == [false, true, false],
            "\(client.packets.map(\.type)) \(client.ending)")
        #expect(answers.filter { $0.type == .pubrec }.map(\.reasonCode.isError) == [true, false, true])
        #expect(
            answers.allSatisfy { $0.reasonCode.isError == ($0.properties.reasonString == "the payload has more than 10 bytes") })
    }
}
