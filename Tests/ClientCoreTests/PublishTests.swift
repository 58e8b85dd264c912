import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct PublishTests {
    @Test func `a message of QoS 0 is sent at once`() throws {
        var talk = Conversation()
        talk.connect()
        try talk.session.publish("a/b", [1, 2], retain: true, now: talk.now)
        #expect(talk.sent() == [.publish(PublishPacket(topic: "a/b", retain: true, payload: [1, 2]))])
        #expect(talk.session.unacknowledgedCount == 0)
    }

    @Test func `a message of QoS 1 is done with its PUBACK`() throws {
        var talk = Conversation()
        talk.connect()
        let ticket = try talk.session.publish("a", [], qos: .atLeastOnce, now: talk.now)
        #expect(talk.sentMessages().map(\.packetIdentifier) == [1])
        #expect(talk.session.unacknowledgedCount == 1)
        talk.serverSends(Conversation.acknowledgement(.puback, 1, .noMatchingSubscribers))
        #expect(talk.events() == [.published(ticket, .noMatchingSubscribers)])
        #expect(talk.session.unacknowledgedCount == 0)
    }

    @Test(.statement("MQTT-4.3.3-4", .v5))
    func `a message of QoS 2 is released by PUBREL and done with PUBCOMP`() throws {
        var talk = Conversation()
        talk.connect()
        let ticket = try talk.session.publish("a", [], qos: .exactlyOnce, now: talk.now)
        _ = talk.sent()
        talk.serverSends(Conversation.acknowledgement(.pubrec, 1))
        #expect(talk.sent() == [Conversation.acknowledgement(.pubrel, 1)])
        #expect(talk.events().isEmpty)
        talk.serverSends(Conversation.acknowledgement(.pubcomp, 1))
        #expect(talk.events() == [.published(ticket, .success)])
    }

    @Test func `a PUBREC that refuses ends the handshake`() throws {
        var talk = Conversation()
        talk.connect()
        let ticket = try talk.session.publish("a", [], qos: .exactlyOnce, now: talk.now)
        _ = talk.sent()
        talk.serverSends(Conversation.acknowledgement(.pubrec, 1, .quotaExceeded))
        #expect(talk.sent().isEmpty)
        #expect(talk.events() == [.published(ticket, .quotaExceeded)])
    }

    @Test(.statement("MQTT-4.9.0-2", .v5))
    func `no more are in flight than the server's Receive Maximum`() throws {
        var connack = ConnackPacket()
        connack.properties.receiveMaximum = 2
        var talk = Conversation()
        talk.connect(connack)
        for payload in 0..<4 { try talk.session.publish("a", [UInt8(payload)], qos: .atLeastOnce, now: talk.now) }
        #expect(talk.sentMessages().map(\.payload) == [[0], [1]])
        talk.serverSends(Conversation.acknowledgement(.puback, 2))
        #expect(talk.sentMessages().map(\.payload) == [[2]])
        talk.serverSends(Conversation.acknowledgement(.puback, 1))
        #expect(talk.sentMessages().map(\.payload) == [[3]])
    }

    @Test(.statement("MQTT-2.2.1-3", .v5))
    func `identifiers in use are not given out again`() throws {
        var talk = Conversation { $0.inFlightMessagesMax = 10 }
        talk.connect()
        try talk.session.publish("held", [], qos: .atLeastOnce, now: talk.now)
        var seen: Set<UInt16> = []
        for _ in 0..<70_000 {
            try talk.session.publish("a", [], qos: .atLeastOnce, now: talk.now)
            for message in talk.sentMessages() where message.topic != "held" {
                let identifier = try #require(message.packetIdentifier)
                seen.insert(identifier)
                talk.serverSends(Conversation.acknowledgement(.puback, identifier))
            }
        }
        #expect(!seen.contains(1))
        #expect(!seen.contains(0))
        #expect(seen.count == 65_534)
    }

    @Test func `a full queue refuses`() throws {
        var talk = Conversation { $0.waitingMessagesMax = 1 }
        try talk.session.publish("a", [], qos: .atLeastOnce, now: talk.now)
        #expect(throws: RequestRefusal.tooManyWaiting) {
            try talk.session.publish("a", [], qos: .atLeastOnce, now: talk.now)
        }
    }

    @Test(.statement("MQTT-3.2.2-11", .v5))
    func `what the server does not take is refused here`() {
        var connack = ConnackPacket()
        connack.properties.maximumQoS = .atLeastOnce
        connack.properties.retainAvailable = false
        connack.properties.maximumPacketSize = 20
        var talk = Conversation()
        talk.connect(connack)
        #expect(throws: RequestRefusal.qosNotSupported) {
            try talk.session.publish("a", [], qos: .exactlyOnce, now: talk.now)
        }
        #expect(throws: RequestRefusal.retainNotSupported) { try talk.session.publish("a", [], retain: true, now: talk.now) }
        #expect(throws: RequestRefusal.packetTooLarge) {
            try talk.session.publish("a", Array(repeating: 0, count: 20), now: talk.now)
        }
        #expect(talk.sent().isEmpty)
    }

    @Test func `what was published offline and the server does not take ends with a reason`() throws {
        var connack = ConnackPacket()
        connack.properties.maximumQoS = .atLeastOnce
        var talk = Conversation()
        let refused = try talk.session.publish("a", [], qos: .exactlyOnce, now: talk.now)
        try talk.session.publish("b", [], qos: .atLeastOnce, now: talk.now)
        talk.session.transportOpened(now: talk.now)
        talk.serverSends(.connack(connack))
        #expect(talk.events() == [.connected(connack), .published(refused, .qosNotSupported)])
        #expect(talk.sentMessages().map(\.topic) == ["b"])
    }
}
