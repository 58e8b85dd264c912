import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct BrokenServerTests {
    /// The client says what is wrong, to its owner and where it can to the server, and then neither sends nor reads.
    private func expectEnd(_ talk: inout Conversation, _ broken: BrokenServer, tells reason: ReasonCode?) throws {
        talk.session.received(broken.bytes + [0xD0, 0], now: talk.now)
        #expect(talk.events() == [.failed(broken.failure)])
        #expect(talk.session.state == .ending)
        #expect(talk.sent() == (reason.map { [.disconnect(DisconnectPacket(reasonCode: $0))] } ?? []))
        talk.session.received([0x30, 4, 0, 1, 0x61, 0], now: talk.now)
        _ = try? talk.publish("a")
        talk.session.advance(to: 1_000_000)
        #expect(talk.events().isEmpty)
        #expect(talk.sent().isEmpty)
    }

    @Test(
        .statement("MQTT-3.2.0-1", .v5), .statement("MQTT-3.2.2-1", .v5), .statement("MQTT-3.2.2-2", .v5),
        .statement("MQTT-3.2.2-8", .v5), .statement("MQTT-4.12.0-6", .v5), .statement("MQTT-3.2.0-1", .v311),
        .statement("MQTT-3.2.2-1", .v311), .statement("MQTT-4.8.0-1", .v311), arguments: BrokenServer.beforeConnack)
    func `a server that does not begin as it must is left`(broken: BrokenServer) throws {
        var talk = Conversation { $0.version = broken.version }
        talk.session.transportOpened(now: talk.now)
        _ = talk.sent()
        try expectEnd(&talk, broken, tells: nil)
    }

    @Test(
        .statement("MQTT-1.5.4-1", .v5), .statement("MQTT-1.5.4-2", .v5), .statement("MQTT-1.5.5-1", .v5),
        .statement("MQTT-1.5.7-1", .v5), .statement("MQTT-2.1.3-1", .v5), .statement("MQTT-2.2.1-4", .v5),
        .statement("MQTT-3.1.2-24", .v5), .statement("MQTT-3.1.2-26", .v5), .statement("MQTT-3.2.0-2", .v5),
        .statement("MQTT-3.3.1-2", .v5), .statement("MQTT-3.3.1-4", .v5), .statement("MQTT-3.3.2-1", .v5),
        .statement("MQTT-3.3.2-2", .v5), .statement("MQTT-3.3.2-8", .v5), .statement("MQTT-3.3.2-11", .v5),
        .statement("MQTT-3.3.2-13", .v5), .statement("MQTT-3.3.2-14", .v5), .statement("MQTT-3.3.2-19", .v5),
        .statement("MQTT-3.4.2-1", .v5), .statement("MQTT-3.5.2-1", .v5), .statement("MQTT-3.6.1-1", .v5),
        .statement("MQTT-3.6.2-1", .v5), .statement("MQTT-3.7.2-1", .v5), .statement("MQTT-3.9.3-2", .v5),
        .statement("MQTT-3.11.3-2", .v5), .statement("MQTT-3.14.1-1", .v5), .statement("MQTT-3.14.2-1", .v5),
        .statement("MQTT-3.14.2-2", .v5), .statement("MQTT-3.15.1-1", .v5), .statement("MQTT-3.15.2-1", .v5),
        .statement("MQTT-4.7.0-1", .v5), .statement("MQTT-4.7.3-1", .v5), .statement("MQTT-4.7.3-2", .v5),
        .statement("MQTT-4.13.1-1", .v5), .statement("MQTT-4.13.2-1", .v5), .statement("MQTT-1.5.3-1", .v311),
        .statement("MQTT-1.5.3-2", .v311), .statement("MQTT-2.2.2-1", .v311), .statement("MQTT-2.2.2-2", .v311),
        .statement("MQTT-2.3.1-1", .v311), .statement("MQTT-2.3.1-4", .v311), .statement("MQTT-3.3.1-2", .v311),
        .statement("MQTT-3.3.1-4", .v311), .statement("MQTT-3.3.2-1", .v311), .statement("MQTT-3.6.1-1", .v311),
        .statement("MQTT-4.8.0-1", .v311), arguments: BrokenServer.online)
    func `a server that breaks the protocol is told what is wrong, and left`(broken: BrokenServer) throws {
        var talk = Conversation {
            $0.version = broken.version
            $0.maximumPacketSize = 1000
        }
        talk.connect()
        let reason: ReasonCode =
            switch broken.failure {
            case .malformed(let error): error.reasonCode
            case .protocolError(let reason): reason
            case .connectTimeout, .requestTimeout, .pingTimeout: .success
            }
        #expect(reason.isError)
        try expectEnd(&talk, broken, tells: broken.version == .v5 ? reason : nil)
    }

    /// An answer that another kind of packet would have, by the identifier that is in use.
    @Test(
        .statement("MQTT-2.2.1-5", .v5), .statement("MQTT-2.2.1-6", .v5), .statement("MQTT-2.3.1-6", .v311),
        .statement("MQTT-2.3.1-7", .v311), arguments: [ProtocolVersion.v311, .v5],
        [PacketType.puback, .pubrec, .pubcomp, .suback, .unsuback])
    func `an answer of the wrong kind ends the connection`(version: ProtocolVersion, type: PacketType) throws {
        // Under 1 and 2 messages of QoS 1 and 2, under 3 SUBSCRIBE, under 4 UNSUBSCRIBE.
        for identifier in UInt16(1)...4 {
            let isRight = [PacketType.puback, .pubrec, .suback, .unsuback].firstIndex(of: type) == Int(identifier) - 1
            if isRight { continue }
            var talk = Conversation { $0.version = version }
            talk.connect()
            try talk.publish("a", qos: .atLeastOnce)
            try talk.publish("a", qos: .exactlyOnce)
            try talk.session.subscribe([Subscription(filter: "a")], now: talk.now)
            try talk.session.unsubscribe(["a"], now: talk.now)
            switch type {
            case .suback: talk.serverSends(.suback(SubackPacket(packetIdentifier: identifier, reasonCodes: [.success])))
            case .unsuback: talk.serverSends(.unsuback(UnsubackPacket(packetIdentifier: identifier, reasonCodes: [.success])))
            default: talk.serverSends(Conversation.acknowledgement(type, identifier))
            }
            #expect(talk.events() == [.failed(.protocolError(.protocolError))], "\(type) for \(identifier)")
        }
    }

    @Test(
        .statement("MQTT-3.8.4-6", .v5), .statement("MQTT-3.9.3-1", .v5), .statement("MQTT-3.11.3-1", .v5),
        .statement("MQTT-3.8.4-5", .v311), arguments: [0, 1, 3])
    func `an answer with more or fewer reasons than filters ends the connection`(count: Int) throws {
        let reasons = Array(repeating: ReasonCode.success, count: count)
        for version in [ProtocolVersion.v311, .v5] {
            var talk = Conversation { $0.version = version }
            talk.connect()
            let identifier = try talk.session.subscribe(
                [Subscription(filter: "a"), Subscription(filter: "b")], now: talk.now)
            talk.serverSends(.suback(SubackPacket(packetIdentifier: identifier, reasonCodes: reasons)))
            #expect(talk.session.state == .ending)
        }
        var talk = Conversation()
        talk.connect()
        let identifier = try talk.session.unsubscribe(["a", "b"], now: talk.now)
        talk.serverSends(.unsuback(UnsubackPacket(packetIdentifier: identifier, reasonCodes: reasons)))
        #expect(talk.session.state == .ending)
    }

    @Test(.statement("MQTT-3.1.2-27", .v5))
    func `without a Topic Alias Maximum of ours the server sets none`() {
        var talk = Conversation { $0.topicAliasMaximum = 0 }
        talk.connect()
        talk.session.received([0x30, 7, 0, 1, 0x61, 3, 0x23, 0, 1], now: talk.now)
        #expect(talk.events() == [.failed(.protocolError(.topicAliasInvalid))])
    }

    @Test(.statement("MQTT-3.1.2-29", .v5), arguments: [PacketType.puback, .pubrec, .pubrel, .pubcomp, .suback, .unsuback])
    func `a server that was asked for no texts sends none`(type: PacketType) throws {
        for asked in [true, false] {
            var talk = Conversation { $0.connectProperties.requestProblemInformation = asked }
            talk.connect()
            var properties = Properties()
            properties.reasonString = "why"
            switch type {
            case .suback:
                let identifier = try talk.session.subscribe([Subscription(filter: "a")], now: talk.now)
                talk.serverSends(
                    .suback(SubackPacket(packetIdentifier: identifier, reasonCodes: [.success], properties: properties)))
            case .unsuback:
                let identifier = try talk.session.unsubscribe(["a"], now: talk.now)
                talk.serverSends(
                    .unsuback(UnsubackPacket(packetIdentifier: identifier, reasonCodes: [.success], properties: properties)))
            default:
                talk.serverSends(
                    .acknowledgement(AcknowledgementPacket(type: type, packetIdentifier: 9, properties: properties)))
            }
            #expect(talk.session.state == (asked ? .online : .ending))
        }
    }

    @Test(.statement("MQTT-2.2.1-4", .v5), arguments: [QoS.atLeastOnce, .exactlyOnce])
    func `a new message under an identifier that is in use ends the connection`(qos: QoS) {
        var talk = Conversation { $0.acknowledgesAutomatically = false }
        talk.connect()
        talk.serverSends(.publish(PublishPacket(topic: "a", packetIdentifier: 1, qos: qos)))
        talk.serverSends(.publish(PublishPacket(topic: "b", packetIdentifier: 1, qos: qos)))
        #expect(talk.events().last == .failed(.protocolError(.protocolError)))
    }
}
