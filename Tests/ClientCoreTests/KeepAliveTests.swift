import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct KeepAliveTests {
    @Test(.statement("MQTT-3.1.2-20", .v5), .statement("MQTT-3.1.2-23", .v311))
    func `PINGREQ is sent when nothing was sent for the Keep Alive`() throws {
        var talk = Conversation { $0.keepAliveSeconds = 10 }
        talk.connect()
        #expect(talk.session.nextDeadline == 11_000)
        talk.now = 5000
        try talk.publish("a")
        _ = talk.sent()
        #expect(talk.session.nextDeadline == 15_000)
        talk.session.advance(to: 14_999)
        #expect(talk.sent().isEmpty)
        talk.session.advance(to: 15_000)
        #expect(talk.sent() == [.pingreq])
    }

    @Test(.statement("MQTT-3.1.2-21", .v5), .statement("MQTT-3.2.2-21", .v5))
    func `the server's Keep Alive goes before the client's`() {
        var connack = ConnackPacket()
        connack.properties.serverKeepAlive = 5
        var talk = Conversation { $0.keepAliveSeconds = 10 }
        talk.connect(connack)
        #expect(talk.session.nextDeadline == 6000)
    }

    @Test func `as long as nothing is read, the server is asked again and not given up`() {
        var talk = Conversation {
            $0.keepAliveSeconds = 10
            $0.pingTimeoutMilliseconds = 2000
        }
        talk.connect()
        talk.session.isHeldUp = true
        for now: UInt64 in [11_000, 13_000, 15_000] {
            talk.session.advance(to: now)
            #expect(talk.sent() == [.pingreq])
        }
        talk.session.isHeldUp = false
        talk.session.advance(to: 17_000)
        #expect(talk.events() == [.failed(.pingTimeout)])
    }

    @Test(.statement("MQTT-3.12.4-1", .v5), .statement("MQTT-3.12.4-1", .v311))
    func `an unanswered PINGREQ ends the connection`() {
        var talk = Conversation {
            $0.keepAliveSeconds = 10
            $0.pingTimeoutMilliseconds = 2000
        }
        talk.connect()
        talk.session.advance(to: 11_000)
        #expect(talk.session.nextDeadline == 13_000)
        talk.session.advance(to: 13_000)
        #expect(talk.events() == [.failed(.pingTimeout)])
    }

    @Test func `an answer to PINGREQ is awaited no longer than the Keep Alive`() {
        var talk = Conversation { $0.keepAliveSeconds = 2 }
        talk.connect()
        talk.session.advance(to: 3000)
        #expect(talk.session.awaitsAnswer)
        #expect(talk.session.nextDeadline == 5000)
        talk.session.advance(to: 5000)
        #expect(talk.events() == [.failed(.pingTimeout)])
    }

    @Test func `an answered PINGREQ starts the time anew`() {
        var talk = Conversation { $0.keepAliveSeconds = 10 }
        talk.connect()
        talk.session.advance(to: 11_000)
        talk.serverSends(.pingresp)
        #expect(talk.session.nextDeadline == 21_000)
    }

    @Test func `without a Keep Alive nothing is ever due`() {
        var talk = Conversation { $0.keepAliveSeconds = 0 }
        talk.connect()
        #expect(talk.session.nextDeadline == nil)
    }
}
