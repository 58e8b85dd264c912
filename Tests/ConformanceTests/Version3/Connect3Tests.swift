import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// CONNECT of MQTT 3.1.1 (section 3.1), but for sessions and wills.
@Suite struct Connect3Tests {
    @Test(.statement("MQTT-3.1.0-1", .v311)) func `anything but CONNECT first ends the connection`() {
        let first = [
            "30 { 't' }", "32 { 't' 0001 }", "40 { 0001 }", "50 { 0001 }", "62 { 0001 }", "70 { 0001 }", "82 { 0001 't' 00 }",
            "A2 { 0001 't' }", "C000", "E000",
        ]
        WireClient.expectEnds(first, isConnected: false)
    }

    @Test(.statement("MQTT-3.1.0-2", .v311), arguments: [1, 4])
    func `a second CONNECT ends the connection and brings its will about`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = WireClient(broker, as: "witness")
        witness.exchange("82 { 0001 'w' 00 }", "90 { 0001 00 }")
        let client = WireClient(broker)
        client.exchange("10 { 'MQTT' 04 06 0000 'a' 'w' 'm' }", "20 { 0000 }")
        client.expectEnd(after: "10 { 'MQTT' 04 02 0000 'a' }")
        witness.expect("30 { 'w' \"m\" }")
    }

    @Test(.statement("MQTT-3.1.2-1", .v311), .statement("MQTT-3.2.2-6", .v311))
    func `another protocol's name ends the connection without CONNACK`() {
        let names = ["'MQTt'", "'mqtt'", "'MQTTT'", "'MQT'", "''", "'HTTP'"]
        WireClient.expectEnds(names.map { "10 { \($0) 04 02 0000 'a' }" }, isConnected: false)
    }

    @Test(.statement("MQTT-3.1.2-2", .v311)) func `an unknown level gets return code 1, then the connection ends`() {
        for level in ["00", "01", "02", "03", "06", "07", "7F"] {
            WireClient.expectEnds(["10 { 'MQTT' \(level) 02 0000 'a' }"], "20 { 0001 }", isConnected: false)
        }
    }

    @Test(.statement("MQTT-3.1.2-3", .v311)) func `the reserved flag of CONNECT must be 0`() {
        WireClient.expectEnds(
            ["10 { 'MQTT' 04 03 0000 'a' }", "10 { 'MQTT' 04 01 0000 'a' }", "10 { 'MQTT' 04 07 0000 'a' 'w' 'm' }"],
            isConnected: false)
    }

    @Test(.statement("MQTT-3.1.2-18", .v311), .statement("MQTT-3.1.2-20", .v311))
    func `a user name or password that no flag announces ends the connection`() {
        WireClient.expectEnds(
            ["10 { 'MQTT' 04 02 0000 'a' 'u' }", "10 { 'MQTT' 04 82 0000 'a' 'u' 'p' }", "10 { 'MQTT' 04 02 0000 'a' 'u' 'p' }"],
            isConnected: false)
    }

    @Test(.statement("MQTT-3.1.2-19", .v311), .statement("MQTT-3.1.2-21", .v311))
    func `a user name or password that is announced must be there`() {
        WireClient.expectEnds(["10 { 'MQTT' 04 82 0000 'a' }", "10 { 'MQTT' 04 C2 0000 'a' 'u' }"], isConnected: false)
    }

    @Test(.statement("MQTT-3.1.2-22", .v311)) func `there is no password without a user name`() {
        WireClient.expectEnds(["10 { 'MQTT' 04 42 0000 'a' 'p' }"], isConnected: false)
    }

    @Test(.statement("MQTT-3.1.2-24", .v311), arguments: [1, 4])
    func `silence of one and a half times Keep Alive ends the connection as if the network had failed`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = WireClient(broker, as: "witness")
        witness.exchange("82 { 0001 'w' 00 }", "90 { 0001 00 }")
        let client = WireClient(broker)
        client.exchange("10 { 'MQTT' 04 06 000A 'a' 'w' 'm' }", "20 { 0000 }")
        broker.advance(milliseconds: 14_900)
        client.exchange("C000", "D000")
        broker.advance(milliseconds: 14_900)
        client.exchange("40 { 0001 }")  // Any packet counts.
        broker.advance(milliseconds: 14_900)
        witness.expect("")
        #expect(!client.connection.isClosed)
        broker.advance(milliseconds: 2_100)
        #expect(client.connection.isClosed)
        witness.expect("30 { 'w' \"m\" }")
    }

    @Test(arguments: [1, 4]) func `a Keep Alive of 0 lets a client be silent for ever`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = WireClient(broker, as: "a")
        broker.advance(seconds: 1_000_000)
        client.exchange("C000", "D000")
    }

    @Test(.statement("MQTT-3.1.3-1", .v311), arguments: [1, 4])
    func `the payload's fields are read in the standard's order`(shards: Int) {
        let broker = SimulatedBroker(
            shards: shards, settings: SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true })
        var login: [EncodedString?] = []
        broker.authenticate = { request in
            if case .password(let userName, let password) = request.step {
                login = [request.clientIdentifier, userName, password.flatMap { EncodedString($0) }]
            }
            return .accepted(userName: nil, data: nil)
        }
        let client = WireClient(broker)
        client.exchange("10 { 'MQTT' 04 C6 0000 'identifier' 'topic' 'message' 'user' 'password' }", "20 { 0000 }")
        #expect(login == ["identifier", "user", "password"])
        let witness = WireClient(broker)
        witness.exchange("10 { 'MQTT' 04 C2 0000 'witness' 'user' 'password' }", "20 { 0000 }")
        witness.exchange("82 { 0001 '#' 00 }", "90 { 0001 00 }")
        client.lose()
        witness.expect("30 { 'topic' \"message\" }")
    }

    @Test(.statement("MQTT-3.1.3-3", .v311), .statement("MQTT-3.1.4-1", .v311))
    func `a CONNECT that is not what section 3_1 says gets no CONNACK`() {
        WireClient.expectEnds(
            [
                "1000", "10 { 'MQTT' }", "10 { 'MQTT' 04 }", "10 { 'MQTT' 04 02 }", "10 { 'MQTT' 04 02 0000 }",
                "10 { 'MQTT' 04 02 0000 00 }", "10 { 'MQTT' 04 02 0000 0002 \"a\" }", "10 { 'MQTT' 04 02 0000 'a' 00 }",
            ], isConnected: false)
    }

    @Test(.statement("MQTT-3.1.3-4", .v311), .statement("MQTT-3.1.3-10", .v311), .statement("MQTT-3.1.3-11", .v311))
    func `identifier, Will Topic and user name must be UTF-8`() {
        for text in ["80", "C0AF", "EDA080", "F8", "00"] {
            WireClient.expectEnds(
                [
                    "10 { 'MQTT' 04 02 0000 ( \(text) ) }", "10 { 'MQTT' 04 06 0000 'a' ( \(text) ) 'm' }",
                    "10 { 'MQTT' 04 82 0000 'a' ( \(text) ) }",
                ], isConnected: false)
        }
    }

    @Test(.statement("MQTT-3.1.3-5", .v311), arguments: [1, 4])
    func `identifiers of 1 to 23 letters and digits are taken`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let alphabet = Array("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        for start in alphabet.indices {
            let length = 1 + start % 23
            let identifier = String((start..<start + length).map { alphabet[$0 % alphabet.count] })
            WireClient(broker, as: identifier).lose()
        }
    }

    @Test(.statement("MQTT-3.1.3-6", .v311), arguments: [1, 4])
    func `clients without an identifier get one each, and do not disturb each other`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let clients = (0..<10).map { _ in WireClient(broker, as: "") }
        for client in clients { client.exchange("82 { 0001 't' 00 }", "90 { 0001 00 }") }
        WireClient(broker, as: "publisher").exchange("30 { 't' \"m\" }")
        for client in clients { client.expect("30 { 't' \"m\" }") }
    }

    @Test(.statement("MQTT-3.1.3-7", .v311), .statement("MQTT-3.1.3-9", .v311), .statement("MQTT-3.2.2-5", .v311))
    func `an identifier that is refused gets return code 2, then the connection ends`() {
        WireClient.expectEnds(["10 { 'MQTT' 04 00 0000 '' }"], "20 { 0002 }", isConnected: false)
        let broker = SimulatedBroker(settings: SimulatedBroker.testSettings { $0.listeners[0].allowsEmptyClientIdentifier = false })
        WireClient(broker).expectEnd(after: "10 { 'MQTT' 04 02 0000 '' }", "20 { 0002 }")
    }

    @Test(.statement("MQTT-3.1.4-5", .v311), arguments: [1, 4])
    func `what follows a CONNECT that is refused is not processed`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = WireClient(broker, as: "witness")
        witness.exchange("82 { 0001 '#' 00 }", "90 { 0001 00 }")
        let refused = "30 { 't' \"m\" } 31 { 'r' \"m\" }"
        WireClient(broker).expectEnd(after: "10 { 'MQTT' 04 00 0000 '' } \(refused)", "20 { 0002 }")
        WireClient(broker).expectEnd(after: "10 { 'MQTT' 09 02 0000 'a' } \(refused)", "20 { 0001 }")
        WireClient(broker).expectEnd(after: "10 { 'MQTT' 04 03 0000 'a' } \(refused)")
        witness.expect("")
    }

    @Test(arguments: [1, 4]) func `a login that is refused gets return code 4 or 5, and nothing it sent is processed`(shards: Int) {
        let settings = SimulatedBroker.testSettings {
            $0.listeners[0].checksPasswords = true
            $0.listeners[0].allowsAnonymous = false
        }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { _ in .refused(.badUserNameOrPassword) }
        WireClient(broker).expectEnd(after: "10 { 'MQTT' 04 C2 0000 'a' 'u' 'p' } C000", "20 { 0004 }")
        broker.authenticate = { _ in .refused(.notAuthorized) }
        WireClient(broker).expectEnd(after: "10 { 'MQTT' 04 C2 0000 'a' 'u' 'p' } C000", "20 { 0005 }")
    }
}
