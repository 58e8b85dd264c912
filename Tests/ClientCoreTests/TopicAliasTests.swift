import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct TopicAliasTests {
    @Test func `an alias is set beside the topic and then stands for it`() throws {
        var connack = ConnackPacket()
        connack.properties.topicAliasMaximum = 1
        var talk = Conversation()
        talk.connect(connack)
        for topic: TopicName in ["long/topic", "long/topic", "other/topic"] { try talk.publish(topic) }
        let messages = talk.sentMessages()
        #expect(messages.map(\.topic) == ["long/topic", "", "other/topic"])
        #expect(messages.map(\.properties.topicAlias) == [1, 1, nil])
    }

    @Test func `without the server's leave no alias is set`() throws {
        var talk = Conversation()
        talk.connect()
        for _ in 0..<2 { try talk.publish("long/topic") }
        #expect(talk.sentMessages().map(\.topic) == ["long/topic", "long/topic"])
    }

    @Test(.statement("MQTT-3.3.2-12", .v5))
    func `the server's alias is resolved`() {
        var talk = Conversation()
        talk.connect()
        for topic: EncodedString in ["a/b", ""] {
            var packet = PublishPacket(topic: topic)
            packet.properties.topicAlias = 3
            talk.serverSends(.publish(packet))
        }
        #expect(talk.events() == [Conversation.told(PublishPacket(topic: "a/b")), Conversation.told(PublishPacket(topic: "a/b"))])
    }

    @Test(arguments: [UInt16(3), 17])
    func `an alias that stands for nothing or is too high ends the connection`(alias: UInt16) {
        var talk = Conversation()
        talk.connect()
        var packet = PublishPacket(topic: alias == 17 ? "a" : "")
        packet.properties.topicAlias = alias
        talk.serverSends(.publish(packet))
        #expect(talk.events() == [.failed(.protocolError(.topicAliasInvalid))])
    }

    @Test(.statement("MQTT-3.3.2-7", .v5))
    func `aliases end with the connection, on both sides`() throws {
        var connack = ConnackPacket()
        connack.properties.topicAliasMaximum = 5
        var talk = Conversation()
        talk.connect(connack)
        try talk.publish("long/topic")
        talk.session.transportClosed()
        talk.connect(connack)
        try talk.publish("long/topic")
        #expect(talk.sentMessages().map(\.topic) == ["long/topic"])
        talk.session.received([0x30, 7, 0, 1, 0x61, 3, 0x23, 0, 1], now: talk.now)
        talk.session.transportClosed()
        talk.connect(connack)
        _ = talk.events()
        talk.session.received([0x30, 6, 0, 0, 3, 0x23, 0, 1], now: talk.now)
        #expect(talk.events() == [.failed(.protocolError(.topicAliasInvalid))])
    }

    @Test(.statement("MQTT-3.3.2-10", .v5))
    func `all aliases from 1 to our maximum are accepted, and may be set anew`() throws {
        var talk = Conversation { $0.topicAliasMaximum = 40 }
        talk.connect()
        for round in 0..<2 {
            for alias in (1...UInt16(40)).reversed() {
                let topic = try #require(EncodedString("\(round)/\(alias)" as String))
                var packet = PublishPacket(topic: topic)
                packet.properties.topicAlias = alias
                talk.serverSends(.publish(packet))
                packet.topic = ""
                talk.serverSends(.publish(packet))
                #expect(talk.events() == Array(repeating: Conversation.told(PublishPacket(topic: topic)), count: 2))
            }
        }
    }
}
