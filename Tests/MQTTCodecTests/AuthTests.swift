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
