import ClientCore
import MQTTCodec
import Testing

/// The Message Expiry Interval of messages that wait in the client.
@Suite struct ExpiryTests {
    private func message(_ topic: TopicName, seconds: UInt32, qos: QoS = .atLeastOnce) -> Publication {
        var properties = Properties()
        properties.messageExpiryInterval = seconds
        return Publication(topic, Payload(), qos: qos, properties: properties)
    }

    private func intervals(_ talk: inout Conversation) -> [UInt32?] { talk.sentMessages().map(\.properties.messageExpiryInterval) }

    @Test func `what is sent carries what is left of its time, in whole seconds`() throws {
        var talk = Conversation()
        talk.now = 100_000
        try talk.session.publish(message("a", seconds: 10), now: talk.now)
        try talk.session.publish(message("b", seconds: 10), since: talk.now - 500, now: talk.now)
        talk.now += 3100
        talk.session.transportOpened(now: talk.now)
        _ = talk.sent()
        talk.serverSends(.connack(ConnackPacket()))
        #expect(intervals(&talk) == [7, 7])
        try talk.session.publish(message("c", seconds: 10, qos: .atMostOnce), since: talk.now - 8500, now: talk.now)
        #expect(intervals(&talk) == [2])
    }

    @Test func `what was never sent and is too old ends, also behind what is not, with or without a connection`() throws {
        var talk = Conversation { $0.inFlightMessagesMax = 1 }
        let kept = try talk.session.publish(message("kept", seconds: 100), now: talk.now)
        let short = try talk.session.publish(message("short", seconds: 10), now: talk.now)
        let longer = try talk.session.publish(message("longer", seconds: 20), now: talk.now)
        #expect(talk.session.nextDeadline == talk.now + 10_000)
        talk.now += 10_000
        talk.session.advance(to: talk.now)
        #expect(talk.events() == [.expired(short)])
        #expect(talk.session.unacknowledgedCount == 2)
        let isWithdrawn = talk.withdraw(short)
        #expect(!isWithdrawn)
        talk.connect()
        #expect(talk.session.nextDeadline == talk.now + 10_000)
        talk.now += 10_000
        talk.session.advance(to: talk.now)
        #expect(talk.events() == [.expired(longer)])
        talk.serverSends(Conversation.acknowledgement(.puback, 1))
        #expect(talk.events() == [.published(kept, .success)])
        #expect(talk.sentMessages().isEmpty)
    }

    @Test(arguments: [QoS.atLeastOnce, .exactlyOnce])
    func `what was sent goes again to a server that knows the session, and not as new to one that has forgotten`(qos: QoS) throws {
        for isPresent in [true, false] {
            var talk = Conversation { ($0.cleanStart, $0.isJournaled) = (false, true) }
            talk.connect()
            let ticket = try talk.session.publish(message("a", seconds: 10, qos: qos), now: talk.now)
            _ = talk.sent()
            talk.session.transportClosed()
            _ = talk.session.takeChanges()
            talk.now += 60_000
            talk.session.advance(to: talk.now)
            #expect(talk.events().isEmpty)
            talk.session.transportOpened(now: talk.now)
            _ = talk.sent()
            talk.serverSends(.connack(ConnackPacket(sessionPresent: isPresent)))
            #expect(intervals(&talk) == (isPresent ? [1] : []))
            #expect(talk.events().contains(.expired(ticket)) == !isPresent)
            #expect(talk.session.takeChanges().contains(.done(ticket, .unspecifiedError)) == !isPresent)
        }
    }

    @Test func `what a crash has left counts its time from the first time that is told`() throws {
        var options = ClientOptions()
        (options.clientIdentifier, options.cleanStart) = ("c", false)
        let ticket = PublishTicket(number: 7)
        let stored = StoredClientSession(
            outgoing: [.init(ticket: ticket, packetIdentifier: nil, publication: message("a", seconds: 10))], received: [],
            lastTicket: ticket)
        var session = ClientSession(options, restoring: stored)
        session.advance(to: 5000)
        #expect(session.nextDeadline == 15_000)
        session.advance(to: 15_000)
        #expect(session.nextEvent() == .expired(ticket))
    }
}
