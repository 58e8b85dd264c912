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

    @Test func `aliases end with the connection`() throws {
        var connack = ConnackPacket()
        connack.properties.topicAliasMaximum = 5
        var talk = Conversation()
        talk.connect(connack)
        try talk.publish("long/topic")
        talk.session.transportClosed()
        talk.connect(connack)
        try talk.publish("long/topic")
        #expect(talk.sentMessages().map(\.topic) == ["long/topic"])
    }
}
