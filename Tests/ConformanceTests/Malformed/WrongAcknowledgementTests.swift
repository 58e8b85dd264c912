import MQTTCodec
import MartletTestKit
import Testing

/// Acknowledgements that do not fit the flow of the message whose identifier they carry.
@Suite struct WrongAcknowledgementTests {
    /// A client that has got a QoS 1 message with identifier 1 and a QoS 2 message with identifier 2.
    private static func receiver(_ shards: Int, _ version: ProtocolVersion) -> WireClient {
        let client = WireClient(SimulatedBroker(shards: shards), as: "a", version)
        client.exchange("82 { 0001 ~ 't' 02 }", "90 { 0001 ~ 02 }")
        client.exchange("32 { 't' 0005 ~ }", "32 { 't' 0001 ~ } 40 { 0005 }")
        client.exchange("34 { 't' 0006 ~ }", "50 { 0006 } 34 { 't' 0002 ~ }")
        return client
    }

    @Test(arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `PUBACK for QoS 2 and PUBREC for QoS 1 are protocol errors`(shards: Int, version: ProtocolVersion) {
        for wrong in ["40 { 0002 }", "50 { 0001 }"] {
            let client = Self.receiver(shards, version)
            client.expectRefusal(of: wrong, 0x82)
        }
    }

    @Test(arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `what comes too early or twice does not disturb the flow`(shards: Int, version: ProtocolVersion) {
        let client = Self.receiver(shards, version)
        client.exchange("70 { 0001 }")  // PUBCOMP for QoS 1.
        client.exchange("70 { 0002 }")  // PUBCOMP before PUBREC.
        client.exchange("40 { 0001 }")
        client.exchange("40 { 0001 }")
        client.exchange("50 { 0002 }", "62 { 0002 }")
        client.exchange("50 { 0002 }", "62 { 0002 }")
        client.exchange("70 { 0002 }")
        client.exchange("70 { 0002 }")
        client.exchange("C000", "D000")
    }

    @Test(arguments: [1, 4]) func `an error code in PUBREC ends the flow and frees the identifier`(shards: Int) {
        let client = Self.receiver(shards, .v5)
        client.exchange("50 { 0002 87 }")
        client.exchange("50 { 0002 }", "62 { 0002 92 }")
        client.exchange("40 { 0001 87 }")
        client.exchange("32 { 't' 0007 ~ }", "32 { 't' 0003 ~ } 40 { 0007 }")
    }
}

extension WireClient {
    /// Sends, and expects DISCONNECT with this code in MQTT 5.0, and before that silence; then the end.
    func expectRefusal(of sent: String, _ code: UInt8, sourceLocation: SourceLocation = #_sourceLocation) {
        connection.send(Frame(sent, version).bytes)
        let answer = takeAll()
        #expect(connection.isClosed, sourceLocation: sourceLocation)
        if version == .v5 {
            #expect(answer.count > 2 && answer[0] == 0xE0 && answer[2] == code, "\(Frame(answer))", sourceLocation: sourceLocation)
        } else {
            #expect(answer == [], sourceLocation: sourceLocation)
        }
    }
}
