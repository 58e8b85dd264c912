import MQTTCodec
import MartletTestKit
import Testing

@Suite struct DisconnectTests {
    static let golden: [GoldenCase] = [
        GoldenCase(.v31, .client, "E0 00", .disconnect(DisconnectPacket())),
        GoldenCase(.v311, .client, "E0 00", .disconnect(DisconnectPacket())),
        GoldenCase(.v5, .client, "E0 00", .disconnect(DisconnectPacket())),
        GoldenCase(.v5, .client, "E0 01 04", .disconnect(DisconnectPacket(reasonCode: .disconnectWithWillMessage))),
        GoldenCase(.v5, .server, "E0 01 8E", .disconnect(DisconnectPacket(reasonCode: .sessionTakenOver))),
        GoldenCase(
            .v5, .client, "E0 07 00 05 11 00 00 00 0A",
            .disconnect(DisconnectPacket(properties: properties { $0.sessionExpiryInterval = 10 }))),
    ]

    @Test(arguments: golden) func `DISCONNECT is these bytes`(_ golden: GoldenCase) { golden.check() }

    static let malformed: [MalformedCase] = [
        MalformedCase(.v5, .client, "E1 00", .reservedFlags, "MQTT-2.1.3-1"),
        MalformedCase(.v311, .client, "E0 01 00", .trailingBytes),
        MalformedCase(.v311, .server, "E0 00", .unexpectedPacket),
        MalformedCase(.v5, .client, "E0 01 8E", .invalidReasonCode),
        MalformedCase(.v5, .server, "E0 01 04", .invalidReasonCode),
        MalformedCase(.v5, .client, "E0 02 00 01", .truncated),
        MalformedCase(
            .v5, .server, "E0 07 8E 05 11 00 00 00 0A", .sessionExpiryIntervalFromServer, "MQTT-3.14.2-2"),
        MalformedCase(.v5, .client, "E0 06 00 04 1C 00 01 'a", .propertyNotAllowed),
    ]

    @Test(arguments: malformed) func `a broken DISCONNECT is refused`(_ malformed: MalformedCase) { malformed.check() }

    @Test(.statement("MQTT-3.14.1-1", .v5)) func `a DISCONNECT with any flag is malformed`() {
        for flags in UInt8(1)...15 {
            #expect(Frame(first: 0xE0 | flags, body: []).decoded(.v5, from: .client) == .failure(.reservedFlags))
        }
    }

    @Test(.statement("MQTT-3.14.2-2", .v5)) func `a server's DISCONNECT holds no session expiry interval`() {
        let frame: Frame = "E0 07 8E 05 11 00 00 00 0A"
        #expect(frame.decoded(.v5, from: .server) == .failure(.sessionExpiryIntervalFromServer))
    }
}
