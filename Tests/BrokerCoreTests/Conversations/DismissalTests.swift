import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Who would not be let in any more after a reload has to go.
@Suite struct DismissalTests {
    private func dismiss(_ broker: SimulatedBroker, unless holds: (ConnectedLogin) -> Bool) {
        for core in broker.cores { core.dismissClients(unless: holds) }
        broker.settle()
    }

    private func connected(_ broker: SimulatedBroker, _ user: EncodedString?, version: ProtocolVersion = .v5) -> TestClient {
        let client = broker.client("client of \(user.map { "\($0)" } ?? "nobody")", version: version)
        client.connect(expiry: version == .v5 ? 3600 : nil, userName: user)
        return client
    }

    @Test(arguments: [1, 4], [ProtocolVersion.v5, .v311])
    func `a client whose user is gone is told so with 0x87 and closed, and the others stay`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let (anna, bob, nobody) = (connected(broker, "anna", version: version), connected(broker, "bob"), connected(broker, nil))
        dismiss(broker) { $0.userName != "anna" }
        #expect(anna.connection?.isClosed == true)
        #expect(anna.disconnectReason == (version == .v5 ? .notAuthorized : nil))
        #expect(bob.ping() && nobody.ping())
        #expect(broker.statistics().clientsConnected == 2)
    }

    @Test func `the session of a client that has to go waits, and its will is published`() {
        let broker = SimulatedBroker()
        let witness = broker.connected("witness")
        witness.subscribe("gone")
        let anna = broker.client("anna")
        anna.connect(expiry: 3600, will: Will(topic: "gone", payload: [1]), userName: "anna")
        dismiss(broker) { $0.userName != "anna" }
        #expect(witness.messages.count == 1)
        #expect(anna.connect(clean: false, userName: "anna")?.sessionPresent == true)
    }

    @Test func `a name that the transport does not vouch for does not hold where names come from certificates`() {
        let broker = SimulatedBroker()
        let anna = connected(broker, "anna")
        broker.cores[0].apply(SimulatedBroker.testSettings { $0.listeners[0].userNameSource = .identity })
        dismiss(broker) { _ in true }
        #expect(anna.disconnectReason == .notAuthorized)
    }
}
