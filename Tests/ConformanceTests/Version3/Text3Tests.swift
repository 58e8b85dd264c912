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
