import MQTTCodec
import Testing

@testable import Federation

/// What each connection of a bridge with several is to do.
@Suite struct ConnectionsTests {
    private let settings = BridgeSettings.test(
        .v5, [BridgedTopic("a", .out), BridgedTopic("b", .in), BridgedTopic("c", .both, qos: 1, remotePrefix: "r/")])

    @Test func `one connection is what a bridge always was`() {
        #expect(settings.connection(1, of: 1) == settings)
    }

    @Test func `the first takes in and tells, the others carry out`() {
        var first = settings
        first.name = "b (1 of 3)"
        #expect(settings.connection(1, of: 3) == first)
        let third = settings.connection(3, of: 3)
        #expect(third.name == "b (3 of 3)")
        #expect(third.remote.clientIdentifier == "host.b-3" && third.localClientIdentifier == "local.host.b-3")
        #expect(third.topics == [BridgedTopic("a", .out), BridgedTopic("c", .out, qos: 1, remotePrefix: "r/")])
        #expect(!third.notifies && !third.attemptsUnsubscribe && third.remoteFilters.isEmpty && !third.mayEcho)
    }

    @Test func `an identifier that would be too long is none`() throws {
        let long = try #require(EncodedString(String(repeating: "x", count: 65_534)))
        #expect(BridgeSettings.clientIdentifier(long, ofConnection: 1) == long)
        #expect(BridgeSettings.clientIdentifier(long, ofConnection: 2) == nil)
    }
}
