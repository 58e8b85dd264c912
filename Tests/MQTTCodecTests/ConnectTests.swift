import MQTTCodec
import MartletTestKit
import Testing

@Suite struct ConnectTests {
    static let golden: [GoldenCase] = [
        GoldenCase(
            .v31, .client, "10 0F 00 06 'MQIsdp 03 02 00 3C 00 01 'a",
            .connect(ConnectPacket(version: .v31, keepAliveSeconds: 60, clientIdentifier: "a"))),
        GoldenCase(
            .v311, .client, "10 0D 00 04 'MQTT 04 02 00 3C 00 01 'a",
            .connect(ConnectPacket(version: .v311, keepAliveSeconds: 60, clientIdentifier: "a"))),
        GoldenCase(
            .v311, .client, "10 0C 00 04 'MQTT 84 00 00 00 00 00",
            .connect(ConnectPacket(version: .v311, cleanStart: false, isBridge: true))),
        GoldenCase(
            .v311, .client, "10 1B 00 04 'MQTT 04 F6 00 0A 00 01 'a 00 01 't 00 02 'hi 00 01 'u 00 02 00 FF",
            .connect(
                ConnectPacket(
                    version: .v311, keepAliveSeconds: 10, clientIdentifier: "a",
                    will: Will(topic: "t", payload: Array("hi".utf8), qos: .exactlyOnce, retain: true), userName: "u",
                    password: [0x00, 0xFF]))),
        GoldenCase(
            .v5, .client, "10 0E 00 04 'MQTT 05 02 00 3C 00 00 01 'a",
            .connect(ConnectPacket(version: .v5, keepAliveSeconds: 60, clientIdentifier: "a"))),
        GoldenCase(
            .v5, .client, "10 1C 00 04 'MQTT 05 0E 00 00 03 21 00 14 00 00 05 18 00 00 00 05 00 01 't 00 01 'x",
            .connect(
                ConnectPacket(
                    version: .v5, properties: properties { $0.receiveMaximum = 20 },
                    will: Will(
                        topic: "t", payload: Array("x".utf8), qos: .atLeastOnce, properties: properties { $0.willDelayInterval = 5 }
                    )))
        ),
        GoldenCase(  // MQTT 5.0 allows a password alone.
            .v5, .client, "10 10 00 04 'MQTT 05 42 00 00 00 00 00 00 01 'p",
            .connect(ConnectPacket(version: .v5, password: Array("p".utf8)))),
    ]

    @Test(arguments: golden) func `CONNECT is these bytes`(_ golden: GoldenCase) { golden.check() }

    /// One with so many user properties, each of so many bytes.
    private static func frame(userProperties count: Int, bytes: Int) -> Frame {
        var packet = ConnectPacket()
        let text = String(repeating: "x", count: bytes)
        packet.properties.userProperties = (0..<count).map { _ in UserProperty(name: "\(text)", value: "") }
        return Frame(ControlPacket.connect(packet).encoded(version: .v5))
    }

