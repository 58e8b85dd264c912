import MQTTCodec
import MartletTestKit
import Testing

/// Flags and packet identifiers of MQTT 3.1.1 (sections 2.2 and 2.3).
@Suite struct FixedHeader3Tests {
    @Test(.statement("MQTT-2.2.2-1", .v311), .statement("MQTT-2.2.2-2", .v311))
    func `a packet with another value in its reserved flags ends the connection`() {
        for flags in 1...15 {
            let digit = Frame.hexadecimal(UInt8(flags)).suffix(1)
            WireClient.expectEnds(["4\(digit) { 0001 }", "5\(digit) { 0001 }", "7\(digit) { 0001 }", "C\(digit)00", "E\(digit)00"])
            WireClient.expectEnds(["1\(digit) { 'MQTT' 04 02 0000 'a' }"], isConnected: false)
        }
    }

    @Test(.statement("MQTT-3.6.1-1", .v311), .statement("MQTT-3.8.1-1", .v311), .statement("MQTT-3.10.1-1", .v311))
    func `PUBREL, SUBSCRIBE and UNSUBSCRIBE with other flags than 2 end the connection`() {
        for flags in 0...15 where flags != 2 {
            let digit = Frame.hexadecimal(UInt8(flags)).suffix(1)
            WireClient.expectEnds(["6\(digit) { 0001 }", "8\(digit) { 0001 't' 00 }", "A\(digit) { 0001 't' }"])
        }
    }

    @Test(.statement("MQTT-2.3.1-1", .v311)) func `a packet identifier of 0 ends the connection`() {
        WireClient.expectEnds(["32 { 't' 0000 }", "34 { 't' 0000 }", "82 { 0000 't' 00 }", "A2 { 0000 't' }"])
    }

    @Test(.statement("MQTT-2.3.1-4", .v311), arguments: [1, 4])
    func `the broker's packet identifiers are not zero, and not in use`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let subscriber = broker.client("subscriber", version: .v311)
        subscriber.acknowledgement = .manual
        subscriber.connect()
        subscriber.subscribe("t")
        let publisher = broker.connected("publisher", version: .v311)
        for number in 0..<20 { publisher.publish("t", "\(number)", qos: number % 2 == 0 ? .atLeastOnce : .exactlyOnce) }
        let identifiers = subscriber.publishes.compactMap(\.packetIdentifier)
        #expect(Set(identifiers).count == 20)
        #expect(!identifiers.contains(0))
    }

    @Test(.statement("MQTT-2.3.1-5", .v311), .statement("MQTT-3.3.1-2", .v311), arguments: [1, 4])
    func `a QoS 0 message has no packet identifier and no DUP, either way`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("82 { 0001 't' 02 }", "90 { 0001 02 }")
        client.exchange("30 { 't' 0001 }", "30 { 't' 0001 }")  // All behind the topic is payload.
        client.expectEnd(after: "38 { 't' }")
    }

    @Test(.statement("MQTT-2.3.1-6", .v311), arguments: [1, 4])
    func `each acknowledgement has the identifier of its PUBLISH`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        for identifier in ["0001", "00FF", "0100", "FFFF"] {
            client.exchange("32 { 't' \(identifier) }", "40 { \(identifier) }")
            client.exchange("34 { 't' \(identifier) }", "50 { \(identifier) }")
            client.exchange("62 { \(identifier) }", "70 { \(identifier) }")
        }
        client.exchange("82 { 0001 't' 02 }", "90 { 0001 02 }")
        client.exchange("34 { 't' 0007 }", "50 { 0007 } 34 { 't' 0001 }")
        client.exchange("50 { 0001 }", "62 { 0001 }")
    }

    @Test(
        .statement("MQTT-2.3.1-7", .v311), .statement("MQTT-3.8.4-2", .v311), .statement("MQTT-3.8.4-1", .v311),
        .statement("MQTT-3.10.4-1", .v311), arguments: [1, 4])
    func `SUBACK and UNSUBACK come, with the identifier of their request`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        for identifier in ["0001", "00FF", "0100", "FFFF"] {
            client.exchange("82 { \(identifier) 't' 01 }", "90 { \(identifier) 01 }")
            client.exchange("A2 { \(identifier) 't' }", "B0 { \(identifier) }")
        }
    }
}
