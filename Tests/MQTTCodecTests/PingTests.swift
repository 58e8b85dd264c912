import MQTTCodec
import MartletTestKit
import Testing

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
