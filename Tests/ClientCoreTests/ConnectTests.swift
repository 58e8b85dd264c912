import ClientCore
import MQTTCodec
import MartletTestKit
import Testing

@Suite struct ConnectTests {
    @Test(.statement("MQTT-3.1.0-1", .v5), .statement("MQTT-3.1.0-1", .v311), arguments: [ProtocolVersion.v31, .v311, .v5])
    func `the first packet is CONNECT in the version asked for`(version: ProtocolVersion) {
        var talk = Conversation { $0.version = version }
        talk.session.transportOpened(now: talk.now)
        let sent = talk.sent()
        guard case .connect(let packet)? = sent.first, sent.count == 1 else {
            Issue.record("\(sent)")
            return
        }
        #expect(packet.version == version)
        #expect(packet.clientIdentifier == "c")
        #expect(packet.keepAliveSeconds == 60)
        #expect(packet.properties.receiveMaximum == (version == .v5 ? 1000 : nil))
    }

    @Test func `an accepting CONNACK lets the client online and is told`() {
        var talk = Conversation()
        talk.session.transportOpened(now: talk.now)
        talk.serverSends(.connack(ConnackPacket()))
        #expect(talk.events() == [.connected(ConnackPacket())])
        #expect(talk.session.state == .online)
    }

    @Test func `a refusal is told and ends the connection`() {
        var talk = Conversation()
        talk.session.transportOpened(now: talk.now)
        let packet = ConnackPacket(reasonCode: .notAuthorized)
        talk.serverSends(.connack(packet))
        #expect(talk.events() == [.refused(packet)])
        #expect(talk.session.state == .ending)
    }

    @Test(.statement("MQTT-3.2.0-1", .v5))
    func `a packet before CONNACK is a protocol error`() {
        var talk = Conversation()
        talk.session.transportOpened(now: talk.now)
        talk.serverSends(.pingresp)
        #expect(talk.events() == [.failed(.protocolError(.protocolError))])
    }

    @Test(.statement("MQTT-3.2.0-2", .v5))
    func `a second CONNACK is a protocol error, and the server is told so`() {
        var talk = Conversation()
        talk.connect()
        talk.serverSends(.connack(ConnackPacket()))
        #expect(talk.events() == [.failed(.protocolError(.protocolError))])
        #expect(talk.sent() == [.disconnect(DisconnectPacket(reasonCode: .protocolError))])
    }

    @Test(.statement("MQTT-3.2.2-4", .v5))
    func `a session that the client did not ask for ends the connection`() {
        var talk = Conversation()
        talk.session.transportOpened(now: talk.now)
        talk.serverSends(.connack(ConnackPacket(sessionPresent: true)))
        #expect(talk.events() == [.failed(.protocolError(.protocolError))])
    }

    @Test func `a server that does not answer CONNECT in time is given up`() {
        var talk = Conversation { $0.connectTimeoutMilliseconds = 500 }
        talk.session.transportOpened(now: 1000)
        #expect(talk.session.nextDeadline == 1500)
        talk.session.advance(to: 1499)
        #expect(talk.events().isEmpty)
        talk.session.advance(to: 1500)
        #expect(talk.events() == [.failed(.connectTimeout)])
    }

    @Test(.statement("MQTT-3.14.4-1", .v5), .statement("MQTT-3.14.4-1", .v311))
    func `after DISCONNECT nothing is sent and nothing is read`() throws {
        var talk = Conversation()
        talk.connect()
        talk.session.disconnect(now: talk.now)
        talk.serverSends(.publish(PublishPacket(topic: "a", packetIdentifier: 1, qos: .atLeastOnce)))
        #expect(talk.sent() == [.disconnect(DisconnectPacket())])
        #expect(talk.events().isEmpty)
        #expect(throws: RequestRefusal.notConnected) { try talk.publish("a") }
    }

    @Test func `the server's goodbye is told`() {
        var talk = Conversation()
        talk.connect()
        talk.serverSends(.disconnect(DisconnectPacket(reasonCode: .serverShuttingDown)))
        #expect(talk.events() == [.disconnected(DisconnectPacket(reasonCode: .serverShuttingDown))])
        #expect(talk.session.state == .ending)
    }

    @Test func `a session is small, for there may be many`() {
        #expect(MemoryLayout<ClientSession>.size < 2048)
    }

    @Test func `a client comes back on another transport`() {
        var talk = Conversation()
        talk.connect()
        talk.session.transportClosed()
        #expect(talk.session.state == .offline)
        talk.connect()
        #expect(talk.session.state == .online)
    }

    @Test(
        arguments: [
            (1, ReasonCode.unsupportedProtocolVersion), (2, .clientIdentifierNotValid), (3, .serverUnavailable),
            (4, .badUserNameOrPassword), (5, .notAuthorized), (0x84, .unsupportedProtocolVersion),
        ] as [(UInt8, ReasonCode)])
    func `a server that speaks no MQTT 5.0 refuses in its own form`(byte: UInt8, reason: ReasonCode) {
        var talk = Conversation()
        talk.session.transportOpened(now: talk.now)
        talk.session.received([0x20, 2, 0, byte], now: talk.now)
        #expect(talk.events() == [.refused(ConnackPacket(reasonCode: reason))])
    }
}
