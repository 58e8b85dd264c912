import MQTTCodec
import MartletTestKit
import Testing

@Suite struct AcknowledgementTests {
    static let golden: [GoldenCase] = [
        GoldenCase(.v31, .client, "40 02 00 01", acknowledgement(.puback, 1)),
        GoldenCase(.v311, .server, "50 02 00 01", acknowledgement(.pubrec, 1)),
        GoldenCase(.v311, .client, "62 02 12 34", acknowledgement(.pubrel, 0x1234)),
        GoldenCase(.v311, .server, "70 02 FF FF", acknowledgement(.pubcomp, 65_535)),
        GoldenCase(.v5, .server, "40 02 00 01", acknowledgement(.puback, 1)),
        GoldenCase(.v5, .server, "40 03 00 01 10", acknowledgement(.puback, 1, .noMatchingSubscribers)),
        GoldenCase(.v5, .client, "50 03 00 01 97", acknowledgement(.pubrec, 1, .quotaExceeded)),
        GoldenCase(.v5, .client, "62 03 00 01 92", acknowledgement(.pubrel, 1, .packetIdentifierNotFound)),
        GoldenCase(
            .v5, .client, "70 09 00 01 00 05 1F 00 02 'no",
            acknowledgement(.pubcomp, 1, .success, properties { $0.reasonString = "no" })),
    ]

    private static func acknowledgement(
        _ type: PacketType, _ identifier: UInt16, _ code: ReasonCode = .success, _ properties: Properties = Properties()
    ) -> ControlPacket {
        .acknowledgement(
            AcknowledgementPacket(type: type, packetIdentifier: identifier, reasonCode: code, properties: properties))
    }

    @Test(arguments: golden) func `acknowledgements are these bytes`(_ golden: GoldenCase) { golden.check() }

    static let malformed: [MalformedCase] = [
        MalformedCase(.v311, .client, "41 02 00 01", .reservedFlags, "MQTT-2.1.3-1"),
        MalformedCase(.v311, .client, "60 02 00 01", .reservedFlags, "MQTT-2.1.3-1"),
        MalformedCase(.v5, .client, "6A 02 00 01", .reservedFlags, "MQTT-2.1.3-1"),
        MalformedCase(.v311, .client, "40 00", .truncated),
        MalformedCase(.v311, .client, "40 01 00", .truncated),
        MalformedCase(.v311, .client, "40 03 00 01 00", .trailingBytes),
        MalformedCase(.v5, .client, "40 02 00 00", .packetIdentifierZero, "MQTT-2.2.1-3"),
        MalformedCase(.v5, .client, "40 03 00 01 01", .invalidReasonCode),
        MalformedCase(.v5, .client, "40 03 00 01 11", .invalidReasonCode),
        MalformedCase(.v5, .client, "62 03 00 01 80", .invalidReasonCode),
        MalformedCase(.v5, .client, "40 04 00 01 00 01", .truncated),
        MalformedCase(.v5, .client, "40 05 00 01 00 00 00", .trailingBytes),
        MalformedCase(.v5, .client, "40 07 00 01 00 03 21 00 01", .propertyNotAllowed),
        MalformedCase(.v5, .client, "40 0A 00 01 00 06 1F 00 00 1F 00 00", .duplicateProperty),
    ]

    @Test(arguments: malformed) func `a broken acknowledgement is refused`(_ malformed: MalformedCase) { malformed.check() }

    @Test(.statement("MQTT-3.6.1-1", .v5)) func `a PUBREL with other flags than 0010 is malformed`() {
        for flags in UInt8(0)...15 where flags != 2 {
            let frame = Frame(first: 0x60 | flags, body: [0, 1])
            #expect(frame.decoded(.v5, from: .client) == .failure(.reservedFlags))
            #expect(frame.decoded(.v311, from: .client) == .failure(.reservedFlags))
        }
    }

    @Test func `MQTT 3.1 marks a repeated PUBREL`() {
        let frame: Frame = "6A 02 12 34"
        #expect(frame.decoded(.v31, from: .client) == .success(Self.acknowledgement(.pubrel, 0x1234)))
    }

    @Test func `the long form of a plain success is taken too`() {
        for frame: Frame in ["40 03 00 01 00", "40 04 00 01 00 00"] {
            #expect(frame.decoded(.v5, from: .client) == .success(Self.acknowledgement(.puback, 1)))
        }
    }
}
