import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Acknowledgements that come together are worked off in runs: whoever sends them must not notice.
@Suite struct AcknowledgementRunTests {
    private static let count = 60

    /// The flows of one client, both ways: messages to it that it has not answered, and messages from it that it has
    /// not released.
    private struct Flows {
        var broker: SimulatedBroker
        let client: TestClient

        /// - Parameter isLogged: whether the log tells of each packet, for which each goes the long way.
        init(_ version: ProtocolVersion, isLogged: Bool) {
            broker = SimulatedBroker(
                shards: 1,
                settings: SimulatedBroker.testSettings {
                    $0.inFlightMessagesMax = 1000
                    if isLogged { $0.logTopics.insert(.debug) }
                })
            client = broker.client("client", version: version)
            client.acknowledgement = .manual
            client.connect()
            client.subscribe("one", qos: .atLeastOnce)
            client.subscribe("two", qos: .exactlyOnce)
            let publisher = broker.connected("publisher", version: version)
            for number in 0..<AcknowledgementRunTests.count {
                publisher.publish(number % 3 == 0 ? "one" : "two", "\(number)", qos: number % 3 == 0 ? .atLeastOnce : .exactlyOnce)
            }
            for number in 0..<AcknowledgementRunTests.count {
                client.send(
                    .publish(PublishPacket(topic: "from", packetIdentifier: UInt16(number + 1), qos: .exactlyOnce, payload: [])))
            }
            broker.settle()
        }

        func send(_ packets: [[UInt8]], together: Bool) {
            for bytes in together ? [packets.flatMap { $0 }] : packets {
                client.connection?.send(bytes)
                broker.settle()
            }
        }

        /// What the client was told, kind by kind, and whether it was let stay.
        var outcome: [String] {
            [PacketType.pubrec, .pubrel, .pubcomp].map { type in
                "\(type) "
                    + client.acknowledgements(type).map { "\($0.packetIdentifier):\($0.reasonCode.rawValue)" }.joined(
                        separator: " ")
            } + ["connected \(client.isConnected)"]
        }
    }

    /// All that a client may say, in an order that makes runs and breaks them: unknown identifiers, some twice, with
    /// reasons, mixed.
    private static func conversation(_ version: ProtocolVersion, seed: UInt64) -> [[UInt8]] {
        var random = SeededGenerator(seed: seed)
        var packets: [[UInt8]] = []
        let identifiers = Array(1...count) + [count + 5, 65_535]
        for type in [PacketType.puback, .pubrec, .pubrel, .pubcomp, .pubrel, .pubcomp] {
            var order = identifiers
            if random.next() % 2 == 0 { order.shuffle(using: &random) }
            for identifier in order where random.next() % 8 != 0 {
                // PUBACK is for QoS 1 and PUBREC for QoS 2; the contrary ends a connection, and has its own tests.
                if type == .puback, (identifier - 1) % 3 != 0 { continue }
                if type == .pubrec, (identifier - 1) % 3 == 0 { continue }
                let isPlain = version != .v5 || random.next() % 10 != 0
                let other: ReasonCode = type == .puback || type == .pubrec ? .unspecifiedError : .packetIdentifierNotFound
                let packet = AcknowledgementPacket(
                    type: type, packetIdentifier: UInt16(identifier), reasonCode: isPlain ? .success : other)
                packets.append(ControlPacket.acknowledgement(packet).encoded(version: version))
                if version == .v5, isPlain, random.next() % 12 == 0 {
                    packets[packets.count - 1] = Self.writtenOut(packets.last ?? [])
                }
                if random.next() % 12 == 0 { packets.append(ControlPacket.pingreq.encoded(version: version)) }
            }
        }
        return packets
    }

    /// The same with its reason, success, which could be left out.
    private static func writtenOut(_ packet: [UInt8]) -> [UInt8] { [packet[0], 3] + packet[2...] + [0] }

    @Test(
        .statement("MQTT-2.2.1-3", .v5), arguments: [ProtocolVersion.v311, .v5], [PacketType.puback, .pubrec, .pubrel, .pubcomp])
    func `identifier 0 ends the connection, also behind a run`(version: ProtocolVersion, type: PacketType) {
        for isLogged in [false, true] {
            let flows = Flows(version, isLogged: isLogged)
            let first = ControlPacket.acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: 1)).encoded(
                version: version)
            flows.send([first, Array(first[..<2]) + [0, 0]], together: true)
            #expect(!flows.client.isConnected)
        }
    }

    @Test(arguments: [ProtocolVersion.v311, .v5], [PacketType.puback, .pubrec])
    func `the wrong kind for a message's QoS ends the connection, also behind a run`(version: ProtocolVersion, type: PacketType) {
        for isLogged in [false, true] {
            let flows = Flows(version, isLogged: isLogged)
            let identifiers: [UInt16] = type == .puback ? [1, 4, 2] : [2, 3, 1]
            let packets = identifiers.map {
                ControlPacket.acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: $0)).encoded(version: version)
            }
            flows.send(packets, together: true)
            #expect(!flows.client.isConnected)
        }
    }

    @Test(arguments: [ProtocolVersion.v311, .v5], [false, true])
    func `nothing is read behind an acknowledgement that ends the connection`(version: ProtocolVersion, isLogged: Bool) {
        let flows = Flows(version, isLogged: isLogged)
        let other = flows.broker.connected("other")
        other.subscribe("behind")
        let wrong: [UInt16] = [1, 2, 4]
        let packets = wrong.map {
            ControlPacket.acknowledgement(AcknowledgementPacket(type: .puback, packetIdentifier: $0)).encoded(version: version)
        }
        let behind = ControlPacket.publish(PublishPacket(topic: "behind", payload: [1])).encoded(version: version)
        flows.send([behind] + packets + [behind], together: true)
        #expect(!flows.client.isConnected)
        #expect(other.messages.count == 1)
    }

    @Test(
        .statement("MQTT-4.3.3-4", .v5), .statement("MQTT-4.3.3-11", .v5), .statement("MQTT-4.3.3-12", .v5),
        arguments: [ProtocolVersion.v311, .v5], [UInt64(1), 2, 3, 4, 5, 6])
    func `what comes together is answered as what comes apart`(version: ProtocolVersion, seed: UInt64) {
        let packets = Self.conversation(version, seed: seed)
        let together = Flows(version, isLogged: false)
        let apart = Flows(version, isLogged: true)
        #expect(together.outcome == apart.outcome)
        together.send(packets, together: true)
        apart.send(packets, together: false)
        #expect(together.outcome == apart.outcome)
        #expect(together.client.acknowledgements(.pubcomp).count > Self.count / 2)
        let (left, right) = (together.broker.statistics(), apart.broker.statistics())
        #expect(left.messagesReceived == right.messagesReceived && left.messagesSent == right.messagesSent)
        for type in [PacketType.puback, .pubrec, .pubrel, .pubcomp] {
            #expect(left.packetsReceived[type] == right.packetsReceived[type], "\(type)")
            #expect(left.packetsSent[type] == right.packetsSent[type], "\(type)")
        }
        #expect(left.storedMessages == right.storedMessages, "what is not finished waits")
    }
}
