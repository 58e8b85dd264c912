import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// CONNECT and its answers.
@Suite struct ConnectTests {
    @Test(.statement("MQTT-3.1.4-5", .v5), arguments: [1, 4])
    func `a default CONNECT gets the CONNACK of a default broker, byte for byte`(shards: Int) {
        let connection = SimulatedBroker(shards: shards).open()
        let connect: [UInt8] = [0x10, 0x0e, 0, 4, 0x4d, 0x51, 0x54, 0x54, 5, 2, 0, 60, 0, 0, 1, 0x61]
        #expect(
            connection.exchange(connect) == [0x20, 0x0e, 0, 0, 0x0b, 0x22, 0, 0x0a, 0x27, 0, 0x1e, 0x84, 0x80, 0x21, 0, 0x14])
    }

    @Test(.statement("MQTT-3.1.4-4", .v311), arguments: [1, 4], [ProtocolVersion.v31, .v311])
    func `a CONNECT of an earlier version gets four bytes`(shards: Int, version: ProtocolVersion) {
        let connection = SimulatedBroker(shards: shards).open()
        let answer = connection.exchange(
            ControlPacket.connect(ConnectPacket(version: version, clientIdentifier: "a")).encoded(version: version))
        #expect(answer == [0x20, 2, 0, 0])
    }

    @Test(arguments: [1, 4]) func `a QoS 2 message goes all the way from client to client`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber")
        let publisher = broker.connected("publisher")
        #expect(subscriber.subscribe("a/+")?.reasonCodes == [.grantedQoS2])
        publisher.publish("a/b", "hello", qos: .exactlyOnce)
        #expect(subscriber.texts == ["hello"])
        #expect(subscriber.messages.first?.qos == .exactlyOnce)
        #expect(publisher.unfinished == [])
    }

    @Test(.statement("MQTT-3.1.4-6", .v5), arguments: [1, 2, 4])
    func `what a client sends without waiting for CONNACK is worked off in order, wherever the client lives`(shards: Int) {
        for seed in 1...50 {
            let broker = SimulatedBroker(shards: shards, seed: UInt64(seed))
            let connections = (0..<8).map { number in
                let connection = broker.open()
                connection.delivery = .separate
                connection.send(.connect(ConnectPacket(clientIdentifier: "client \(number)")))
                for identifier in 1...5 as ClosedRange<UInt16> {
                    connection.send(
                        .publish(PublishPacket(topic: "t", packetIdentifier: identifier, qos: .atLeastOnce, payload: [])))
                }
                return connection
            }
            broker.settle()
            for connection in connections {
                let identifiers = connection.takePackets().compactMap { packet -> UInt16? in
                    guard case .acknowledgement(let acknowledgement) = packet else { return nil }
                    return acknowledgement.packetIdentifier
                }
                #expect(identifiers == [1, 2, 3, 4, 5], "seed \(seed)")
            }
        }
    }
}
