import MQTTCodec
import MartletTestKit
import Testing

/// PUBLISH of MQTT 3.1.1 (section 3.3), and what follows it.
@Suite struct Publish3Tests {
    @Test(.statement("MQTT-3.3.1-1", .v311), arguments: [1, 4])
    func `what is delivered again has DUP, at the first delivery it has not`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let first = WireClient(broker, as: "a", clean: false)
        first.exchange("82 { 0001 't' 02 }", "90 { 0001 02 }")
        first.exchange("32 { 't' 0001 \"1\" }", "32 { 't' 0001 \"1\" } 40 { 0001 }")
        first.exchange("34 { 't' 0002 \"2\" }", "50 { 0002 } 34 { 't' 0002 \"2\" }")
        first.lose()
        let second = WireClient(broker, as: "a", clean: false, isPresent: true)
        second.expect("3A { 't' 0001 \"1\" } 3C { 't' 0002 \"2\" }")
    }

    @Test(.statement("MQTT-3.3.1-3", .v311), arguments: [1, 4]) func `a publisher's DUP does not travel on`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = WireClient(broker, as: "a")
        subscriber.exchange("82 { 0001 't' 02 }", "90 { 0001 02 }")
        let publisher = WireClient(broker, as: "publisher")
        publisher.exchange("3A { 't' 0001 \"1\" } 3C { 't' 0002 \"2\" }", "40 { 0001 } 50 { 0002 }")
        subscriber.expect("32 { 't' 0001 \"1\" } 34 { 't' 0002 \"2\" }")
    }

    @Test(.statement("MQTT-3.3.1-4", .v311)) func `a QoS of 3 ends the connection`() {
        WireClient.expectEnds(["36 { 't' 0001 }", "37 { 't' 0001 }", "3E { 't' 0001 }", "3F { 't' 0001 }"])
    }

    @Test(
        .statement("MQTT-3.3.1-5", .v311), .statement("MQTT-3.3.1-6", .v311), .statement("MQTT-3.3.1-8", .v311), arguments: [1, 4])
    func `a retained message is kept with its QoS and sent with RETAIN to each new subscription`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let publisher = WireClient(broker, as: "publisher")
        publisher.exchange("31 { 't/0' \"0\" } 33 { 't/1' 0001 \"1\" }", "40 { 0001 }")
        publisher.exchange("35 { 't/2' 0002 \"2\" }", "50 { 0002 }")
        publisher.exchange("33 { 't/1' 0003 \"new\" }", "40 { 0003 }")
        let reader = WireClient(broker, as: "reader")
        reader.exchange("82 { 0001 't/0' 02 }", "90 { 0001 02 } 31 { 't/0' \"0\" }")
        reader.exchange("82 { 0002 't/1' 02 }", "90 { 0002 02 } 33 { 't/1' 0001 \"new\" }")
        reader.exchange("82 { 0003 't/2' 02 }", "90 { 0003 02 } 35 { 't/2' 0002 \"2\" }")
        reader.exchange("82 { 0004 '+/2' 01 }", "90 { 0004 01 } 33 { 't/2' 0003 \"2\" }")
        reader.exchange("82 { 0005 't/3' 02 }", "90 { 0005 02 }")
    }

    @Test(.statement("MQTT-3.3.1-7", .v311), arguments: [1, 4])
    func `a retained QoS 0 message takes the place of what was retained`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("33 { 't' 0001 \"old\" } 31 { 't' \"new\" }", "40 { 0001 }")
        client.exchange("82 { 0001 't' 01 }", "90 { 0001 01 } 31 { 't' \"new\" }")
    }

    @Test(.statement("MQTT-3.3.1-9", .v311), arguments: [1, 4])
    func `an established subscription gets a retained message without RETAIN`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("82 { 0001 't' 01 }", "90 { 0001 01 }")
        client.exchange("31 { 't' \"0\" }", "30 { 't' \"0\" }")
        client.exchange("33 { 't' 0001 \"1\" }", "32 { 't' 0001 \"1\" } 40 { 0001 }")
    }

    @Test(.statement("MQTT-3.3.1-10", .v311), .statement("MQTT-3.3.1-11", .v311), arguments: [1, 4])
    func `an empty retained message removes what was retained, is delivered, and is not kept`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = WireClient(broker, as: "a")
        client.exchange("31 { 't' \"old\" }")
        client.exchange("82 { 0001 't' 00 }", "90 { 0001 00 } 31 { 't' \"old\" }")
        client.exchange("31 { 't' }", "30 { 't' }")
        WireClient(broker, as: "late").exchange("82 { 0001 '#' 00 }", "90 { 0001 00 }")
    }

    @Test(.statement("MQTT-3.3.1-12", .v311), arguments: [1, 4])
    func `a message without RETAIN leaves what is retained alone`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("31 { 't' \"kept\" } 30 { 't' \"passing\" } 30 { 't' } 30 { 'u' \"passing\" }")
        client.exchange("82 { 0001 '#' 00 }", "90 { 0001 00 } 31 { 't' \"kept\" }")
    }

    @Test(.statement("MQTT-3.3.2-1", .v311)) func `a PUBLISH without a whole topic in UTF-8 ends the connection`() {
        WireClient.expectEnds(["3000", "30 { 00 }", "30 { 0002 \"t\" }", "30 { ( FF ) }", "32 { ( C3 ) 0001 }"])
    }

    @Test(
        .statement("MQTT-3.3.2-2", .v311), .statement("MQTT-4.7.3-1", .v311), .statement("MQTT-4.7.3-2", .v311),
        arguments: ["#", "+", "a/#", "a/+/b", "a+", "b#c"])
    func `a wildcard in a topic ends the connection`(topic: String) {
        WireClient.expectEnds(["30 { '\(topic)' }", "32 { '\(topic)' 0001 }", "34 { '\(topic)' 0001 }"])
    }

    @Test(.statement("MQTT-3.3.2-3", .v311), arguments: [1, 4])
    func `a subscriber gets the topics that its filter matches, and no others`(shards: Int) {
        let topics = ["a", "a/b", "a/b/c", "b/b", "/a", "A/b", "a/"]
        let matches = [
            "a/+": ["a/b", "a/"], "a/#": ["a", "a/b", "a/b/c", "a/"], "+/b": ["a/b", "b/b", "A/b"], "a/b": ["a/b"],
            "+": ["a"], "+/+": ["a/b", "b/b", "/a", "A/b", "a/"], "#": topics, "/+": ["/a"],
        ]
        for (filter, expected) in matches {
            let client = WireClient(SimulatedBroker(shards: shards), as: "a")
            client.exchange("82 { 0001 '\(filter)' 00 }", "90 { 0001 00 }")
            for topic in topics {
                client.exchange("30 { '\(topic)' }", expected.contains(topic) ? "30 { '\(topic)' }" : "")
            }
        }
    }

    @Test(.statement("MQTT-3.3.4-1", .v311), arguments: [1, 4])
    func `QoS 0 gets no answer, QoS 1 PUBACK, QoS 2 PUBREC and PUBCOMP`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("30 { 't' }")
        client.exchange("32 { 't' 0005 }", "40 { 0005 }")
        client.exchange("34 { 't' 0006 }", "50 { 0006 }")
        client.exchange("62 { 0006 }", "70 { 0006 }")
        client.exchange("62 { 0006 }", "70 { 0006 }")
    }

    @Test(.statement("MQTT-3.3.5-1", .v311), arguments: [1, 4])
    func `where subscriptions overlap, the greatest of their QoS holds`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("82 { 0001 'a/+' 00 'a/#' 01 'a/b' 00 }", "90 { 0001 000100 }")
        client.exchange("34 { 'a/b' 0005 \"m\" }", "50 { 0005 } 32 { 'a/b' 0001 \"m\" }")
        client.exchange("82 { 0002 '+/b' 02 }", "90 { 0002 02 }")
        client.exchange("34 { 'a/b' 0006 \"n\" }", "50 { 0006 } 34 { 'a/b' 0002 \"n\" }")
        client.exchange("30 { 'a/b' \"o\" }", "30 { 'a/b' \"o\" }")
    }

    @Test(.statement("MQTT-3.3.5-2", .v311), arguments: [1, 4])
    func `a publication that is not allowed is acknowledged as if it were, and goes nowhere`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("82 { 0001 '$SYS/#' 02 }", "90 { 0001 02 }")
        client.exchange("31 { '$SYS/broker/version' \"x\" }")
        client.exchange("33 { '$SYS/broker/version' 0001 \"x\" }", "40 { 0001 }")
        client.exchange("35 { '$SYS/broker/version' 0002 \"x\" }", "50 { 0002 }")
        client.exchange("62 { 0002 }", "70 { 0002 }")
        client.exchange("82 { 0003 '$SYS/broker/version' 00 }", "90 { 0003 00 }")
    }

    @Test(.statement("MQTT-4.6.0-5", .v311), .statement("MQTT-4.6.0-6", .v311), arguments: [1, 4], ["30", "32", "34"])
    func `messages arrive in the order in which they were published`(shards: Int, first: String) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.connected("subscriber", version: .v311)
        subscriber.subscribe("t/#")
        let publisher = WireClient(broker, as: "publisher")
        let numbers = 10..<80
        for number in numbers {
            let identifier = first == "30" ? "" : "00\(Frame.hexadecimal(UInt8(number)))"
            publisher.connection.send(Frame("\(first) { 't/\(number % 3)' \(identifier) \"\(number)\" }", .v311).bytes)
        }
        broker.settle()
        #expect(subscriber.texts == numbers.map(String.init))
    }
}
