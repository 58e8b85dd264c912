import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct ResumeTests {
    /// A session that was cut with one message of QoS 1 unacknowledged, one of QoS 2 sent and one released, and one waiting.
    private func cut() throws -> (Conversation, [PublishTicket]) {
        var talk = Conversation {
            $0.cleanStart = false
            $0.inFlightMessagesMax = 3
        }
        talk.connect()
        let tickets = try [
            talk.session.publish("one", [1], qos: .atLeastOnce, now: talk.now),
            talk.session.publish("sent", [2], qos: .exactlyOnce, now: talk.now),
            talk.session.publish("released", [3], qos: .exactlyOnce, now: talk.now),
            talk.session.publish("waiting", [4], qos: .atLeastOnce, now: talk.now),
        ]
        talk.serverSends(Conversation.acknowledgement(.pubrec, 3))
        _ = talk.sent()
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
                .publish(
                    PublishPacket(topic: "one", packetIdentifier: 1, qos: .atLeastOnce, duplicate: true, payload: [1])),
                .publish(
                    PublishPacket(topic: "sent", packetIdentifier: 2, qos: .exactlyOnce, duplicate: true, payload: [2])),
                Conversation.acknowledgement(.pubrel, 3),
            ])
        _ = talk.events()
        talk.serverSends(Conversation.acknowledgement(.pubcomp, 3))
        #expect(talk.events() == [.published(tickets[2], .success)])
        #expect(talk.sentMessages().map(\.topic) == ["waiting"])
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
