import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Sessions and CONNACK of MQTT 3.1.1 (sections 3.1.2.4, 3.1.4 and 3.2).
@Suite struct Session3Tests {
    @Test(
        .statement("MQTT-3.1.2-4", .v311), .statement("MQTT-3.2.2-2", .v311), .statement("MQTT-3.2.2-3", .v311), arguments: [1, 4])
    func `without Clean Session a session is made, kept and resumed, and CONNACK says which`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let first = WireClient(broker, as: "a", clean: false)
        first.exchange("82 { 0001 't' 00 }", "90 { 0001 00 }")
        first.expectEnd(after: "E000")
        broker.advance(seconds: 1_000_000)
        let second = WireClient(broker, as: "a", clean: false, isPresent: true)
        second.exchange("30 { 't' \"m\" }", "30 { 't' \"m\" }")
        second.lose()
        WireClient(broker, as: "a", clean: false, isPresent: true).lose()
        WireClient(broker, as: "b", clean: false).lose()
    }

    @Test(.statement("MQTT-3.1.2-5", .v311), arguments: [1, 4])
    func `QoS 1 and 2 messages wait for a client that is away`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = WireClient(broker, as: "a", clean: false)
        subscriber.exchange("82 { 0001 't' 02 }", "90 { 0001 02 }")
        subscriber.lose()
        let publisher = WireClient(broker, as: "publisher")
        publisher.exchange("30 { 't' \"0\" } 32 { 't' 0001 \"1\" }", "40 { 0001 }")
        publisher.exchange("34 { 't' 0002 \"2\" }", "50 { 0002 }")
        publisher.exchange("62 { 0002 }", "70 { 0002 }")
        WireClient(broker, as: "a", clean: false, isPresent: true).expect("32 { 't' 0001 \"1\" } 34 { 't' 0002 \"2\" }")
    }

    @Test(
        .statement("MQTT-3.1.2-6", .v311), .statement("MQTT-3.1.4-3", .v311), .statement("MQTT-3.2.2-1", .v311), arguments: [1, 4])
    func `Clean Session discards what was, and leaves nothing`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = WireClient(broker, as: "publisher")
        let first = WireClient(broker, as: "a", clean: false)
        first.exchange("82 { 0001 't' 02 }", "90 { 0001 02 }")
        first.exchange("34 { 'x' 0007 }", "50 { 0007 }")
        first.lose()
        publisher.exchange("32 { 't' 0001 \"1\" }", "40 { 0001 }")
        let second = WireClient(broker, as: "a", clean: true, isPresent: false)
        second.expect("")
        publisher.exchange("32 { 't' 0001 \"2\" }", "40 { 0001 }")
        second.expect("")
        second.exchange("82 { 0001 'u' 01 }", "90 { 0001 01 }")
        second.expectEnd(after: "E000")
        let third = WireClient(broker, as: "a", clean: false, isPresent: false)
        publisher.exchange("32 { 'u' 0001 \"3\" }", "40 { 0001 }")
        third.expect("")
    }

    @Test(.statement("MQTT-3.1.2-7", .v311), arguments: [1, 4])
    func `a retained message outlives the session of its publisher`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = WireClient(broker, as: "publisher")
        publisher.exchange("33 { 't' 0001 \"kept\" }", "40 { 0001 }")
        publisher.expectEnd(after: "E000")
        WireClient(broker, as: "publisher").expectEnd(after: "E000")
        let reader = WireClient(broker, as: "reader")
        reader.exchange("82 { 0001 't' 00 }", "90 { 0001 00 } 31 { 't' \"kept\" }")
    }

    @Test(.statement("MQTT-3.1.3-2", .v311), arguments: [1, 4])
    func `the identifier, byte for byte, tells whose session it is`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let identifiers = ["a", "A", "a/", "ab", "\u{E9}", "e\u{301}"]
        for (number, identifier) in identifiers.enumerated() {
            let client = WireClient(broker, as: identifier, clean: false)
            client.exchange("82 { 0001 '\(number)' 00 }", "90 { 0001 00 }")
            client.lose()
        }
        for (number, identifier) in identifiers.enumerated() {
            let client = WireClient(broker, as: identifier, clean: false, isPresent: true)
            for topic in identifiers.indices {
                client.exchange("30 { '\(topic)' \"m\" }", topic == number ? "30 { '\(topic)' \"m\" }" : "")
            }
            client.lose()
        }
    }

    @Test(.statement("MQTT-3.2.0-1", .v311), arguments: [1, 4])
    func `CONNACK is the first packet, before what waited for the client`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = WireClient(broker, as: "a", clean: false)
        subscriber.exchange("82 { 0001 't' 01 }", "90 { 0001 01 }")
        subscriber.lose()
        WireClient(broker, as: "publisher").exchange("32 { 't' 0001 \"m\" }", "40 { 0001 }")
        let again = WireClient(broker)
        again.exchange("10 { 'MQTT' 04 00 0000 'a' } C000", "20 { 0100 } 32 { 't' 0001 \"m\" } D000")
    }

    @Test(.statement("MQTT-3.2.2-4", .v311), arguments: [1, 4])
    func `a CONNECT that is refused never hears of a session`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.listeners[0].checksPasswords = true }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { _ in .accepted(userName: nil, data: nil) }
        WireClient(broker, as: "a", clean: false).lose()
        broker.authenticate = { _ in .refused(.badUserNameOrPassword) }
        WireClient(broker).expectEnd(after: "10 { 'MQTT' 04 C0 0000 'a' 'u' 'p' }", "20 { 0004 }")
        WireClient(broker).expectEnd(after: "10 { 'MQTT' 09 00 0000 'a' }", "20 { 0001 }")
    }

    @Test(.statement("MQTT-4.5.0-1", .v311), arguments: [1, 4])
    func `a message joins the session of each client that subscribes, here or away`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let clients = (0..<8).map { WireClient(broker, as: "c\($0)", clean: false) }
        for client in clients { client.exchange("82 { 0001 't/+' 01 }", "90 { 0001 01 }") }
        for client in clients.prefix(4) { client.lose() }
        WireClient(broker, as: "publisher").exchange("32 { 't/1' 0001 \"m\" }", "40 { 0001 }")
        for client in clients.suffix(4) { client.expect("32 { 't/1' 0001 \"m\" }") }
        for number in 0..<4 {
            WireClient(broker, as: "c\(number)", clean: false, isPresent: true).expect("32 { 't/1' 0001 \"m\" }")
        }
    }
}