    static let malformed: [MalformedCase] = [
        MalformedCase(.v5, .client, frame(userProperties: 257, bytes: 0), .tooManyUserProperties),
        MalformedCase(.v5, .client, frame(userProperties: 2, bytes: 33_000), .tooManyUserProperties),
        MalformedCase(.v5, .client, "11 0D 00 04 'MQTT 04 02 00 3C 00 01 'a", .reservedFlags, "MQTT-2.1.3-1"),
        MalformedCase(.v5, .client, "10 0D 00 04 'MQTX 04 02 00 3C 00 01 'a", .protocolName, "MQTT-3.1.2-1"),
        MalformedCase(.v5, .client, "10 0D 00 04 'mqtt 04 02 00 3C 00 01 'a", .protocolName, "MQTT-3.1.2-1"),
        MalformedCase(.v5, .client, "10 0D 00 04 'MQTT 06 02 00 3C 00 01 'a", .unsupportedProtocolVersion),
        MalformedCase(.v5, .client, "10 0D 00 04 'MQTT 03 02 00 3C 00 01 'a", .unsupportedProtocolVersion),
        MalformedCase(.v5, .client, "10 0F 00 06 'MQIsdp 04 02 00 3C 00 01 'a", .unsupportedProtocolVersion),
        MalformedCase(.v311, .client, "10 0D 00 04 'MQTT 04 03 00 3C 00 01 'a", .reservedConnectFlag, "MQTT-3.1.2-3"),
        MalformedCase(.v5, .client, "10 0E 00 04 'MQTT 05 03 00 3C 00 00 01 'a", .reservedConnectFlag, "MQTT-3.1.2-3"),
        MalformedCase(.v5, .client, "10 0E 00 04 'MQTT 05 0A 00 3C 00 00 01 'a", .willFlags, "MQTT-3.1.2-11"),
        MalformedCase(.v5, .client, "10 0E 00 04 'MQTT 05 22 00 3C 00 00 01 'a", .willFlags, "MQTT-3.1.2-11"),
        MalformedCase(.v311, .client, "10 13 00 04 'MQTT 04 1E 00 3C 00 01 'a 00 01 't 00 01 'x", .willFlags, "MQTT-3.1.2-11"),
        MalformedCase(.v311, .client, "10 10 00 04 'MQTT 04 42 00 3C 00 01 'a 00 01 'p", .passwordWithoutUserName),
        MalformedCase(.v31, .client, "10 12 00 06 'MQIsdp 03 42 00 3C 00 01 'a 00 01 'p", .passwordWithoutUserName),
        MalformedCase(.v311, .client, "10 0D 00 04 'MQTT 04 82 00 3C 00 01 'a", .truncated),
        MalformedCase(.v311, .client, "10 0E 00 04 'MQTT 04 02 00 3C 00 01 'a 00", .trailingBytes),
        MalformedCase(.v311, .client, "10 0D 00 04 'MQTT 04 02 00 3C 00 01 FF", .invalidUTF8, "MQTT-1.5.4-1"),
        MalformedCase(.v311, .client, "10 0D 00 04 'MQTT 04 02 00 3C 00 01 00", .nullCharacter, "MQTT-1.5.4-2"),
        MalformedCase(
            .v311, .client, "10 13 00 04 'MQTT 04 06 00 3C 00 01 'a 00 01 '# 00 01 'x", .topicNameWithWildcard, "MQTT-3.3.2-2"),
        MalformedCase(.v311, .client, "10 12 00 04 'MQTT 04 06 00 3C 00 01 'a 00 00 00 01 'x", .emptyTopic, "MQTT-4.7.3-1"),
        MalformedCase(.v5, .client, "10 11 00 04 'MQTT 05 02 00 3C 03 21 00 00 00 01 'a", .receiveMaximumZero),
        MalformedCase(.v5, .client, "10 13 00 04 'MQTT 05 02 00 3C 05 27 00 00 00 00 00 01 'a", .maximumPacketSizeZero),
        MalformedCase(.v5, .client, "10 12 00 04 'MQTT 05 02 00 3C 04 16 00 01 'x 00 01 'a", .authenticationDataWithoutMethod),
        MalformedCase(.v5, .client, "10 10 00 04 'MQTT 05 02 00 3C 02 17 02 00 01 'a", .invalidPropertyValue),
        MalformedCase(.v5, .server, "10 0E 00 04 'MQTT 05 02 00 3C 00 00 01 'a", .unexpectedPacket),
    ]

    @Test(.statement("MQTT-3.1.4-1", .v5), arguments: malformed)
    func `a CONNECT that breaks the format is refused`(_ malformed: MalformedCase) { malformed.check() }

    @Test func `256 user properties are as many as a client may send, and a server may send more`() {
        guard case .success(.connect(let packet)) = Self.frame(userProperties: 256, bytes: 200).decoded(.v5, from: .client) else {
            Issue.record("they are not read")
            return
        }
        #expect(packet.properties.userProperties.count == 256)
        var answer = ConnackPacket(reasonCode: .success)
        answer.properties.userProperties = (0..<300).map { _ in UserProperty(name: "a", value: "b") }
        let frame = Frame(ControlPacket.connack(answer).encoded(version: .v5))
        #expect(frame.decoded(.v5, from: .server) == .success(.connack(answer)))
    }

    @Test func `MQTT 3.1 does not use the lowest connect flag`() throws {
        let frame: Frame = "10 0F 00 06 'MQIsdp 03 03 00 3C 00 01 'a"
        #expect(frame.decoded(.v31, from: .client) == ConnectTests.golden[0].frame.decoded(.v31, from: .client))
    }

    @Test func `MQTT 3.1 lets the user name and password be missing in spite of their flags`() {
        let frame: Frame = "10 0F 00 06 'MQIsdp 03 C2 00 3C 00 01 'a"
        #expect(frame.decoded(.v31, from: .client) == ConnectTests.golden[0].frame.decoded(.v31, from: .client))
    }

    @Test(.statement("MQTT-3.1.2-22", .v311))
    func `a password without a user name is malformed before MQTT 5.0`() {
        let frame: Frame = "10 10 00 04 'MQTT 04 42 00 3C 00 01 'a 00 01 'p"
        #expect(frame.decoded(.v311, from: .client) == .failure(.passwordWithoutUserName))
    }

    @Test func `an identifier of any length is the broker's affair`() throws {
        let long = try #require(EncodedString(String(repeating: "x", count: 65_535)))
        for version in [ProtocolVersion.v31, .v311, .v5] {
            for identifier in ["", long] {
                let packet = ControlPacket.connect(ConnectPacket(version: version, clientIdentifier: identifier))
                #expect(Frame(packet.encoded(version: version)).decoded(version, from: .client) == .success(packet))
            }
        }
    }
}
