import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

/// What the standard asks of who sends a message.
@Suite struct SenderTests {
    private func resumed(_ talk: inout Conversation) {
        talk.session.transportClosed()
        talk.session.transportOpened(now: talk.now)
        _ = talk.sent()
        talk.serverSends(.connack(ConnackPacket(sessionPresent: true)))
    }

    @Test(
        .statement("MQTT-2.2.1-2", .v5), .statement("MQTT-2.2.2-1", .v5), .statement("MQTT-3.3.1-2", .v5),
        .statement("MQTT-4.3.1-1", .v5), .statement("MQTT-2.3.1-5", .v311), .statement("MQTT-3.3.1-2", .v311))
    func `PUBLISH of QoS 0 has no packet identifier and no DUP, and says that it has no properties`() throws {
        for (version, bytes) in [
            (ProtocolVersion.v5, [0x31, 6, 0, 1, 0x61, 0, 7, 8]), (.v311, [0x31, 5, 0, 1, 0x61, 7, 8]),
        ] {
            var talk = Conversation { $0.version = version }
            talk.connect()
            try talk.publish("a", [7, 8], retain: true)
            #expect(talk.session.takeOutput() == bytes.map { UInt8($0) })
        }
    }

    @Test(
        .statement("MQTT-4.3.2-1", .v5), .statement("MQTT-4.3.2-2", .v5), .statement("MQTT-4.3.3-1", .v5),
        .statement("MQTT-4.3.3-2", .v5), .statement("MQTT-3.3.1-3", .v5), .statement("MQTT-2.2.1-3", .v5),
        .statement("MQTT-2.3.1-1", .v311), .statement("MQTT-2.3.1-2", .v311), .statement("MQTT-3.3.1-3", .v311),
        arguments: [ProtocolVersion.v311, .v5], [QoS.atLeastOnce, .exactlyOnce])
    func `a new message has an unused packet identifier and no DUP`(version: ProtocolVersion, qos: QoS) throws {
        var talk = Conversation { $0.version = version }
        talk.connect()
        // Whatever else happens, such as a repeated message from the server.
        talk.serverSends(
            .publish(PublishPacket(topic: "down", packetIdentifier: 1, qos: .atLeastOnce, duplicate: true)))
        _ = talk.sent()
        for _ in 0..<3 { try talk.publish("a", qos: qos) }
        let identifier = try talk.session.subscribe([Subscription(filter: "a")], now: talk.now)
        let messages = talk.sentMessages()
        #expect(messages.map(\.packetIdentifier) == [1, 2, 3])
        #expect(messages.allSatisfy { !$0.duplicate && $0.qos == qos })
        #expect(identifier == 4)
    }

    @Test(
        .statement("MQTT-4.3.2-3", .v5), .statement("MQTT-4.3.3-3", .v5), .statement("MQTT-4.3.3-5", .v5),
        .statement("MQTT-4.3.3-6", .v5), .statement("MQTT-3.3.1-1", .v5), .statement("MQTT-4.4.0-1", .v5),
        .statement("MQTT-2.3.1-3", .v311), .statement("MQTT-3.3.1-1", .v311), .statement("MQTT-4.4.0-1", .v311),
        arguments: [ProtocolVersion.v311, .v5])
    func `each step is unacknowledged until its answer, and sent again on each connection until then`(
        version: ProtocolVersion
    ) throws {
        var talk = Conversation {
            $0.version = version
            $0.cleanStart = false
        }
        talk.connect()
        try talk.publish("a", [1], qos: .atLeastOnce)
        try talk.publish("b", [2], qos: .exactlyOnce)
        _ = talk.sent()
        let first = PublishPacket(topic: "a", packetIdentifier: 1, qos: .atLeastOnce, duplicate: true, payload: [1])
        let second = PublishPacket(topic: "b", packetIdentifier: 2, qos: .exactlyOnce, duplicate: true, payload: [2])
        for _ in 0..<2 {
            resumed(&talk)
            #expect(talk.sent() == [.publish(first), .publish(second)])
        }
        talk.serverSends(Conversation.acknowledgement(.pubrec, 2))
        #expect(talk.sent() == [Conversation.acknowledgement(.pubrel, 2)])
        for _ in 0..<2 {
            resumed(&talk)
            #expect(talk.sent() == [Conversation.acknowledgement(.pubrel, 2), .publish(first)])
        }
        talk.serverSends(Conversation.acknowledgement(.pubcomp, 2))
        talk.serverSends(Conversation.acknowledgement(.puback, 1))
        resumed(&talk)
        #expect(talk.sent().isEmpty)
        #expect(talk.session.unacknowledgedCount == 0)
    }

