import MQTTCodec
import MartletTestKit
import Testing

@Suite struct PublishTests {
    static let golden: [GoldenCase] = [
        GoldenCase(.v31, .client, "30 05 00 01 'a 'hi", .publish(PublishPacket(topic: "a", payload: Array("hi".utf8)))),
        GoldenCase(
            .v311, .client, "3B 07 00 03 'a/b 00 0A",
            .publish(PublishPacket(topic: "a/b", packetIdentifier: 10, qos: .atLeastOnce, retain: true, duplicate: true))),
        GoldenCase(
            .v311, .server, "34 06 00 01 'a FF FF 'x",
            .publish(PublishPacket(topic: "a", packetIdentifier: 65_535, qos: .exactlyOnce, payload: Array("x".utf8)))),
        GoldenCase(.v5, .client, "30 06 00 01 'a 00 'hi", .publish(PublishPacket(topic: "a", payload: Array("hi".utf8)))),
        GoldenCase(
            .v5, .client, "32 0A 00 00 00 01 03 23 00 07 'hi",
            .publish(
                PublishPacket(
                    topic: "", packetIdentifier: 1, qos: .atLeastOnce, properties: properties { $0.topicAlias = 7 },
                    payload: Array("hi".utf8)))),
        GoldenCase(
            .v5, .server, "30 16 00 01 'a 11 02 00 00 00 3C 0B 80 01 0B 01 26 00 01 'k 00 01 'v 'z",
            .publish(
                PublishPacket(
                    topic: "a",
                    properties: properties {
                        $0.messageExpiryInterval = 60
                        $0.subscriptionIdentifiers = [128, 1]
                        $0.userProperties = [UserProperty(name: "k", value: "v")]
                    }, payload: Array("z".utf8)))),
    ]

    @Test(arguments: golden) func `PUBLISH is these bytes`(_ golden: GoldenCase) { golden.check() }

    static let malformed: [MalformedCase] = [
        MalformedCase(.v311, .client, "36 05 00 01 'a 00 01", .invalidQoS, "MQTT-3.3.1-4"),
        MalformedCase(.v5, .client, "36 06 00 01 'a 00 01 00", .invalidQoS, "MQTT-3.3.1-4"),
        MalformedCase(.v311, .client, "38 03 00 01 'a", .duplicateAtMostOnce, "MQTT-3.3.1-2"),
        MalformedCase(.v5, .client, "38 04 00 01 'a 00", .duplicateAtMostOnce, "MQTT-3.3.1-2"),
        MalformedCase(.v311, .client, "30 00", .truncated),
        MalformedCase(.v311, .client, "30 02 00 01", .truncated),
        MalformedCase(.v311, .client, "32 04 00 01 'a 00", .truncated),
        MalformedCase(.v311, .client, "32 05 00 01 'a 00 00", .packetIdentifierZero, "MQTT-2.2.1-3"),
        MalformedCase(.v311, .client, "30 02 00 00", .emptyTopic, "MQTT-4.7.3-1"),
        MalformedCase(.v5, .client, "30 03 00 00 00", .emptyTopic, "MQTT-4.7.3-1"),
        MalformedCase(.v311, .client, "30 05 00 03 'a/+", .topicNameWithWildcard, "MQTT-3.3.2-2"),
        MalformedCase(.v5, .server, "30 04 00 01 '# 00", .topicNameWithWildcard, "MQTT-3.3.2-2"),
        MalformedCase(.v311, .client, "30 04 00 02 C3 28", .invalidUTF8, "MQTT-1.5.4-1"),
        MalformedCase(.v311, .client, "30 05 00 03 'a 00 'b", .nullCharacter, "MQTT-1.5.4-2"),
        MalformedCase(.v5, .client, "30 03 00 01 'a", .truncated),
        MalformedCase(.v5, .client, "30 04 00 01 'a 01", .truncated),
        MalformedCase(.v5, .client, "30 05 00 01 'a 80 00", .nonMinimalVariableByteInteger, "MQTT-1.5.5-1"),
        MalformedCase(.v5, .client, "30 08 00 01 'a 80 80 80 80 01", .nonMinimalVariableByteInteger, "MQTT-1.5.5-1"),
        MalformedCase(.v5, .client, "30 07 00 01 'a 03 23 00 00", .topicAliasZero, "MQTT-3.3.2-8"),
        MalformedCase(.v5, .client, "30 0A 00 01 'a 06 23 00 01 23 00 01", .duplicateProperty),
        MalformedCase(.v5, .client, "30 06 00 01 'a 02 01 02", .invalidPropertyValue),
        MalformedCase(.v5, .client, "30 06 00 01 'a 02 0B 01", .subscriptionIdentifierFromClient, "MQTT-3.3.4-6"),
        MalformedCase(.v5, .server, "30 06 00 01 'a 02 0B 00", .subscriptionIdentifierZero),
        MalformedCase(.v5, .client, "30 06 00 01 'a 02 04 00", .unknownProperty),
        MalformedCase(.v5, .client, "30 06 00 01 'a 02 FF 00", .unknownProperty),
        MalformedCase(.v5, .client, "30 06 00 01 'a 02 25 00", .propertyNotAllowed),
        MalformedCase(.v5, .client, "30 08 00 01 'a 04 08 00 01 '+", .invalidResponseTopic, "MQTT-3.3.2-14"),
        MalformedCase(.v5, .client, "30 07 00 01 'a 03 08 00 00", .invalidResponseTopic, "MQTT-3.3.2-14"),
        MalformedCase(.v5, .client, "30 08 00 01 'a 04 03 00 01 FF", .invalidUTF8, "MQTT-1.5.4-1"),
        MalformedCase(.v5, .client, "30 08 00 01 'a 04 26 00 01 'k", .truncated),
    ]

    @Test(arguments: malformed) func `a broken PUBLISH is refused`(_ malformed: MalformedCase) { malformed.check() }

    @Test(.statement("MQTT-3.3.1-4", .v5)) func `a PUBLISH with both QoS bits set is malformed`() {
        let frame: Frame = "36 06 00 01 'a 00 01 00"
        #expect(frame.decoded(.v5, from: .client) == .failure(.invalidQoS))
    }

    @Test(.statement("MQTT-3.3.4-6", .v5)) func `a client's PUBLISH holds no subscription identifier`() {
        let frame: Frame = "30 06 00 01 'a 02 0B 01"
        #expect(frame.decoded(.v5, from: .client) == .failure(.subscriptionIdentifierFromClient))
    }

    @Test(.statement("MQTT-3.3.2-2", .v5)) func `a topic name holds no wildcard at any place`() {
        let plain = Array("level/of/a/long/topic/name".utf8)
        for wildcard in [UInt8(ascii: "+"), UInt8(ascii: "#")] {
            for index in plain.indices {
                var topic = plain
                topic[index] = wildcard
                let frame = Frame(first: 0x30, body: [0, UInt8(topic.count)] + topic)
                #expect(frame.decoded(.v311, from: .client) == .failure(.topicNameWithWildcard))
            }
        }
    }
}
