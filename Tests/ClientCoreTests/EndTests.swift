import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct EndTests {
    @Test(
        .statement("MQTT-4.13.2-1", .v5), .statement("MQTT-3.2.2-7", .v5), .statement("MQTT-3.14.4-2", .v5),
        .statement("MQTT-3.14.4-1", .v311))
    func `a connection that one side has ended is used no more`() throws {
        let ends: [(inout Conversation) -> Void] = [
            { $0.serverSends(.disconnect(DisconnectPacket(reasonCode: .quotaExceeded))) },
            { $0.session.disconnect(now: 0) },
            { $0.session.disconnect(.unspecifiedError, now: 0) },
        ]
        for end in ends {
            var talk = Conversation()
            talk.connect()
            end(&talk)
            _ = (talk.sent(), talk.events())
            #expect(talk.session.state == .ending, "the transport is to be closed")
            talk.serverSends(.publish(PublishPacket(topic: "a", packetIdentifier: 1, qos: .atLeastOnce)))
            try talk.publish("a", qos: .atLeastOnce)
            #expect(throws: RequestRefusal.notConnected) { try talk.session.unsubscribe(["a"], now: 0) }
            talk.session.advance(to: 1_000_000)
            #expect(talk.sent().isEmpty)
            #expect(talk.events().isEmpty)
            #expect(talk.session.nextDeadline == nil)
        }
        var refused = Conversation()
        refused.session.transportOpened(now: 0)
        _ = refused.sent()
        refused.serverSends(.connack(ConnackPacket(reasonCode: .banned)))
        #expect(refused.session.state == .ending)
        #expect(refused.sent().isEmpty)
    }

    @Test(.statement("MQTT-3.14.2-1", .v5))
    func `DISCONNECT has a reason that a client may give`() {
        for (given, said) in [
            (ReasonCode.disconnectWithWillMessage, ReasonCode.disconnectWithWillMessage), (.protocolError, .protocolError),
            (.serverShuttingDown, .unspecifiedError), (.grantedQoS1, .normalDisconnection),
        ] {
            var talk = Conversation()
            talk.connect()
            talk.session.disconnect(given, now: 0)
            #expect(talk.sent() == [.disconnect(DisconnectPacket(reasonCode: said))])
        }
    }

    @Test(.statement("MQTT-3.14.2-3", .v5), .statement("MQTT-3.14.2-4", .v5))
    func `texts that make DISCONNECT too large for the server are left out`() {
        for maximum in [UInt32(20), 200] {
            var connack = ConnackPacket()
            connack.properties.maximumPacketSize = maximum
            var talk = Conversation { $0.sessionExpiryInterval = 60 }
            talk.connect(connack)
            var properties = Properties()
            properties.reasonString = "because I have to go"
            properties.userProperties = [UserProperty(name: "name", value: "value")]
            properties.sessionExpiryInterval = 7
            talk.session.disconnect(properties: properties, now: 0)
            if maximum == 20 { (properties.reasonString, properties.userProperties) = (nil, []) }
            #expect(talk.sent() == [.disconnect(DisconnectPacket(properties: properties))])
        }
    }

    @Test func `a Session Expiry Interval is not given at the end where there was none at the beginning`() {
        var talk = Conversation()
        talk.connect()
        var properties = Properties()
        properties.sessionExpiryInterval = 7
        talk.session.disconnect(properties: properties, now: 0)
        #expect(talk.sent() == [.disconnect(DisconnectPacket())])
    }

    @Test(
        .statement("MQTT-3.1.2-4", .v5), .statement("MQTT-3.2.2-5", .v5), .statement("MQTT-3.1.2-6", .v311),
        arguments: [ProtocolVersion.v311, .v5])
    func `nothing of a session that is over is used in the next`(version: ProtocolVersion) throws {
        var talk = Conversation {
            $0.version = version
            $0.acknowledgesAutomatically = false
        }
        talk.connect()
        try talk.publish("done", qos: .atLeastOnce)
        try talk.publish("a", qos: .exactlyOnce)
        talk.serverSends(Conversation.acknowledgement(.puback, 1))
        talk.serverSends(.publish(PublishPacket(topic: "b", packetIdentifier: 1, qos: .exactlyOnce)))
        talk.acknowledge(0)
        talk.session.transportClosed()
        talk.connect()
        try talk.publish("c", qos: .exactlyOnce)
        _ = talk.events()
        // What was received under 1 is forgotten, what was unacknowledged was sent as new, under 1.
        talk.serverSends(.publish(PublishPacket(topic: "b", packetIdentifier: 1, qos: .exactlyOnce)))
        #expect(talk.events() == [Conversation.told(PublishPacket(topic: "b", packetIdentifier: 1, qos: .exactlyOnce))])
        let identifiers = talk.sentMessages().map(\.packetIdentifier)
        #expect(identifiers == [2])
    }

    @Test(
        .statement("MQTT-3.1.2-23", .v5), .statement("MQTT-4.1.0-1", .v5), .statement("MQTT-3.1.2-4", .v311),
        arguments: [ProtocolVersion.v311, .v5])
    func `a session that is kept outlives its connections`(version: ProtocolVersion) throws {
        var talk = Conversation {
            $0.version = version
            $0.cleanStart = false
            $0.sessionExpiryInterval = 60
        }
        talk.connect()
        try talk.publish("a", qos: .exactlyOnce)
        talk.serverSends(.publish(PublishPacket(topic: "b", packetIdentifier: 9, qos: .exactlyOnce)))
        _ = (talk.events(), talk.sent())
        talk.session.advance(to: 40_000)
        for _ in 0..<3 {
            talk.session.transportClosed()
            talk.session.transportOpened(now: talk.now)
            _ = talk.sent()
            talk.serverSends(.connack(ConnackPacket(sessionPresent: true)))
            talk.serverSends(
                .publish(PublishPacket(topic: "b", packetIdentifier: 9, qos: .exactlyOnce, duplicate: true)))
            #expect(
                talk.sent() == [
                    .publish(PublishPacket(topic: "a", packetIdentifier: 1, qos: .exactlyOnce, duplicate: true)),
                    Conversation.acknowledgement(.pubrec, 9),
                ])
        }
        #expect(talk.events().allSatisfy { if case .message = $0 { false } else { true } })
    }
}
