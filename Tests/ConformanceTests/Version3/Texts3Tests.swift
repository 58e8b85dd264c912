import MartletTestKit
import Testing

/// Texts of MQTT 3.1.1 (section 1.5.3).
@Suite struct Text3Tests {
    @Test(.statement("MQTT-1.5.3-1", .v311)) func `a packet with ill-formed UTF-8 ends the connection`() {
        for text in ["80", "C3", "C080", "EDA080", "F4908080", "FF"] {
            WireClient.expectEnds(["30 { ( \(text) ) }", "82 { 0001 ( \(text) ) 00 }", "A2 { 0001 ( \(text) ) }"])
        }
    }

    @Test(.statement("MQTT-1.5.3-2", .v311)) func `a packet with U+0000 in a text ends the connection`() {
        WireClient.expectEnds(["30 { ( 00 ) }", "30 { ( 610062 ) }", "82 { 0001 ( 6100 ) 00 }", "A2 { 0001 ( 0061 ) }"])
        WireClient.expectEnds(["10 { 'MQTT' 04 02 0000 ( 6100 ) }"], isConnected: false)
    }

    @Test(.statement("MQTT-1.5.3-3", .v311), arguments: [1, 4]) func `U+FEFF is kept wherever it stands`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("82 { 0001 ( EFBBBF74 ) 00 }", "90 { 0001 00 }")
        client.exchange("30 { ( EFBBBF74 ) 01 }", "30 { ( EFBBBF74 ) 01 }")
        client.exchange("30 { 't' 02 }")
        client.exchange("82 { 0002 '#' 00 }", "90 { 0002 00 }")
        client.exchange("30 { ( 74EFBBBF ) 03 }", "30 { ( 74EFBBBF ) 03 }")
    }
}

/// Topic filters of MQTT 3.1.1 (section 4.7).
@Suite struct Filter3Tests {
    @Test(.statement("MQTT-4.7.0-1", .v311)) func `an empty topic or filter ends the connection`() {
        WireClient.expectEnds(["30 { '' }", "32 { '' 0001 }", "82 { 0001 '' 00 }", "A2 { 0001 '' }"])
    }

    @Test(.statement("MQTT-4.7.1-1", .v311), arguments: ["a#", "#a", "#/a", "a/#/b", "a/b#", "##", "a/##", "#/"])
    func `a # that is not a level of its own and the last ends the connection`(filter: String) {
        WireClient.expectEnds(["82 { 0001 '\(filter)' 00 }", "A2 { 0001 '\(filter)' }"])
    }

    @Test(.statement("MQTT-4.7.1-2", .v311), arguments: ["a+", "+a", "++", "a/b+/c", "a/+b", "+#"])
    func `a + that is not a level of its own ends the connection`(filter: String) {
        WireClient.expectEnds(["82 { 0001 '\(filter)' 00 }", "A2 { 0001 '\(filter)' }"])
    }

    @Test(.statement("MQTT-4.7.2-1", .v311), arguments: [1, 4])
    func `a filter that begins with a wildcard matches no topic that begins with $`(shards: Int) {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a")
        client.exchange("31 { '$a/b' \"kept\" }")
        client.exchange("82 { 0001 '#' 00 '+/b' 00 '+/#' 00 }", "90 { 0001 000000 }")
        client.exchange("30 { '$a/b' \"m\" }")
        client.exchange("82 { 0002 '$a/+' 00 }", "90 { 0002 00 } 31 { '$a/b' \"kept\" }")
        client.exchange("30 { '$a/b' \"m\" }", "30 { '$a/b' \"m\" }")
        client.exchange("30 { 'a$/b' }", "30 { 'a$/b' }")
    }
}
