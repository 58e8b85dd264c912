import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct RequestTests {
    @Test(
        .statement("MQTT-3.8.1-1", .v5), .statement("MQTT-3.10.1-1", .v5), .statement("MQTT-2.2.1-3", .v5),
        .statement("MQTT-3.8.1-1", .v311), .statement("MQTT-3.10.1-1", .v311), .statement("MQTT-2.3.1-1", .v311))
    func `SUBSCRIBE and UNSUBSCRIBE have their bits and an identifier`() throws {
        for (version, bytes) in [
            (ProtocolVersion.v5, [0x82, 7, 0, 1, 0, 0, 1, 0x61, 0x2E, 0xA2, 6, 0, 2, 0, 0, 1, 0x61] as [UInt8]),
            (.v311, [0x82, 6, 0, 1, 0, 1, 0x61, 2, 0xA2, 5, 0, 2, 0, 1, 0x61]),
        ] {
            var talk = Conversation { $0.version = version }
            talk.connect()
            let options = SubscriptionOptions(
                maximumQoS: .exactlyOnce, noLocal: true, retainAsPublished: true, retainHandling: .doNotSend)
            try talk.session.subscribe([Subscription(filter: "a", options: options)], now: talk.now)
            try talk.session.unsubscribe(["a"], now: talk.now)
            #expect(talk.session.takeOutput() == bytes)
        }
    }

    @Test(
        .statement("MQTT-3.8.3-2", .v5), .statement("MQTT-3.10.3-2", .v5), .statement("MQTT-3.8.3-3", .v311),
        .statement("MQTT-3.10.3-2", .v311), arguments: [ProtocolVersion.v311, .v5])
    func `a request without a filter is refused`(version: ProtocolVersion) throws {
        var talk = Conversation { $0.version = version }
        talk.connect()
        #expect(throws: RequestRefusal.notAllowed(.protocolError)) { try talk.session.subscribe([], now: talk.now) }
        #expect(throws: RequestRefusal.notAllowed(.protocolError)) { try talk.session.unsubscribe([], now: talk.now) }
        #expect(talk.sent().isEmpty)
    }

    @Test(.statement("MQTT-3.8.3-4", .v5))
    func `No Local on a shared subscription is refused`() throws {
        var talk = Conversation()
        talk.connect()
        let options = SubscriptionOptions(noLocal: true)
        #expect(throws: RequestRefusal.notAllowed(.protocolError)) {
            try talk.session.subscribe([Subscription(filter: "$share/g/a", options: options)], now: talk.now)
        }
        try talk.session.subscribe([Subscription(filter: "a", options: options)], now: talk.now)
    }

    @Test func `what this server said it cannot do is not asked of it, which would end the connection`() throws {
        var connack = ConnackPacket()
        connack.properties.wildcardSubscriptionAvailable = false
        connack.properties.sharedSubscriptionAvailable = false
        connack.properties.subscriptionIdentifierAvailable = false
        var talk = Conversation()
        talk.connect(connack)
        for filter: TopicFilter in ["a/+", "#"] {
            #expect(throws: RequestRefusal.notAllowed(.wildcardSubscriptionsNotSupported)) {
                try talk.session.subscribe([Subscription(filter: "a"), Subscription(filter: filter)], now: talk.now)
            }
        }
        #expect(throws: RequestRefusal.notAllowed(.sharedSubscriptionsNotSupported)) {
            try talk.session.subscribe([Subscription(filter: "$share/g/a")], now: talk.now)
        }
        var properties = Properties()
        properties.subscriptionIdentifiers = [1]
        #expect(throws: RequestRefusal.notAllowed(.subscriptionIdentifiersNotSupported)) {
            try talk.session.subscribe([Subscription(filter: "a")], properties: properties, now: talk.now)
        }
        try talk.session.subscribe([Subscription(filter: "a/b")], now: talk.now)
        #expect(talk.sent().count == 1)
    }

    @Test func `a server that answers no request is left, like one that does not let in`() throws {
        var talk = Conversation {
            $0.requestTimeoutMilliseconds = 5000
            $0.keepAliveSeconds = 0
        }
        talk.connect()
        #expect(talk.session.nextDeadline == nil)
        let first = try talk.session.subscribe([Subscription(filter: "a", options: SubscriptionOptions())], now: 1000)
        try talk.session.unsubscribe(["b"], now: 3000)
        #expect(talk.session.nextDeadline == 6000)
        // With each answer the others have as long again.
        talk.now = 5000
        talk.serverSends(.suback(SubackPacket(packetIdentifier: first, reasonCodes: [.grantedQoS0])))
        _ = talk.events()
        #expect(talk.session.nextDeadline == 10_000)
        // What is not read may be the answer.
        talk.session.isHeldUp = true
        talk.session.advance(to: 9000)
        talk.session.isHeldUp = false
        #expect(talk.session.nextDeadline == 14_000)
        talk.session.advance(to: 13_999)
        #expect(talk.events().isEmpty)
        talk.session.advance(to: 14_000)
        #expect(talk.events() == [.failed(.requestTimeout)])
        talk.session.transportClosed()
        talk.now = 20_000
        talk.connect()
        #expect(talk.session.nextDeadline == nil)
        let second = try talk.session.unsubscribe(["b"], now: 20_000)
        talk.serverSends(.unsuback(UnsubackPacket(packetIdentifier: second, reasonCodes: [.success])))
        #expect(talk.session.nextDeadline == nil)
    }
}
