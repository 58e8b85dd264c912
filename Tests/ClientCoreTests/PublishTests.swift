import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct PublishTests {
    @Test func `a message of QoS 0 is sent at once`() throws {
        var talk = Conversation()
        talk.connect()
        try talk.publish("a/b", [1, 2], retain: true)
        #expect(talk.sent() == [.publish(PublishPacket(topic: "a/b", retain: true, payload: [1, 2]))])
        #expect(talk.session.unacknowledgedCount == 0)
    }

    @Test func `a message of QoS 1 is done with its PUBACK`() throws {
        var talk = Conversation()
        talk.connect()
        let ticket = try talk.publish("a", qos: .atLeastOnce)
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
        let ticket = try talk.publish("a", qos: .exactlyOnce)
        _ = talk.sent()
        talk.serverSends(Conversation.acknowledgement(.pubrec, 1))
        #expect(talk.sent() == [Conversation.acknowledgement(.pubrel, 1)])
        #expect(talk.events() == [.received(ticket)])
        talk.serverSends(Conversation.acknowledgement(.pubcomp, 1))
        #expect(talk.events() == [.published(ticket, .success)])
    }

    @Test func `a PUBREC that refuses ends the handshake`() throws {
        var talk = Conversation()
        talk.connect()
        let ticket = try talk.publish("a", qos: .exactlyOnce)
        _ = talk.sent()
        talk.serverSends(Conversation.acknowledgement(.pubrec, 1, .quotaExceeded))
        #expect(talk.sent().isEmpty)
        #expect(talk.events() == [.published(ticket, .quotaExceeded)])
    }

    @Test(.statement("MQTT-4.9.0-2", .v5), .statement("MQTT-3.3.4-7", .v5))
    func `no more are in flight than the server's Receive Maximum`() throws {
        var connack = ConnackPacket()
        connack.properties.receiveMaximum = 2
        var talk = Conversation()
        talk.connect(connack)
        for payload in 0..<4 { try talk.publish("a", [UInt8(payload)], qos: .atLeastOnce) }
        #expect(talk.sentMessages().map(\.payload) == [[0], [1]])
        talk.serverSends(Conversation.acknowledgement(.puback, 2))
        #expect(talk.sentMessages().map(\.payload) == [[2]])
        talk.serverSends(Conversation.acknowledgement(.puback, 1))
        #expect(talk.sentMessages().map(\.payload) == [[3]])
    }

    @Test(.statement("MQTT-2.2.1-3", .v5), .statement("MQTT-2.3.1-2", .v311))
    func `identifiers in use are not given out again`() throws {
        var talk = Conversation { $0.inFlightMessagesMax = 10 }
        talk.connect()
        try talk.publish("held", qos: .atLeastOnce)
        talk.session.withOutput { $0.count }
        var seen: Set<UInt16> = []
        for _ in 0..<70_000 {
            try talk.publish("a", qos: .atLeastOnce)
            // Fixed header, the topic with its length, the identifier.
            let bytes = talk.session.takeOutput()
            seen.insert(UInt16(bytes[5]) << 8 | UInt16(bytes[6]))
            talk.session.received([0x40, 2, bytes[5], bytes[6]], now: talk.now)
            _ = talk.session.nextEvent()
        }
        #expect(!seen.contains(1))
        #expect(!seen.contains(0))
        #expect(seen.count > 50_000, "nearly all are used before one comes again")
    }

    @Test(.statement("MQTT-2.2.1-3", .v5), .statement("MQTT-2.2.1-4", .v5))
    func `with all 65,535 identifiers in use, messages wait for one and requests are refused`() throws {
        var talk = Conversation { $0.inFlightMessagesMax = 100_000 }
        talk.connect()
        for _ in 0..<65_540 { try talk.publish("a", qos: .atLeastOnce) }
        #expect(talk.session.unacknowledgedCount == 65_540)
        #expect(talk.session.windowRoom == 0)
        var seen: Set<UInt16> = []
        let bytes = talk.session.takeOutput()
        for start in stride(from: 0, to: bytes.count, by: 8) {
            seen.insert(UInt16(bytes[start + 5]) << 8 | UInt16(bytes[start + 6]))
        }
        #expect(bytes.count == 65_535 * 8)
        #expect(seen == Set(1...UInt16.max))
        #expect(throws: RequestRefusal.noIdentifierLeft) { try talk.session.unsubscribe(["a"], now: talk.now) }
        talk.serverSends(Conversation.acknowledgement(.puback, 300))
        #expect(talk.sentMessages().map(\.packetIdentifier) == [300])
        // The server has forgotten: all wait, and identifiers begin anew.
        talk.session.transportClosed()
        talk.session.options.inFlightMessagesMax = 2
        talk.session.transportOpened(now: talk.now)
        _ = talk.sent()
        talk.serverSends(.connack(ConnackPacket()))
        #expect(talk.sentMessages().map(\.packetIdentifier) == [1, 2])
        #expect(talk.session.unacknowledgedCount == 65_539)
    }

    @Test func `a full queue refuses`() throws {
        var talk = Conversation { $0.waitingMessagesMax = 1 }
        try talk.publish("a", qos: .atLeastOnce)
        #expect(throws: RequestRefusal.tooManyWaiting) {
            try talk.publish("a", qos: .atLeastOnce)
        }
    }

    @Test(.statement("MQTT-3.2.2-11", .v5), .statement("MQTT-3.2.2-14", .v5), .statement("MQTT-3.2.2-15", .v5))
    func `what the server does not take is refused here`() {
        var connack = ConnackPacket()
        connack.properties.maximumQoS = .atLeastOnce
        connack.properties.retainAvailable = false
        connack.properties.maximumPacketSize = 20
        var talk = Conversation()
        talk.connect(connack)
        #expect(throws: RequestRefusal.qosNotSupported) {
            try talk.publish("a", qos: .exactlyOnce)
        }
        #expect(throws: RequestRefusal.retainNotSupported) { try talk.publish("a", retain: true) }
        #expect(throws: RequestRefusal.packetTooLarge) {
            try talk.publish("a", Array(repeating: 0, count: 20))
        }
        #expect(talk.sent().isEmpty)
    }

    @Test func `what was published offline and the server does not take ends with a reason`() throws {
        var connack = ConnackPacket()
        connack.properties.maximumQoS = .atLeastOnce
        var talk = Conversation()
        let refused = try talk.publish("a", qos: .exactlyOnce)
        try talk.publish("b", qos: .atLeastOnce)
        talk.session.transportOpened(now: talk.now)
        talk.serverSends(.connack(connack))
        #expect(talk.events() == [.connected(connack), .published(refused, .qosNotSupported)])
        #expect(talk.sentMessages().map(\.topic) == ["b"])
    }

    @Test func `a message that waits is taken back, one that was sent is not`() throws {
        var talk = Conversation { $0.inFlightMessagesMax = 1 }
        talk.connect()
        let tickets = try (0..<4).map { try talk.publish("a", [$0], qos: .atLeastOnce) }
        #expect(talk.withdraw(tickets[0]) == false)
        #expect(talk.withdraw(tickets[2]) == true)
        #expect(talk.withdraw(tickets[2]) == false)
        #expect(talk.session.unacknowledgedCount == 3)
        #expect(talk.sentMessages().map(\.payload) == [[0]])
        talk.serverSends(Conversation.acknowledgement(.puback, 1))
        talk.serverSends(Conversation.acknowledgement(.puback, 2))
        #expect(talk.sentMessages().map(\.payload) == [[1], [3]])
        // The server has forgotten: it waits again, but it has been sent.
        talk.session.transportClosed()
        #expect(talk.withdraw(tickets[3]) == false)
        talk.session.transportOpened(now: talk.now)
        #expect(talk.withdraw(tickets[3]) == false)
    }

    @Test func `the room in the window is what would be sent at once`() throws {
        var connack = ConnackPacket()
        connack.properties.receiveMaximum = 3
        var talk = Conversation()
        #expect(talk.session.windowRoom == 0)
        try talk.publish("a", qos: .atLeastOnce)
        talk.connect(connack)
        #expect(talk.session.windowRoom == 2)
        for _ in 0..<3 { try talk.publish("a", qos: .exactlyOnce) }
        #expect(talk.session.windowRoom == 0)
        talk.serverSends(Conversation.acknowledgement(.puback, 1))
        #expect(talk.session.windowRoom == 0, "the one that waited has taken the place")
        talk.session.transportClosed()
        #expect(talk.session.windowRoom == 0)
    }

    @Test func `what is not taken of the output stays before what comes later`() throws {
        var talk = Conversation()
        talk.connect()
        try talk.publish("a", [1])
        let whole = talk.session.outputByteCount
        talk.session.withOutput { bytes in
            #expect(bytes.count == whole)
            return 2
        }
        #expect(talk.session.outputByteCount == whole - 2)
        try talk.publish("b", [2])
        var rest: [UInt8] = []
        talk.session.withOutput { bytes in
            rest = Array(bytes)
            return bytes.count
        }
        #expect(rest == [0, 1, 97, 0, 1, 0x30, 5, 0, 1, 98, 0, 2])
        #expect(talk.session.outputByteCount == 0)
    }
}
