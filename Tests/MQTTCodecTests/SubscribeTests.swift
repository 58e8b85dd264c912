import MartletTestKit
import Testing

@testable import MQTTCodec

@Suite struct SubscribeTests {
    static let golden: [GoldenCase] = [
        GoldenCase(.v31, .client, "82 06 00 01 00 01 '# 00", subscribe("#", SubscriptionOptions())),
        GoldenCase(
            .v311, .client, "82 0C 00 0A 00 03 'a/+ 01 00 01 'b 02",
            .subscribe(
                SubscribePacket(
                    packetIdentifier: 10,
                    subscriptions: [
                        Subscription(filter: "a/+", options: SubscriptionOptions(maximumQoS: .atLeastOnce)),
                        Subscription(filter: "b", options: SubscriptionOptions(maximumQoS: .exactlyOnce)),
                    ]))),
        GoldenCase(
            .v5, .client, "82 07 00 01 00 00 01 'a 2D",
            subscribe(
                "a",
                SubscriptionOptions(maximumQoS: .atLeastOnce, noLocal: true, retainAsPublished: true, retainHandling: .doNotSend))),
        GoldenCase(
            .v5, .client, "82 15 00 01 03 0B C8 01 00 0C '$share/g/a/# 01",
            subscribe(
                "$share/g/a/#", SubscriptionOptions(maximumQoS: .atLeastOnce), properties { $0.subscriptionIdentifiers = [200] })),
        GoldenCase(.v31, .server, "90 03 00 01 00", suback(.grantedQoS0)),
        GoldenCase(.v311, .server, "90 06 00 01 00 01 02 80", suback(.grantedQoS0, .grantedQoS1, .grantedQoS2, .unspecifiedError)),
        GoldenCase(.v5, .server, "90 05 00 01 00 02 8F", suback(.grantedQoS2, .topicFilterInvalid)),
    ]

    private static func subscribe(
        _ filter: TopicFilter, _ options: SubscriptionOptions, _ properties: Properties = Properties()
    ) -> ControlPacket {
        .subscribe(
            SubscribePacket(
                packetIdentifier: 1, properties: properties, subscriptions: [Subscription(filter: filter, options: options)]))
    }

    private static func suback(_ codes: ReasonCode...) -> ControlPacket {
        .suback(SubackPacket(packetIdentifier: 1, reasonCodes: codes))
    }

    @Test(arguments: golden) func `SUBSCRIBE and SUBACK are these bytes`(_ golden: GoldenCase) { golden.check() }

