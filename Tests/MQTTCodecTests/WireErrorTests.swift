import MQTTCodec
import MartletTestKit
import Testing

@Suite struct WireErrorTests {
    @Test(arguments: WireError.allCases) func `an error tells a peer, a person and the standard what is wrong`(_ error: WireError) {
        #expect(error.reasonCode.isError)
        #expect(error.reasonCode.isAllowed(in: .disconnect, from: .server) || error.reasonCode == .unsupportedProtocolVersion)
        let explanation = error.explanation.description
        #expect(explanation.hasSuffix(".") && explanation.first?.isUppercase == true)
        #expect(error.statement.description.isEmpty || error.statement.description.hasPrefix("MQTT-"))
    }

    @Test func `every error is proved by a packet`() {
        let cases =
            ConnectTests.malformed + ConnackTests.malformed + PublishTests.malformed + AcknowledgementTests.malformed
            + SubscribeTests.malformed + UnsubscribeTests.malformed + PingTests.malformed + DisconnectTests.malformed
            + AuthTests.malformed
        #expect(Set(WireError.allCases).subtracting(cases.map(\.error)).isEmpty)
    }
}
