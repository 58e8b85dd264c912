import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// SUBSCRIBE, UNSUBSCRIBE and PINGREQ of MQTT 3.1.1 (sections 3.8 to 3.12).
@Suite struct Subscribe3Tests {
    @Test(.statement("MQTT-3.8.3-1", .v311), .statement("MQTT-3.10.3-1", .v311))
    func `a filter that is not UTF-8 ends the connection`() {
        for text in ["80", "C0AF", "EDA080", "F8", "00"] {
            WireClient.expectEnds(["82 { 0001 ( \(text) ) 00 }", "A2 { 0001 ( \(text) ) }", "82 { 0001 't' 00 ( \(text) ) 00 }"])
        }
    }

    @Test(.statement("MQTT-3.8.3-2", .v311), arguments: [1, 4])
    func `filters with wildcards are rejected where they are switched off`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.wildcardSubscriptionAvailable = false }
        let client = WireClient(SimulatedBroker(shards: shards, settings: settings), as: "a")
        client.exchange("82 { 0001 'a/+' 00 '#' 01 'a' 02 }", "90 { 0001 808002 }")
        client.exchange("30 { 'a/b' } 30 { 'a' }", "30 { 'a' }")
    }

    @Test(.statement("MQTT-3.8.3-3", .v311)) func `a SUBSCRIBE to nothing ends the connection`() {
        WireClient.expectEnds(["82 { 0001 }"])
    }

    @Test(.statement("MQTT-3.8.3-4", .v311)) func `a QoS of 3 or a reserved bit behind a filter ends the connection`() {
        WireClient.expectEnds((3...255).map { "82 { 0001 't' \(Frame.hexadecimal(UInt8($0))) }" })
    }

    @Test(.statement("MQTT-3.8.4-3", .v311), arguments: [1, 4])
    func `subscribing again replaces the subscription and sends what is retained again`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("31 { 't' \"kept\" }")
        client.exchange("82 { 0001 't' 02 }", "90 { 0001 02 } 31 { 't' \"kept\" }")
        client.exchange("82 { 0002 't' 00 }", "90 { 0002 00 } 31 { 't' \"kept\" }")
        client.exchange("34 { 't' 0001 \"m\" }", "50 { 0001 } 30 { 't' \"m\" }")  // Once, and with the new QoS.
        client.exchange("A2 { 0003 't' }", "B0 { 0003 }")
        client.exchange("30 { 't' \"n\" }")
    }

    @Test(arguments: [1, 4]) func `subscribing again does not interrupt what is in flight`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("82 { 0001 't' 02 }", "90 { 0001 02 }")
        client.exchange("34 { 't' 0005 \"m\" }", "50 { 0005 } 34 { 't' 0001 \"m\" }")
        client.exchange("82 { 0002 't' 01 }", "90 { 0002 01 }")
        client.exchange("50 { 0001 }", "62 { 0001 }")
        client.exchange("70 { 0001 }")
        client.exchange("34 { 't' 0006 \"n\" }", "50 { 0006 } 32 { 't' 0002 \"n\" }")
    }

    @Test(.statement("MQTT-3.8.4-4", .v311), .statement("MQTT-3.8.4-5", .v311), arguments: [1, 4])
    func `several filters in one SUBSCRIBE are several subscriptions, with a return code each`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("82 { 0001 'a' 00 'b' 01 'c' 02 'a' 02 }", "90 { 0001 00010202 }")
        client.exchange("32 { 'a' 0005 }", "32 { 'a' 0001 } 40 { 0005 }")
        client.exchange("34 { 'b' 0006 }", "50 { 0006 } 32 { 'b' 0002 }")
        client.exchange("34 { 'c' 0007 }", "50 { 0007 } 34 { 'c' 0003 }")
    }

    @Test(arguments: [1, 4]) func `a filter that is rejected gets 80, and the others hold`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.subscriptionsPerClientMax = 1 }
        let client = WireClient(SimulatedBroker(shards: shards, settings: settings), as: "a")
        client.exchange("82 { 0001 'a' 00 'b' 01 }", "90 { 0001 0080 }")
        client.exchange("30 { 'a' } 30 { 'b' }", "30 { 'a' }")
    }

    @Test(.statement("MQTT-3.10.3-2", .v311)) func `an UNSUBSCRIBE from nothing ends the connection`() {
        WireClient.expectEnds(["A2 { 0001 }"])
    }

    @Test(.statement("MQTT-3.10.4-2", .v311), arguments: [1, 4])
    func `UNSUBACK comes also when there was nothing to unsubscribe from`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("A2 { 0001 'never' }", "B0 { 0001 }")
        client.exchange("A2 { 0002 'never' 'ever/#' }", "B0 { 0002 }")
    }

    @Test(.statement("MQTT-3.10.4-3", .v311), arguments: [1, 4])
    func `several filters in one UNSUBSCRIBE are all unsubscribed from`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("82 { 0001 'a' 00 'b' 00 'c' 00 }", "90 { 0001 000000 }")
        client.exchange("A2 { 0002 'a' 'never' 'c' }", "B0 { 0002 }")
        client.exchange("30 { 'a' } 30 { 'b' } 30 { 'c' }", "30 { 'b' }")
    }

    @Test(.statement("MQTT-3.10.4-4", .v311), arguments: [1, 4])
    func `filters are compared character by character`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("82 { 0001 'a/+' 00 }", "90 { 0001 00 }")
        client.exchange("A2 { 0002 'a/b' 'a/#' 'A/+' '+/+' '#' 'a/+/' '/a/+' }", "B0 { 0002 }")
        client.exchange("30 { 'a/b' }", "30 { 'a/b' }")
        client.exchange("A2 { 0003 'a/+' }", "B0 { 0003 }")
        client.exchange("30 { 'a/b' }")
    }

    @Test(.statement("MQTT-3.10.4-5", .v311), arguments: [1, 4])
    func `after UNSUBSCRIBE nothing new comes, and what was begun is completed`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = WireClient(broker, as: "a", clean: false)
        client.exchange("82 { 0001 't' 02 }", "90 { 0001 02 }")
        client.exchange("34 { 't' 0005 \"2\" }", "50 { 0005 } 34 { 't' 0001 \"2\" }")
        client.exchange("32 { 't' 0006 \"1\" }", "32 { 't' 0002 \"1\" } 40 { 0006 }")
        client.exchange("A2 { 0003 't' }", "B0 { 0003 }")
        client.exchange("32 { 't' 0007 \"new\" }", "40 { 0007 }")
        client.exchange("50 { 0001 }", "62 { 0001 }")
        client.lose()
        let again = WireClient(broker, as: "a", clean: false, isPresent: true)
        again.expect("62 { 0001 } 3A { 't' 0002 \"1\" }")
        again.exchange("70 { 0001 } 40 { 0002 }")
    }

    @Test(.statement("MQTT-3.12.4-1", .v311), arguments: [1, 4]) func `PINGREQ gets PINGRESP`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("C000", "D000")
        client.exchange("C000 C000", "D000 D000")
    }
}