    @Test(.statement("MQTT-4.4.0-1", .v5), .statement("MQTT-4.3.3-7", .v5))
    func `nothing is sent again because of time alone, and what was sent does not expire`() throws {
        var talk = Conversation {
            $0.cleanStart = false
            $0.keepAliveSeconds = 0
        }
        talk.connect()
        var publication = Publication("a", [1], qos: .exactlyOnce)
        publication.properties.messageExpiryInterval = 1
        try talk.session.publish(publication, now: talk.now)
        let original = talk.sentMessages()
        talk.session.advance(to: 1_000_000_000)
        #expect(talk.sent().isEmpty)
        talk.now = 1_000_000_000
        resumed(&talk)
        let again = talk.sentMessages()
        #expect(again.map(\.payload) == original.map(\.payload))
        #expect(again.first?.properties == original.first?.properties)
    }

    @Test(arguments: [ReasonCode.success, .noMatchingSubscribers])
    func `what PUBREC has said stands, also where the server has forgotten the identifier when PUBREL comes again`(
        reason: ReasonCode
    ) throws {
        var talk = Conversation { $0.cleanStart = false }
        talk.connect()
        let ticket = try talk.publish("a", qos: .exactlyOnce)
        talk.serverSends(Conversation.acknowledgement(.pubrec, 1, reason))
        resumed(&talk)
        _ = talk.events()
        talk.serverSends(Conversation.acknowledgement(.pubcomp, 1, .packetIdentifierNotFound))
        #expect(talk.events() == [.published(ticket, reason)])
    }

    @Test(.statement("MQTT-4.4.0-2", .v5), arguments: [PacketType.puback, .pubrec])
    func `a message that was refused is not sent again`(type: PacketType) throws {
        var talk = Conversation { $0.cleanStart = false }
        talk.connect()
        let ticket = try talk.publish("a", qos: type == .puback ? .atLeastOnce : .exactlyOnce)
        talk.serverSends(Conversation.acknowledgement(type, 1, .notAuthorized))
        #expect(talk.events() == [.published(ticket, .notAuthorized)])
        _ = talk.sent()
        resumed(&talk)
        #expect(talk.sent().isEmpty)
    }

    @Test(
        .statement("MQTT-4.6.0-4", .v5), .statement("MQTT-2.2.1-5", .v5), .statement("MQTT-4.6.0-4", .v311),
        .statement("MQTT-2.3.1-6", .v311), arguments: [ProtocolVersion.v311, .v5])
    func `PUBREL packets keep the order of the PUBREC packets and have their identifiers`(version: ProtocolVersion) throws {
        var talk = Conversation { $0.version = version }
        talk.connect()
        for _ in 0..<3 { try talk.publish("a", qos: .exactlyOnce) }
        _ = talk.sent()
        for identifier: UInt16 in [2, 3, 1] { talk.serverSends(Conversation.acknowledgement(.pubrec, identifier)) }
        #expect(talk.sent() == [2, 3, 1].map { Conversation.acknowledgement(.pubrel, $0) })
    }

