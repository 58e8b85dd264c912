import MQTTCodec
import MartletTestKit
import Testing

@Suite struct AuthTests {
    static let golden: [GoldenCase] = [
        GoldenCase(.v5, .server, "F0 00", .auth(AuthPacket())),
        GoldenCase(
            .v5, .client, "F0 0B 18 09 15 00 01 'm 16 00 02 00 01",
            .auth(
                AuthPacket(
                    reasonCode: .continueAuthentication,
                    properties: properties {
                        $0.authenticationMethod = "m"
                        $0.authenticationData = [0, 1]
                    }))),
        GoldenCase(
            .v5, .client, "F0 06 19 04 15 00 01 'm",
            .auth(AuthPacket(reasonCode: .reauthenticate, properties: properties { $0.authenticationMethod = "m" }))),
    ]

    @Test(arguments: golden) func `AUTH is these bytes`(_ golden: GoldenCase) { golden.check() }

    static let malformed: [MalformedCase] = [
        MalformedCase(.v5, .client, "F1 00", .reservedFlags, "MQTT-2.1.3-1"),
        MalformedCase(.v5, .client, "F0 01 18", .truncated),
        MalformedCase(.v5, .client, "F0 02 18 00", .authenticationMethodMissing),
        MalformedCase(.v5, .client, "F0 05 18 03 16 00 00", .authenticationDataWithoutMethod),
        MalformedCase(.v5, .server, "F0 06 19 04 15 00 01 'm", .invalidReasonCode),
        MalformedCase(.v5, .client, "F0 06 00 04 15 00 01 'm", .invalidReasonCode),
        MalformedCase(.v311, .client, "F0 00", .reservedPacketType),
    ]

    @Test(arguments: malformed) func `a broken AUTH is refused`(_ malformed: MalformedCase) { malformed.check() }

    @Test(.statement("MQTT-3.15.1-1", .v5)) func `an AUTH with any flag is malformed`() {
        for flags in UInt8(1)...15 {
            #expect(Frame(first: 0xF0 | flags, body: []).decoded(.v5, from: .client) == .failure(.reservedFlags))
        }
    }
}

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

@Suite struct PingTests {
    static let golden: [GoldenCase] = [ProtocolVersion.v31, .v311, .v5].flatMap { version in
        [GoldenCase(version, .client, "C0 00", .pingreq), GoldenCase(version, .server, "D0 00", .pingresp)]
    }

    @Test(arguments: golden) func `PINGREQ and PINGRESP are these bytes`(_ golden: GoldenCase) { golden.check() }

    static let malformed: [MalformedCase] = [
        MalformedCase(.v311, .client, "C1 00", .reservedFlags, "MQTT-2.1.3-1"),
        MalformedCase(.v5, .client, "C0 01 00", .trailingBytes),
        MalformedCase(.v5, .client, "D0 00", .unexpectedPacket),
        MalformedCase(.v5, .server, "C0 00", .unexpectedPacket),
        MalformedCase(.v311, .client, "00 00", .reservedPacketType),
        MalformedCase(.v5, .client, "00 00", .reservedPacketType),
        MalformedCase(.v311, .client, "F0 00", .reservedPacketType),
        MalformedCase(.v5, .client, "C0 FF FF FF FF 7F", .remainingLengthTooLong),
    ]

    @Test(arguments: malformed) func `a broken ping or a type that does not exist is refused`(_ malformed: MalformedCase) {
        malformed.check()
    }
}
