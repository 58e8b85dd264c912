import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct ConnectPacketTests {
    private func connect(_ version: ProtocolVersion, _ change: (inout ClientOptions) -> Void) -> [UInt8] {
        var talk = Conversation {
            $0.version = version
            $0.topicAliasMaximum = 0
            change(&$0)
        }
        talk.session.transportOpened(now: 0)
        return talk.session.takeOutput()
    }

    @Test(
        .statement("MQTT-3.1.2-9", .v5), .statement("MQTT-3.1.2-12", .v5), .statement("MQTT-3.1.2-17", .v5),
        .statement("MQTT-3.1.2-19", .v5), .statement("MQTT-3.1.3-1", .v5), .statement("MQTT-3.1.3-2", .v5),
        .statement("MQTT-3.1.3-3", .v5), .statement("MQTT-3.1.3-4", .v5), .statement("MQTT-3.1.3-11", .v5),
        .statement("MQTT-3.1.3-12", .v5), .statement("MQTT-3.1.2-9", .v311), .statement("MQTT-3.1.2-14", .v311),
        .statement("MQTT-3.1.2-19", .v311), .statement("MQTT-3.1.2-21", .v311), .statement("MQTT-3.1.3-1", .v311),
        .statement("MQTT-3.1.3-2", .v311), .statement("MQTT-3.1.3-3", .v311), .statement("MQTT-3.1.3-4", .v311),
        .statement("MQTT-3.1.3-10", .v311), .statement("MQTT-3.1.3-11", .v311), arguments: QoS.allOfThem)
    func `CONNECT carries what the options name, in the standard's order`(willQoS: QoS) {
        func change(_ options: inout ClientOptions) {
            options.will = Will(topic: "w", payload: [1], qos: willQoS, retain: true)
            options.userName = "u"
            options.password = [2]
        }
        let flags = 0xE6 | willQoS.rawValue << 3
        let rest: [UInt8] = [0, 1, 0x77, 0, 1, 1, 0, 1, 0x75, 0, 1, 2]
        #expect(
            connect(.v311, change)
                == [0x10, 25, 0, 4, 0x4D, 0x51, 0x54, 0x54, 4, flags, 0, 60, 0, 1, 0x63] + rest)
        // Receive Maximum, and a will without properties.
        #expect(
            connect(.v5, change)
                == [0x10, 30, 0, 4, 0x4D, 0x51, 0x54, 0x54, 5, flags, 0, 60, 3, 0x21, 0x03, 0xE8, 0, 1, 0x63, 0] + rest)
    }

    @Test(
        .statement("MQTT-3.1.2-11", .v5), .statement("MQTT-3.1.2-13", .v5), .statement("MQTT-3.1.2-16", .v5),
        .statement("MQTT-3.1.2-18", .v5), .statement("MQTT-3.1.2-11", .v311), .statement("MQTT-3.1.2-13", .v311),
        .statement("MQTT-3.1.2-15", .v311), .statement("MQTT-3.1.2-18", .v311), .statement("MQTT-3.1.2-20", .v311))
    func `without a will, a name and a password their flags are 0 and they are absent`() {
        #expect(connect(.v311) { _ in } == [0x10, 13, 0, 4, 0x4D, 0x51, 0x54, 0x54, 4, 2, 0, 60, 0, 1, 0x63])
        #expect(
            connect(.v5) { $0.cleanStart = false }
                == [0x10, 17, 0, 4, 0x4D, 0x51, 0x54, 0x54, 5, 0, 0, 60, 3, 0x21, 0x03, 0xE8, 0, 1, 0x63])
    }

    @Test(.statement("MQTT-3.1.2-22", .v311))
    func `before MQTT 5.0 a password alone has an empty name beside it`() {
        #expect(
            connect(.v311) { $0.password = [2] }
                == [0x10, 18, 0, 4, 0x4D, 0x51, 0x54, 0x54, 4, 0xC2, 0, 60, 0, 1, 0x63, 0, 0, 0, 1, 2])
        let flags = connect(.v5) { $0.password = [2] }[9]
        #expect(flags == 0x42)
    }

    @Test(.statement("MQTT-3.1.3-7", .v311))
    func `before MQTT 5.0 a client without an identifier starts clean`() {
        func change(_ options: inout ClientOptions) { (options.clientIdentifier, options.cleanStart) = ("", false) }
        #expect(connect(.v311, change)[9] == 2)
        #expect(connect(.v5, change)[9] == 0)
    }

    @Test(.statement("MQTT-3.1.0-2", .v5), .statement("MQTT-3.1.0-2", .v311), arguments: [ProtocolVersion.v311, .v5])
    func `CONNECT is sent once on a connection`(version: ProtocolVersion) throws {
        var talk = Conversation { $0.version = version }
        talk.session.transportOpened(now: talk.now)
        var sent = talk.sent()
        talk.serverSends(.connack(ConnackPacket()))
        try talk.publish("a", qos: .exactlyOnce)
        talk.session.advance(to: 100_000)
        talk.session.disconnect(now: talk.now)
        sent += talk.sent()
        let count = sent.count { if case .connect = $0 { true } else { false } }
        #expect(count == 1)
    }
}

extension QoS {
    static let allOfThem: [QoS] = [.atMostOnce, .atLeastOnce, .exactlyOnce]
}
