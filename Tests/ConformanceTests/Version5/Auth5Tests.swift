import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Sections 3.15 and 4.12: AUTH, enhanced authentication and re-authentication.
@Suite struct Auth5Tests {
    /// A broker that knows the method `TWO-STEP`: it asks for a word, and the word is `open sesame`.
    private func broker(shards: Int = 1) -> SimulatedBroker {
        let settings = SimulatedBroker.testSettings { $0.authenticationMethods = ["TWO-STEP"] }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { request in
            switch request.step {
            case .begin: .challenge(data: Array("word?".utf8))
            case .proceed(method: _, data: let data):
                switch data.map({ String(decoding: $0, as: UTF8.self) }) {
                case "open sesame": .accepted(userName: "ali", data: Array("welcome".utf8))
                case "once more": .challenge(data: Array("really?".utf8))
                case "wrong code": .refused(.badUserNameOrPassword)
                default: .refused(.notAuthorized)
                }
            case .password, .abandon: .refused(.badUserNameOrPassword)
            }
        }
        return broker
    }

    private func auth(
        _ reason: ReasonCode, _ data: String?, method: EncodedString? = "TWO-STEP", words: EncodedString? = nil
    ) -> ControlPacket {
        .auth(
            AuthPacket(
                reasonCode: reason,
                properties: .having {
                    $0.reasonString = words
                    $0.authenticationMethod = method
                    $0.authenticationData = data.map { Array($0.utf8) }
                }))
    }

    /// What the broker asks, and says at the end.
    private func asked(_ data: String) -> ControlPacket {
        auth(.continueAuthentication, data, words: "the server waits for the client's next answer")
    }

    private func proven(_ data: String) -> ControlPacket { auth(.success, data, words: "the client is authenticated again") }

    private func begin(_ broker: SimulatedBroker, limit: UInt32? = nil) -> TestClient {
        broker.connected("a") {
            $0.authenticationMethod = "TWO-STEP"
            $0.maximumPacketSize = limit
        }
    }

    private func authenticated(_ broker: SimulatedBroker) -> TestClient {
        let client = begin(broker)
        client.send(auth(.continueAuthentication, "open sesame"))
        #expect(client.isConnected)
        return client
    }

    @Test(
        .statement("MQTT-4.12.0-2", .v5), .statement("MQTT-4.12.0-5", .v5), .statement("MQTT-3.15.2-1", .v5),
        .statement("MQTT-3.2.0-1", .v5), arguments: [1, 4])
    func `a client is asked until it has answered right`(shards: Int) {
        let broker = broker(shards: shards)
        let client = begin(broker)
        client.send(auth(.continueAuthentication, "once more"))
        client.send(auth(.continueAuthentication, "open sesame"))
        #expect(client.packets.map(\.type) == [.auth, .auth, .connack])
        #expect(client.packets.prefix(2) == [asked("word?"), asked("really?")])
        #expect(client.connack?.properties.authenticationMethod == "TWO-STEP")
        #expect(client.connack?.properties.authenticationData == Array("welcome".utf8))
        #expect(client.ping())
    }

    @Test(.statement("MQTT-4.12.0-1", .v5), arguments: [1, 4])
    func `a method that is not known is refused with 0x8C`(shards: Int) {
        let broker = broker(shards: shards)
        let client = broker.connected("a") { $0.authenticationMethod = "UNKNOWN" }
        #expect(client.connack?.reasonCode == .badAuthenticationMethod)
        #expect(client.connection?.isClosed == true)
    }

    @Test(.statement("MQTT-4.12.0-3", .v5), arguments: [1, 4])
    func `an answer must be AUTH with 0x18 and the same method`(shards: Int) {
        let wrong = [
            auth(.reauthenticate, "open sesame"), auth(.continueAuthentication, "open sesame", method: "OTHER"),
            auth(.continueAuthentication, "open sesame", method: nil), auth(.success, "open sesame"),
        ]
        let broker = broker(shards: shards)
        for packet in wrong {
            let client = begin(broker)
            client.send(packet)
            #expect(client.connack?.reasonCode == .protocolError)
            #expect(client.connection?.isClosed == true)
        }
    }

    @Test(.statement("MQTT-4.12.0-4", .v5), .statement("MQTT-4.13.2-1", .v5), arguments: [1, 4])
    func `a wrong answer is refused, and the connection closed`(shards: Int) {
        let broker = broker(shards: shards)
        let client = begin(broker)
        client.send(auth(.continueAuthentication, "shut"))
        #expect(client.connack?.reasonCode == .notAuthorized)
        #expect(client.connection?.isClosed == true)
        #expect(broker.statistics().clientsConnected == 0)
    }

    @Test(.statement("MQTT-3.1.2-30", .v5), .statement("MQTT-3.1.4-6", .v5), arguments: [1, 4])
    func `before CONNACK only AUTH and DISCONNECT may come`(shards: Int) {
        let broker = broker(shards: shards)
        let witness = authenticated(broker)
        witness.subscribe("#")
        let packets: [ControlPacket] = [
            .publish(PublishPacket(topic: "t")), .pingreq,
            .subscribe(SubscribePacket(packetIdentifier: 1, subscriptions: [Subscription(filter: "t")])),
        ]
        for packet in packets {
            let client = broker.connected("b") { $0.authenticationMethod = "TWO-STEP" }
            client.send(packet)
            #expect(client.connack?.reasonCode == .protocolError)
            #expect(client.connection?.isClosed == true)
        }
        #expect(witness.messages.isEmpty)
        let client = broker.connected("b") { $0.authenticationMethod = "TWO-STEP" }
        client.send(.disconnect(DisconnectPacket()))
        #expect(client.connection?.isClosed == true)
        #expect(client.connack == nil)
    }

