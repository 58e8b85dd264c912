import MartletTestKit
import Testing

@testable import MQTTCodec

@Suite struct UnsubscribeTests {
    static let golden: [GoldenCase] = [
        GoldenCase(.v31, .client, "A2 05 00 01 00 01 '#", unsubscribe("#")),
        GoldenCase(.v311, .client, "A2 0A 00 01 00 03 'a/b 00 01 '+", unsubscribe("a/b", "+")),
        GoldenCase(.v5, .client, "A2 06 00 01 00 00 01 'a", unsubscribe("a")),
        GoldenCase(.v31, .server, "B0 02 00 01", unsuback()),
        GoldenCase(.v311, .server, "B0 02 00 01", unsuback()),
        GoldenCase(.v5, .server, "B0 05 00 01 00 00 11", unsuback(.success, .noSubscriptionExisted)),
    ]

    private static func unsubscribe(_ filters: TopicFilter...) -> ControlPacket {
        .unsubscribe(UnsubscribePacket(packetIdentifier: 1, filters: filters))
    }

    private static func unsuback(_ codes: ReasonCode...) -> ControlPacket {
        .unsuback(UnsubackPacket(packetIdentifier: 1, reasonCodes: codes))
    }

    @Test(arguments: golden) func `UNSUBSCRIBE and UNSUBACK are these bytes`(_ golden: GoldenCase) { golden.check() }

    static let malformed: [MalformedCase] = [
        MalformedCase(.v311, .client, "A0 05 00 01 00 01 'a", .reservedFlags, "MQTT-2.1.3-1"),
        MalformedCase(.v311, .client, "A2 05 00 00 00 01 'a", .packetIdentifierZero, "MQTT-2.2.1-3"),
        MalformedCase(.v311, .client, "A2 02 00 01", .emptyUnsubscribe, "MQTT-3.10.3-2"),
        MalformedCase(.v5, .client, "A2 03 00 01 00", .emptyUnsubscribe, "MQTT-3.10.3-2"),
        MalformedCase(.v311, .client, "A2 06 00 01 00 02 'a+", .invalidTopicFilter, "MQTT-4.7.1-1"),
        MalformedCase(.v311, .client, "A2 06 00 01 00 01 'a 00", .truncated),
        MalformedCase(
            .v311, .client,
            Frame(first: 0xA2, body: [0, 1] + (0...Limits.filtersPerPacketMax).flatMap { _ in [0, 1, 0x61] as [UInt8] }),
            .tooManyFilters),
        MalformedCase(.v5, .client, "A2 08 00 01 02 0B 01 00 01 'a", .propertyNotAllowed),
        MalformedCase(.v311, .server, "B0 03 00 01 00", .trailingBytes),
        MalformedCase(.v5, .server, "B0 03 00 01 00", .emptyAcknowledgement),
        MalformedCase(.v5, .server, "B0 04 00 01 00 10", .invalidReasonCode),
    ]

    @Test(arguments: malformed) func `a broken UNSUBSCRIBE or UNSUBACK is refused`(_ malformed: MalformedCase) { malformed.check() }

    @Test(.statement("MQTT-3.10.1-1", .v5)) func `an UNSUBSCRIBE with other flags than 0010 is malformed`() {
        for flags in UInt8(0)...15 where flags != 2 {
            let frame = Frame(first: 0xA0 | flags, body: [0, 1, 0, 0, 1, 0x61])
            #expect(frame.decoded(.v5, from: .client) == .failure(.reservedFlags))
        }
    }
}
