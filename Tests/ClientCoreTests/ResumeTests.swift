import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct ResumeTests {
    /// A session that was cut with one message of QoS 1 unacknowledged, one of QoS 2 sent and one released, and one
    /// waiting.
    private func cut() throws -> (Conversation, [PublishTicket]) {
        var talk = Conversation {
            $0.cleanStart = false
            $0.inFlightMessagesMax = 3
        }
        talk.connect()
        let tickets = try [
            talk.publish("one", [1], qos: .atLeastOnce),
            talk.publish("sent", [2], qos: .exactlyOnce),
            talk.publish("released", [3], qos: .exactlyOnce),
            talk.publish("waiting", [4], qos: .atLeastOnce),
        ]
        talk.serverSends(Conversation.acknowledgement(.pubrec, 3))
        _ = talk.sent()
        _ = talk.events()
        talk.session.transportClosed()
        return (talk, tickets)
    }

    @Test(.statement("MQTT-4.4.0-1", .v5))
    func `what was unacknowledged is sent again in order on a resumed session`() throws {
        var (talk, tickets) = try cut()
        talk.session.transportOpened(now: talk.now)
        _ = talk.sent()
        talk.serverSends(.connack(ConnackPacket(sessionPresent: true)))
        let sent = talk.sent()
        #expect(
            sent == [
                Conversation.acknowledgement(.pubrel, 3),
                .publish(
                    PublishPacket(topic: "one", packetIdentifier: 1, qos: .atLeastOnce, duplicate: true, payload: [1])),
                .publish(
                    PublishPacket(topic: "sent", packetIdentifier: 2, qos: .exactlyOnce, duplicate: true, payload: [2])),
                .publish(PublishPacket(topic: "waiting", packetIdentifier: 4, qos: .atLeastOnce, payload: [4])),
            ])
        _ = talk.events()
        talk.serverSends(Conversation.acknowledgement(.pubcomp, 3))
        #expect(talk.events() == [.published(tickets[2], .success)])
    }

    @Test(.statement("MQTT-3.3.4-7", .v5), .statement("MQTT-4.9.0-2", .v5))
    func `what is sent again obeys the server's Receive Maximum of today`() throws {
        var talk = Conversation { $0.cleanStart = false }
        talk.connect()
        for number in 1...5 {
            try talk.publish("a", [UInt8(number)], qos: number == 4 ? .exactlyOnce : .atLeastOnce)
        }
        _ = talk.sent()
        talk.session.transportClosed()
        talk.session.transportOpened(now: talk.now)
        try talk.publish("a", [6], qos: .atLeastOnce)
        _ = talk.sent()
        var properties = Properties()
        properties.receiveMaximum = 2
        talk.serverSends(.connack(ConnackPacket(sessionPresent: true, properties: properties)))
        #expect(talk.sentMessages().map(\.payload) == [[1], [2]])
        talk.serverSends(Conversation.acknowledgement(.puback, 2))
        #expect(talk.sentMessages().map(\.payload) == [[3]])
        // Acknowledged though it was not sent again: it need not be.
        talk.serverSends(Conversation.acknowledgement(.puback, 5))
        talk.serverSends(Conversation.acknowledgement(.puback, 1))
        let fourth = talk.sentMessages()
        #expect(fourth.map(\.payload) == [[4]])
        #expect(fourth.allSatisfy { $0.duplicate })
        talk.serverSends(Conversation.acknowledgement(.pubrec, 4))
        #expect(talk.sentMessages().isEmpty, "PUBREC frees no place yet")
        talk.serverSends(Conversation.acknowledgement(.pubcomp, 4))
        let sixth = talk.sentMessages()
        #expect(sixth.map(\.payload) == [[6]])
        #expect(sixth.allSatisfy { !$0.duplicate })
    }

    @Test func `a server that has forgotten gets it as new, but not what it had`() throws {
        var (talk, tickets) = try cut()
        talk.session.transportOpened(now: talk.now)
        _ = talk.sent()
        talk.serverSends(.connack(ConnackPacket()))
        let messages = talk.sentMessages()
        #expect(messages.map(\.topic) == ["one", "sent", "waiting"])
        #expect(messages.allSatisfy { !$0.duplicate })
        #expect(talk.events() == [.connected(ConnackPacket()), .published(tickets[2], .success)])
    }

    @Test(.statement("MQTT-3.2.2-15", .v5))
    func `what the server no longer takes is not sent again`() throws {
        var talk = Conversation { $0.cleanStart = false }
        talk.connect()
        let large = try talk.publish("a", Array(repeating: 1, count: 30), qos: .atLeastOnce)
        try talk.publish("b", [2], qos: .atLeastOnce)
        _ = talk.sent()
        talk.session.transportClosed()
        var connack = ConnackPacket(sessionPresent: true)
        connack.properties.maximumPacketSize = 20
        talk.session.transportOpened(now: talk.now)
        _ = talk.sent()
        talk.serverSends(.connack(connack))
        #expect(talk.events() == [.connected(connack), .published(large, .packetTooLarge)])
        #expect(talk.sentMessages().map(\.topic) == ["b"])
        #expect(talk.session.unacknowledgedCount == 1)
    }

    @Test func `an answer to what a lost connection asked is a protocol error on the next one`() throws {
        var talk = Conversation { $0.cleanStart = false }
        talk.connect()
        let identifier = try talk.session.subscribe([Subscription(filter: "a")], now: talk.now)
        talk.session.transportClosed()
        talk.connect(ConnackPacket(sessionPresent: true))
        talk.serverSends(.suback(SubackPacket(packetIdentifier: identifier, reasonCodes: [.grantedQoS0])))
        #expect(talk.events() == [.failed(.protocolError(.protocolError))])
    }
}