    @Test(.statement("MQTT-4.12.0-6", .v5), .statement("MQTT-4.12.0-7", .v5), arguments: [1, 4])
    func `without a method in CONNECT there is no AUTH on either side`(shards: Int) {
        let broker = broker(shards: shards)
        let client = broker.connected("a")
        #expect(client.packets.map(\.type) == [.connack])
        #expect(client.connack?.properties.authenticationMethod == nil)
        client.send(auth(.reauthenticate, nil))
        #expect(client.ending == .closed(.protocolError))
    }

    @Test(.statement("MQTT-3.15.1-1", .v5)) func `an AUTH with a reserved bit is malformed`() {
        for flags in 1..<UInt8(16) {
            let client = authenticated(broker())
            client.send([0xF0 | flags, 0])
            #expect(client.ending == .closed(.malformedPacket))
        }
    }

    @Test(.statement("MQTT-3.15.2-1", .v5)) func `a client's code that is not in the table is a protocol error`() {
        let broker = broker()
        for code in UInt8.min...UInt8.max where code != 0x19 {
            let client = authenticated(broker)
            client.send(RawPacket.packet(0xF0, [code], RawPacket.block([0x15] + RawPacket.text("TWO-STEP"))))
            #expect(client.ending == .closed(.protocolError), "\(code)")
        }
    }

    @Test(.statement("MQTT-4.12.1-1", .v5), .statement("MQTT-4.12.0-5", .v5), arguments: [1, 4])
    func `a client may prove itself anew while its messages go on`(shards: Int) {
        let broker = broker(shards: shards)
        let client = authenticated(broker)
        client.subscribe("t")
        let count = client.packets.count
        client.send(auth(.reauthenticate, nil))
        client.publish("t", "meanwhile")
        client.send(auth(.continueAuthentication, "open sesame"))
        #expect(
            client.packets.dropFirst(count).map(\.type) == [.auth, .publish, .auth])
        #expect(client.packets.last == proven("welcome"))
        #expect(client.packets[count] == asked("word?"))
        // And again.
        client.send(auth(.reauthenticate, nil))
        #expect(client.packets.last == asked("word?"))
        #expect(client.ping())
    }

    @Test(.statement("MQTT-4.12.1-1", .v5), arguments: [1, 4])
    func `another method, or an answer without a question, is a protocol error`(shards: Int) {
        let broker = broker(shards: shards)
        for packet in [auth(.reauthenticate, nil, method: "OTHER"), auth(.continueAuthentication, "open sesame")] {
            let client = authenticated(broker)
            client.send(packet)
            #expect(client.ending == .closed(.protocolError))
        }
    }

    @Test(.statement("MQTT-4.12.1-2", .v5), .statement("MQTT-3.14.2-1", .v5), arguments: [1, 4], ["shut", "wrong code"])
    func `a failed re-authentication ends the connection with 0x87`(shards: Int, word: String) {
        let client = authenticated(broker(shards: shards))
        client.send(auth(.reauthenticate, nil))
        client.send(auth(.continueAuthentication, word))
        // Of the codes that CONNACK has for it, DISCONNECT has Not authorized alone.
        #expect(client.ending == .closed(.notAuthorized))
    }

    @Test(
        .statement("MQTT-3.15.2-2", .v5), .statement("MQTT-3.15.2-3", .v5), .statement("MQTT-3.1.2-24", .v5),
        .statement("MQTT-3.1.2-29", .v5), arguments: [1, 4])
    func `an explanation makes no AUTH larger than the client takes, and what is too large without one ends the attempt`(
        shards: Int
    ) {
        let broker = broker(shards: shards)
        // Type, length, code, property length, method (3 and 8), data (3 and 5).
        let fitting = begin(broker, limit: 23)
        #expect(fitting.packets == [auth(.continueAuthentication, "word?")])
        #expect(begin(broker).packets == [asked("word?")])
        let silent = broker.connected("b") {
            $0.authenticationMethod = "TWO-STEP"
            $0.requestProblemInformation = false
        }
        #expect(silent.packets == [auth(.continueAuthentication, "word?")])
        let limited = begin(broker, limit: 22)
        #expect(limited.packets.map(\.type) == [.connack])
        #expect(limited.connack?.reasonCode == .packetTooLarge)
        #expect(limited.connection?.isClosed == true)
    }

    @Test(arguments: [1, 4]) func `a client that leaves or dallies is given up`(shards: Int) {
        let broker = broker(shards: shards)
        let leaver = begin(broker)
        leaver.lose()
        let dallier = broker.connected("b") { $0.authenticationMethod = "TWO-STEP" }
        broker.advance(seconds: 31)
        #expect(dallier.connection?.isClosed == true)
        #expect(broker.statistics().clientsConnected == 0)
        #expect(broker.isIdle)
    }
}
