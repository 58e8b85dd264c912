import MQTTCodec
import MartletTestKit
import Testing

@Suite struct ConnackTests {
    static let golden: [GoldenCase] = [
        GoldenCase(.v31, .server, "20 02 00 00", .connack(ConnackPacket())),
        GoldenCase(.v311, .server, "20 02 01 00", .connack(ConnackPacket(sessionPresent: true))),
        GoldenCase(.v311, .server, "20 02 00 05", .connack(ConnackPacket(returnCode: .notAuthorized))),
        GoldenCase(.v5, .server, "20 03 00 00 00", .connack(ConnackPacket())),
        GoldenCase(.v5, .server, "20 03 00 87 00", .connack(ConnackPacket(reasonCode: .notAuthorized))),
        // mosquitto's default, byte for byte.
        GoldenCase(
            .v5, .server, "20 0E 00 00 0B 22 00 0A 27 00 1E 84 80 21 00 14",
            .connack(
                ConnackPacket(
                    properties: properties {
                        $0.topicAliasMaximum = 10
                        $0.maximumPacketSize = 2_000_000
                        $0.receiveMaximum = 20
                    }))),
        GoldenCase(
            .v5, .server, "20 13 01 00 10 13 00 3C 22 00 0A 12 00 01 'a 25 00 24 01 2A 01",
            .connack(
                ConnackPacket(
                    sessionPresent: true,
                    properties: properties {
                        $0.topicAliasMaximum = 10
                        $0.assignedClientIdentifier = "a"
                        $0.serverKeepAlive = 60
                        $0.maximumQoS = .atLeastOnce
                        $0.retainAvailable = false
                        $0.sharedSubscriptionAvailable = true
                    }))),
    ]

    @Test(arguments: golden) func `CONNACK is these bytes`(_ golden: GoldenCase) { golden.check() }

    static let malformed: [MalformedCase] = [
        MalformedCase(.v311, .server, "20 02 02 00", .reservedConnackFlags, "MQTT-3.2.2-1"),
        MalformedCase(.v5, .server, "20 03 80 00 00", .reservedConnackFlags, "MQTT-3.2.2-1"),
        MalformedCase(.v311, .server, "20 02 00 06", .invalidReasonCode),
        MalformedCase(.v5, .server, "20 03 00 01 00", .invalidReasonCode),
        MalformedCase(.v5, .server, "20 02 00 00", .truncated),
        MalformedCase(.v311, .server, "20 03 00 00 00", .trailingBytes),
        MalformedCase(.v5, .server, "20 05 00 00 02 24 02", .invalidPropertyValue),
        MalformedCase(.v311, .client, "20 02 00 00", .unexpectedPacket),
        MalformedCase(.v311, .server, "21 02 00 00", .reservedFlags, "MQTT-2.1.3-1"),
    ]

    @Test(arguments: malformed) func `a broken CONNACK is refused`(_ malformed: MalformedCase) { malformed.check() }

    @Test func `a maximum QoS of 2 is said by saying nothing`() {
        let packet = ControlPacket.connack(ConnackPacket(properties: properties { $0.maximumQoS = .exactlyOnce }))
        #expect(Frame(packet.encoded(version: .v5)) == "20 03 00 00 00")
    }

    @Test func `a connection is accepted when neither code says otherwise`() {
        #expect(ConnackPacket().isAccepted)
        #expect(!ConnackPacket(reasonCode: .banned).isAccepted)
        #expect(!ConnackPacket(returnCode: .identifierRejected).isAccepted)
    }
}
