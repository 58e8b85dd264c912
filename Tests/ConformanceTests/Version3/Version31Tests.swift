import MQTTCodec
import MartletTestKit
import Testing

/// What MQTT 3.1, which has no statements with ids, does in another way than 3.1.1.
@Suite struct Version31Tests {
    @Test func `its name is MQIsdp and its level 3`() {
        let broker = SimulatedBroker()
        WireClient(broker, .v31).exchange("10 { 'MQIsdp' 03 02 0000 'a' }", "20 { 0000 }")
        WireClient(broker, .v31).expectEnd(after: "10 { 'MQIsdp' 04 02 0000 'a' }", "20 { 0001 }")
        WireClient(broker, .v31).expectEnd(after: "10 { 'MQTT' 03 02 0000 'a' }", "20 { 0001 }")
        WireClient(broker, .v31).expectEnd(after: "10 { 'MQISDP' 03 02 0000 'a' }")
    }

    @Test func `an empty identifier gets return code 2, also with Clean Session`() {
        WireClient.expectEnds(
            ["10 { 'MQIsdp' 03 02 0000 '' }", "10 { 'MQIsdp' 03 00 0000 '' }"], "20 { 0002 }", isConnected: false, .v31)
    }

    @Test(arguments: [1, 4]) func `identifiers of 1 to 23 characters are taken, and longer ones as mosquitto does`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        for count in [1, 2, 22, 23, 24, 100] { WireClient(broker, as: String(repeating: "x", count: count), .v31).lose() }
    }

    @Test(arguments: [1, 4]) func `CONNACK does not say that a session is present, and yet it is`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let first = WireClient(broker, as: "a", .v31, clean: false)
        first.exchange("82 { 0001 't' 01 }", "90 { 0001 01 }")
        first.lose()
        WireClient(broker, as: "publisher").exchange("32 { 't' 0001 \"m\" }", "40 { 0001 }")
        let second = WireClient(broker, as: "a", .v31, clean: false, isPresent: false)
        second.expect("32 { 't' 0001 \"m\" }")
    }

    @Test(arguments: [1, 4]) func `SUBSCRIBE, UNSUBSCRIBE and PUBREL may be repeated with DUP`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a", .v31)
        client.exchange("82 { 0001 't' 01 }", "90 { 0001 01 }")
        client.exchange("8A { 0001 't' 01 }", "90 { 0001 01 }")
        client.exchange("34 { 'u' 0002 }", "50 { 0002 }")
        client.exchange("3C { 'u' 0002 }", "50 { 0002 }")
        client.exchange("62 { 0002 }", "70 { 0002 }")
        client.exchange("6A { 0002 }", "70 { 0002 }")
        client.exchange("A2 { 0003 't' }", "B0 { 0003 }")
        client.exchange("AA { 0003 't' }", "B0 { 0003 }")
    }

    @Test func `the flags of other packets are not used`() {
        let client = WireClient(SimulatedBroker(), as: "a", .v31)
        for flags in 0...15 {
            let digit = Frame.hexadecimal(UInt8(flags)).suffix(1)
            client.exchange("C\(digit) 00", "D000")
            client.exchange("4\(digit) { 0001 }")
        }
        client.expectEnd(after: "EF00")
    }

    @Test func `the reserved bit of CONNECT's flags is not used`() {
        WireClient(SimulatedBroker(), .v31).exchange("10 { 'MQIsdp' 03 03 0000 'a' }", "20 { 0000 }")
    }

    @Test func `an announced user name or password may be missing`() {
        let broker = SimulatedBroker()
        WireClient(broker, .v31).exchange("10 { 'MQIsdp' 03 82 0000 'a' }", "20 { 0000 }")
        WireClient(broker, .v31).exchange("10 { 'MQIsdp' 03 C2 0000 'b' }", "20 { 0000 }")
        WireClient(broker, .v31).exchange("10 { 'MQIsdp' 03 C2 0000 'c' 'u' }", "20 { 0000 }")
        WireClient(broker, .v31).expectEnd(after: "10 { 'MQIsdp' 03 42 0000 'd' 'p' }")
    }

    @Test(arguments: [1, 4]) func `a QoS 0 message may have DUP, which does not travel on`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a", .v31)
        client.exchange("82 { 0001 't' 00 }", "90 { 0001 00 }")
        client.exchange("38 { 't' \"m\" }", "30 { 't' \"m\" }")
    }

    @Test(arguments: [1, 4]) func `its wills, retained messages and QoS are those of 3_1_1`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let witness = WireClient(broker, as: "witness", .v31)
        witness.exchange("82 { 0001 '#' 02 }", "90 { 0001 02 }")
        let client = WireClient(broker, .v31)
        client.exchange("10 { 'MQIsdp' 03 36 0000 'a' 'w' 'm' }", "20 { 0000 }")
        client.exchange("33 { 't' 0001 \"kept\" }", "40 { 0001 }")
        witness.expect("32 { 't' 0001 \"kept\" }")
        client.lose()
        witness.expect("34 { 'w' 0002 \"m\" }")
        WireClient(broker, as: "late", .v31).exchange(
            "82 { 0001 't' 01 'w' 00 }", "90 { 0001 0100 } 33 { 't' 0001 \"kept\" } 31 { 'w' \"m\" }")
    }
}
