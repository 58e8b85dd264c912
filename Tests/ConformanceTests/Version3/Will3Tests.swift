import MQTTCodec
import MartletTestKit
import Testing

/// Will Messages of MQTT 3.1.1 (sections 3.1.2.5 to 3.1.2.7 and 3.14).
@Suite struct Will3Tests {
    /// A broker, a witness of all topics, and a client with this will.
    private static func pair(
        _ shards: Int, flags: String, will: String = "'w' 'm'"
    ) -> (broker: SimulatedBroker, witness: WireClient, client: WireClient) {
        let broker = SimulatedBroker(shards: shards)
        let witness = WireClient(broker, as: "witness")
        witness.exchange("82 { 0001 '#' 02 }", "90 { 0001 02 }")
        let client = WireClient(broker)
        client.exchange("10 { 'MQTT' 04 \(flags) 0000 'a' \(will) }", "20 { 0000 }")
        return (broker, witness, client)
    }

    @Test(.statement("MQTT-3.1.2-8", .v311), arguments: [1, 4])
    func `the will is published when the connection fails, with its QoS`(shards: Int) {
        for (flags, publish) in [("06", "30 { 'w' \"m\" }"), ("0E", "32 { 'w' 0001 \"m\" }"), ("16", "34 { 'w' 0001 \"m\" }")] {
            let (_, witness, client) = Self.pair(shards, flags: flags)
            witness.expect("")
            client.lose()
            witness.expect(publish)
        }
    }

    @Test(.statement("MQTT-4.8.0-1", .v311), arguments: [1, 4])
    func `a protocol error ends the connection and brings the will about`(shards: Int) {
        for wrong in ["0000", "36 { 't' 0001 }", "20 { 0000 }", "82 { 0001 }", "30 { '#' }", "F000"] {
            let (_, witness, client) = Self.pair(shards, flags: "06")
            client.expectEnd(after: wrong)
            witness.expect("30 { 'w' \"m\" }")
        }
    }

    @Test(arguments: [1, 4]) func `a takeover brings the will of the old connection about`(shards: Int) {
        let (broker, witness, client) = Self.pair(shards, flags: "06")
        _ = WireClient(broker, as: "a")
        #expect(client.connection.isClosed)
        witness.expect("30 { 'w' \"m\" }")
    }

    @Test(.statement("MQTT-3.1.2-9", .v311)) func `a will that is announced must be there`() {
        WireClient.expectEnds(["10 { 'MQTT' 04 06 0000 'a' }", "10 { 'MQTT' 04 06 0000 'a' 'w' }"], isConnected: false)
    }

    @Test(.statement("MQTT-3.1.2-10", .v311), arguments: [1, 4])
    func `a will is published once, and gone with its connection`(shards: Int) {
        let (broker, witness, client) = Self.pair(shards, flags: "04")
        client.lose()
        witness.expect("30 { 'w' \"m\" }")
        let again = WireClient(broker, as: "a", clean: false, isPresent: true)
        again.lose()
        witness.expect("")
        broker.advance(seconds: 100_000)
        witness.expect("")
    }

    @Test(.statement("MQTT-3.14.4-2", .v311), arguments: [1, 4]) func `DISCONNECT discards the will`(shards: Int) {
        let (broker, witness, client) = Self.pair(shards, flags: "04")
        client.expectEnd(after: "E000")
        broker.advance(seconds: 100_000)
        witness.expect("")
    }

    @Test(.statement("MQTT-3.14.4-1", .v311), arguments: [1, 4]) func `what follows DISCONNECT is not processed`(shards: Int) {
        let (_, witness, client) = Self.pair(shards, flags: "06")
        client.expectEnd(after: "E000 30 { 't' \"late\" } C000")
        witness.expect("")
    }

    @Test(.statement("MQTT-3.1.2-11", .v311), .statement("MQTT-3.1.2-13", .v311), .statement("MQTT-3.1.2-15", .v311))
    func `without the Will Flag there is no Will QoS, Will Retain, topic or message`() {
        let flags = ["0A", "12", "1A", "22", "2A", "32"]
        WireClient.expectEnds(flags.map { "10 { 'MQTT' 04 \($0) 0000 'a' }" }, isConnected: false)
        WireClient.expectEnds(["10 { 'MQTT' 04 02 0000 'a' 'w' 'm' }"], isConnected: false)
    }

    @Test(.statement("MQTT-3.1.2-12", .v311), arguments: [1, 4]) func `without the Will Flag nothing is published`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = WireClient(broker, as: "witness")
        witness.exchange("82 { 0001 '#' 02 }", "90 { 0001 02 }")
        WireClient(broker, as: "a").lose()
        witness.expect("")
    }

    @Test(.statement("MQTT-3.1.2-14", .v311)) func `Will QoS is not 3`() {
        WireClient.expectEnds(
            ["10 { 'MQTT' 04 1E 0000 'a' 'w' 'm' }", "10 { 'MQTT' 04 3E 0000 'a' 'w' 'm' }"], isConnected: false)
    }

    @Test(.statement("MQTT-3.1.2-16", .v311), .statement("MQTT-3.1.2-17", .v311), arguments: [1, 4])
    func `Will Retain says whether the will is retained`(shards: Int) {
        for (flags, retained) in [("06", ""), ("26", "31 { 'w' \"m\" }")] {
            let (broker, witness, client) = Self.pair(shards, flags: flags)
            client.lose()
            witness.expect("30 { 'w' \"m\" }")  // To an established subscription RETAIN is 0.
            WireClient(broker, as: "late").exchange("82 { 0001 'w' 00 }", "90 { 0001 00 } \(retained)")
        }
    }

    @Test(arguments: [1, 4]) func `an empty will that is retained clears the topic`(shards: Int) {
        let (broker, witness, client) = Self.pair(shards, flags: "26", will: "'w' ''")
        witness.exchange("31 { 'w' \"old\" }", "30 { 'w' \"old\" }")
        client.lose()
        witness.expect("30 { 'w' }")
        WireClient(broker, as: "late").exchange("82 { 0001 'w' 00 }", "90 { 0001 00 }")
    }
}
