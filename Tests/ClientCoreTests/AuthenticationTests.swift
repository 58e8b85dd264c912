import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct AuthenticationTests {
    private func packet(_ reason: ReasonCode, _ method: EncodedString? = "m", data: UInt8 = 1) -> AuthPacket {
        var properties = Properties()
        properties.authenticationMethod = method
        properties.authenticationData = method == nil ? nil : [data]
        return AuthPacket(reasonCode: reason, properties: properties)
    }

    private func asking() -> Conversation {
        var talk = Conversation { $0.connectProperties.authenticationMethod = "m" }
        talk.session.transportOpened(now: talk.now)
        _ = talk.sent()
        return talk
    }

    @Test(
        .statement("MQTT-4.12.0-2", .v5), .statement("MQTT-4.12.0-3", .v5), .statement("MQTT-4.12.0-5", .v5),
        .statement("MQTT-3.1.2-30", .v5))
    func `steps go to and fro before CONNACK, under the method of CONNECT, and nothing else does`() throws {
        var talk = asking()
        try talk.publish("a", qos: .atLeastOnce)
        #expect(throws: RequestRefusal.notConnected) { try talk.publish("a") }
        #expect(throws: RequestRefusal.notConnected) { try talk.session.unsubscribe(["a"], now: talk.now) }
        talk.serverSends(.auth(packet(.continueAuthentication)))
        #expect(talk.events() == [.authentication(packet(.continueAuthentication))])
        var answer = packet(.continueAuthentication, data: 2)
        answer.properties.authenticationMethod = nil
        try talk.session.authenticate(answer, now: talk.now)
        #expect(talk.sent() == [.auth(packet(.continueAuthentication, data: 2))])
        #expect(throws: RequestRefusal.notAllowed(.protocolError)) {
            try talk.session.authenticate(AuthPacket(reasonCode: .reauthenticate), now: talk.now)
        }
        #expect(throws: RequestRefusal.notAllowed(.protocolError)) {
            try talk.session.authenticate(AuthPacket(reasonCode: .success), now: talk.now)
        }
        var connack = ConnackPacket()
        connack.properties.authenticationMethod = "m"
        talk.serverSends(.connack(connack))
        #expect(talk.session.state == .online)
        #expect(talk.sentMessages().map(\.topic) == ["a"])
    }

    @Test(.statement("MQTT-4.12.0-7", .v5))
    func `without a method in CONNECT no AUTH is sent`() {
        var talk = Conversation()
        talk.connect()
        #expect(throws: RequestRefusal.notAllowed(.protocolError)) {
            try talk.session.authenticate(packet(.continueAuthentication), now: talk.now)
        }
        #expect(talk.sent().isEmpty)
    }

    @Test(.statement("MQTT-4.12.1-1", .v5))
    func `a client that is online authenticates again, under the same method`() throws {
        var talk = asking()
        talk.serverSends(.connack(ConnackPacket()))
        _ = talk.events()
        try talk.session.authenticate(packet(.reauthenticate, "other"), now: talk.now)
        #expect(talk.sent() == [.auth(packet(.reauthenticate))])
        talk.serverSends(.auth(packet(.success)))
        #expect(talk.events() == [.authentication(packet(.success))])
    }

    @Test(.statement("MQTT-4.12.0-2", .v5), .statement("MQTT-4.12.0-5", .v5))
    func `a server that goes on otherwise, or under another method, is left`() {
        var other = ConnackPacket()
        other.properties.authenticationMethod = "other"
        let wrong: [ControlPacket] = [
            .auth(packet(.success)), .auth(packet(.continueAuthentication, "other")), .connack(other),
        ]
        for packet in wrong {
            var talk = asking()
            talk.serverSends(packet)
            #expect(talk.events() == [.failed(.protocolError(.protocolError))])
        }
    }

    @Test(.statement("MQTT-3.15.2-2", .v5), .statement("MQTT-3.15.2-3", .v5))
    func `texts that make AUTH too large for the server are left out`() throws {
        var talk = asking()
        var connack = ConnackPacket()
        connack.properties.maximumPacketSize = 20
        talk.serverSends(.connack(connack))
        var long = packet(.reauthenticate)
        long.properties.reasonString = "because"
        long.properties.userProperties = [UserProperty(name: "name", value: "value")]
        try talk.session.authenticate(long, now: talk.now)
        #expect(talk.sent() == [.auth(packet(.reauthenticate))])
    }
}