    @Test(.statement("MQTT-4.6.0-1", .v5), .statement("MQTT-4.6.0-1", .v311), arguments: [ProtocolVersion.v311, .v5])
    func `messages are sent again in the order in which they were sent`(version: ProtocolVersion) throws {
        var talk = Conversation {
            $0.version = version
            $0.cleanStart = false
            $0.inFlightMessagesMax = 20
        }
        talk.connect()
        // Identifiers go round while the first message is held.
        for number in 0..<20 { try talk.publish("a", [UInt8(number)], qos: number % 3 == 0 ? .exactlyOnce : .atLeastOnce) }
        for identifier: UInt16 in [2, 3, 8] { talk.serverSends(Conversation.acknowledgement(.puback, identifier)) }
        for number in 20..<23 { try talk.publish("a", [UInt8(number)], qos: .atLeastOnce) }
        _ = talk.sent()
        resumed(&talk)
        let payloads = talk.sentMessages().flatMap(\.payload)
        #expect(payloads == (0..<23).map { UInt8($0) }.filter { ![1, 2, 7].contains($0) })
    }

    @Test(.statement("MQTT-3.3.4-8", .v5), .statement("MQTT-4.9.0-1", .v5), .statement("MQTT-4.9.0-3", .v5))
    func `a full window holds back messages of QoS 1 and 2, and nothing else`() throws {
        var connack = ConnackPacket()
        connack.properties.receiveMaximum = 1
        var talk = Conversation { $0.keepAliveSeconds = 10 }
        talk.connect(connack)
        try talk.publish("first", qos: .exactlyOnce)
        #expect(talk.sentMessages().count == 1, "the first quota is not zero")
        try talk.publish("held", qos: .atLeastOnce)
        #expect(talk.sent().isEmpty)
        try talk.publish("passes")
        try talk.session.unsubscribe(["a"], now: talk.now)
        talk.serverSends(.publish(PublishPacket(topic: "a", packetIdentifier: 9, qos: .atLeastOnce)))
        talk.serverSends(.publish(PublishPacket(topic: "a", packetIdentifier: 8, qos: .exactlyOnce)))
        talk.serverSends(Conversation.acknowledgement(.pubrel, 8))
        talk.serverSends(Conversation.acknowledgement(.pubrec, 1))
        talk.session.advance(to: 11_000)
        #expect(
            talk.sent() == [
                .publish(PublishPacket(topic: "passes")),
                .unsubscribe(UnsubscribePacket(packetIdentifier: 2, filters: ["a"])),
                Conversation.acknowledgement(.puback, 9), Conversation.acknowledgement(.pubrec, 8),
                Conversation.acknowledgement(.pubcomp, 8), Conversation.acknowledgement(.pubrel, 1), .pingreq,
            ])
    }

    @Test(
        .statement("MQTT-3.3.2-9", .v5), .statement("MQTT-3.2.2-17", .v5), .statement("MQTT-3.2.2-18", .v5),
        .statement("MQTT-3.3.2-8", .v5), arguments: [nil, 0, 1, 3] as [UInt16?])
    func `aliases are set from 1 up to the server's maximum, and none without`(maximum: UInt16?) throws {
        var connack = ConnackPacket()
        connack.properties.topicAliasMaximum = maximum
        var talk = Conversation()
        talk.connect(connack)
        for _ in 0..<2 {
            for number in 1...5 { try talk.publish(try #require(TopicName("long/topic/\(number)" as String))) }
        }
        let messages = talk.sentMessages()
        let count = Int(maximum ?? 0)
        let firsts = (1...5).map { $0 <= count ? UInt16($0) : nil }
        #expect(messages.map(\.properties.topicAlias) == firsts + firsts)
        #expect(messages.map(\.topic.isEmpty) == Array(repeating: false, count: 5) + (1...5).map { $0 <= count })
    }

    @Test(.statement("MQTT-3.2.2-15", .v5))
    func `no packet is larger than the server takes, with an alias or for a request`() throws {
        var connack = ConnackPacket()
        connack.properties.maximumPacketSize = 20
        connack.properties.topicAliasMaximum = 5
        var talk = Conversation()
        talk.connect(connack)
        // 20 bytes without an alias, 23 with one beside the topic.
        try talk.publish("long/topic", [1, 2, 3, 4, 5])
        #expect(talk.session.outputByteCount == 20)
        #expect(talk.sentMessages().map(\.properties.topicAlias) == [nil])
        #expect(throws: RequestRefusal.packetTooLarge) { try talk.publish("long/topic", [1, 2, 3, 4, 5, 6]) }
        #expect(throws: RequestRefusal.packetTooLarge) {
            try talk.session.subscribe([Subscription(filter: "a/long/filter")], now: talk.now)
        }
        #expect(throws: RequestRefusal.packetTooLarge) { try talk.session.unsubscribe(["a/longer/filter"], now: talk.now) }
        #expect(talk.session.outputByteCount == 0)
        let identifier = try talk.session.unsubscribe(["a"], now: talk.now)
        #expect(identifier > 0)
    }

    @Test(.statement("MQTT-3.3.4-6", .v5), .statement("MQTT-3.3.2-18", .v5))
    func `Topic Alias and Subscription Identifiers of a publication are left out, the others are not`() throws {
        var talk = Conversation()
        talk.connect()
        var publication = Publication("a")
        publication.properties.subscriptionIdentifiers = [7]
        publication.properties.topicAlias = 9
        let names = [UserProperty(name: "b", value: "1"), UserProperty(name: "a", value: "2"), UserProperty(name: "b", value: "3")]
        publication.properties.userProperties = names
        publication.properties.correlationData = [1]
        try talk.session.publish(publication, now: talk.now)
        var expected = Properties()
        expected.userProperties = names
        expected.correlationData = [1]
        #expect(talk.sent() == [.publish(PublishPacket(topic: "a", properties: expected))])
    }

    @Test(.statement("MQTT-3.3.2-14", .v5))
    func `a Response Topic that is none is refused`() throws {
        var talk = Conversation()
        talk.connect()
        for topic: EncodedString in ["a/+", "#", ""] {
            var publication = Publication("a", qos: .atLeastOnce)
            publication.properties.responseTopic = topic
            #expect(throws: RequestRefusal.notAllowed(.topicNameInvalid)) {
                try talk.session.publish(publication, now: talk.now)
            }
        }
        #expect(talk.sent().isEmpty)
    }

    @Test(
        .statement("MQTT-3.3.2-2", .v5), .statement("MQTT-4.7.0-1", .v5), .statement("MQTT-4.7.3-1", .v5),
        .statement("MQTT-4.7.3-2", .v5), .statement("MQTT-4.7.3-3", .v5), .statement("MQTT-4.7.1-1", .v5),
        .statement("MQTT-4.7.1-2", .v5), .statement("MQTT-4.8.2-1", .v5), .statement("MQTT-4.8.2-2", .v5),
        .statement("MQTT-3.8.3-1", .v5), .statement("MQTT-3.10.3-1", .v5), .statement("MQTT-3.3.2-2", .v311),
        .statement("MQTT-4.7.0-1", .v311), .statement("MQTT-4.7.1-1", .v311), .statement("MQTT-4.7.1-2", .v311),
        .statement("MQTT-4.7.3-2", .v311),
        .statement("MQTT-3.8.3-1", .v311), .statement("MQTT-3.10.3-1", .v311))
    func `topics and filters that the standard does not know cannot be asked for`() {
        let long = String(repeating: "a", count: 65_536)
        for topic in ["", "a/+", "#", "a/#", "\0", long] { #expect(TopicName(topic) == nil) }
        for filter in ["", "a#", "#/a", "a+", "+a/b", "\0", long, "$share/", "$share//a", "$share/g", "$share/g/", "$share/+/a"] {
            #expect(TopicFilter(filter) == nil, "\(filter.prefix(20))")
        }
        #expect(TopicName([0xFF]) == nil)
        #expect(TopicFilter([0xED, 0xA0, 0x80]) == nil)
    }
}