    static let malformed: [MalformedCase] = [
        MalformedCase(.v311, .client, "80 06 00 01 00 01 'a 00", .reservedFlags, "MQTT-2.1.3-1"),
        MalformedCase(.v311, .client, "82 06 00 00 00 01 'a 00", .packetIdentifierZero, "MQTT-2.2.1-3"),
        MalformedCase(.v311, .client, "82 02 00 01", .emptySubscribe, "MQTT-3.8.3-2"),
        MalformedCase(.v5, .client, "82 03 00 01 00", .emptySubscribe, "MQTT-3.8.3-2"),
        MalformedCase(.v311, .client, "82 05 00 01 00 01 'a", .truncated),
        MalformedCase(.v311, .client, "82 06 00 01 00 01 'a 04", .reservedSubscriptionOptions, "MQTT-3.8.3-5"),
        MalformedCase(.v5, .client, "82 07 00 01 00 00 01 'a 40", .reservedSubscriptionOptions, "MQTT-3.8.3-5"),
        MalformedCase(.v5, .client, "82 07 00 01 00 00 01 'a 80", .reservedSubscriptionOptions, "MQTT-3.8.3-5"),
        MalformedCase(.v311, .client, "82 06 00 01 00 01 'a 03", .invalidMaximumQoS),
        MalformedCase(.v5, .client, "82 07 00 01 00 00 01 'a 03", .invalidMaximumQoS),
        MalformedCase(.v5, .client, "82 07 00 01 00 00 01 'a 30", .invalidRetainHandling),
        MalformedCase(.v5, .client, "82 10 00 01 00 00 0A '$share/g/a 04", .noLocalOnSharedSubscription, "MQTT-3.8.3-4"),
        MalformedCase(.v311, .client, "82 05 00 01 00 00 00", .invalidTopicFilter, "MQTT-4.7.1-1"),
        MalformedCase(.v311, .client, "82 07 00 01 00 02 'a# 00", .invalidTopicFilter, "MQTT-4.7.1-1"),
        MalformedCase(.v311, .client, "82 0D 00 01 00 08 '$share/g 00", .invalidTopicFilter, "MQTT-4.7.1-1"),
        MalformedCase(.v311, .client, "82 06 00 01 00 01 FF 00", .invalidUTF8, "MQTT-1.5.4-1"),
        MalformedCase(.v5, .client, "82 09 00 01 02 0B 00 00 01 'a 00", .subscriptionIdentifierZero),
        MalformedCase(.v5, .client, "82 0B 00 01 04 0B 01 0B 02 00 01 'a 00", .duplicateProperty),
        MalformedCase(.v311, .server, "82 06 00 01 00 01 'a 00", .unexpectedPacket),
        MalformedCase(.v311, .server, "90 02 00 01", .emptyAcknowledgement),
        MalformedCase(.v5, .server, "90 03 00 01 00", .emptyAcknowledgement),
        MalformedCase(.v311, .server, "90 03 00 01 03", .invalidReasonCode),
        MalformedCase(.v5, .server, "90 04 00 01 00 03", .invalidReasonCode),
        MalformedCase(.v311, .client, "90 03 00 01 00", .unexpectedPacket),
        MalformedCase(.v311, .client, withFilters(Limits.filtersPerPacketMax + 1), .tooManyFilters),
    ]

    private static func withFilters(_ count: Int) -> Frame {
        Frame(first: 0x82, body: [0, 1] + (0..<count).flatMap { _ in [0, 1, 0x61, 0] as [UInt8] })
    }

    @Test func `as many filters as a SUBSCRIBE may hold are all taken`() throws {
        guard case .subscribe(let packet) = try Self.withFilters(Limits.filtersPerPacketMax).decoded(.v311, from: .client).get()
        else {
            Issue.record("this is no SUBSCRIBE")
            return
        }
        #expect(packet.subscriptions.count == Limits.filtersPerPacketMax)
    }

    @Test(arguments: malformed) func `a broken SUBSCRIBE or SUBACK is refused`(_ malformed: MalformedCase) { malformed.check() }

    @Test(.statement("MQTT-3.8.1-1", .v5)) func `a SUBSCRIBE with other flags than 0010 is malformed`() {
        for flags in UInt8(0)...15 where flags != 2 {
            let frame = Frame(first: 0x80 | flags, body: [0, 1, 0, 0, 1, 0x61, 0])
            #expect(frame.decoded(.v5, from: .client) == .failure(.reservedFlags))
        }
    }

    @Test(.statement("MQTT-3.8.3-5", .v5)) func `a SUBSCRIBE with a reserved option bit set is malformed`() {
        for reserved: UInt8 in [0x40, 0x80, 0xC0] {
            let frame = Frame(first: 0x82, body: [0, 1, 0, 0, 1, 0x61, reserved])
            #expect(frame.decoded(.v5, from: .client) == .failure(.reservedSubscriptionOptions))
        }
    }

    @Test(.statement("MQTT-3.8.3-4", .v311)) func `before MQTT 5.0 only the QoS may stand in the options`() {
        for options in UInt8(0)...255 {
            let frame = Frame(first: 0x82, body: [0, 1, 0, 1, 0x61, options])
            #expect(((try? frame.decoded(.v311, from: .client).get()) != nil) == (options <= 2))
        }
    }

    @Test func `before MQTT 5.0 every failure is 0x80`() {
        let packet = ControlPacket.suback(SubackPacket(packetIdentifier: 1, reasonCodes: [.notAuthorized]))
        #expect(Frame(packet.encoded(version: .v311)) == "90 03 00 01 80")
    }
}
