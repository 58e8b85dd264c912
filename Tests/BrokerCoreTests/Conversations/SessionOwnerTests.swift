import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// A session belongs to the user who made it and to the mount point of the listener: another one neither resumes it nor
/// reads its queue.
@Suite struct SessionOwnerTests {
    /// Two listeners, the second with a mount point of its own.
    private func broker(
        shards: Int = 1, _ foreign: ForeignSession = .discards, store: SimulatedStore? = nil
    ) -> SimulatedBroker {
        var settings = SimulatedBroker.testSettings { $0.foreignSession = foreign }
        settings.listeners = [ListenerPolicy(), ListenerPolicy()]
        settings.listeners[0].name = "inside"
        settings.listeners[1].name = "outside"
        settings.listeners[1].mountPoint = MountPoint("outside/")
        return SimulatedBroker(shards: shards, settings: settings, store: store)
    }

    /// Anna's session, in which a message waits; she is away.
    private func leaveMessage(_ broker: SimulatedBroker, version: ProtocolVersion = .v5, will: Will? = nil) -> TestClient {
        let anna = broker.client("c", version: version)
        anna.connect(clean: false, expiry: version == .v5 ? 3600 : nil, will: will, userName: "anna")
        anna.subscribe("secret", qos: .atLeastOnce)
        if will == nil { anna.disconnect() } else { anna.lose() }
        broker.connected("publisher").publish("secret", "for anna", qos: .atLeastOnce)
        return anna
    }

    private func comesBack(_ client: TestClient) -> Bool? {
        client.connect(clean: false, expiry: client.version == .v5 ? 3600 : nil, userName: "anna")?.sessionPresent
    }

    @Test(
        arguments: [1, 4],
        [(ProtocolVersion.v5, "bob"), (.v5, nil), (.v311, "bob"), (.v311, nil)] as [(ProtocolVersion, EncodedString?)])
    func `another user does not get a session that waits, and ends it`(
        shards: Int, thiefs: (version: ProtocolVersion, user: EncodedString?)
    ) {
        let (version, user) = thiefs
        let broker = broker(shards: shards)
        let anna = leaveMessage(broker, version: version)
        let thief = broker.client("c", version: version)
        #expect(thief.connect(clean: false, expiry: version == .v5 ? 3600 : nil, userName: user)?.sessionPresent == false)
        #expect(thief.messages.isEmpty)
        broker.connected("publisher").publish("secret", "more", qos: .atLeastOnce)
        #expect(thief.messages.isEmpty)
        #expect(comesBack(anna) == false)
        #expect(anna.messages.isEmpty)
    }

    @Test(arguments: [1, 4]) func `a session without a user name is nobody else's either`(shards: Int) {
        let broker = broker(shards: shards)
        let nobody = broker.client("c")
        nobody.connect(clean: false, expiry: 3600)
        nobody.disconnect()
        #expect(comesBack(broker.client("c")) == false)
    }

    @Test(arguments: [1, 4]) func `the same user behind another mount point is another owner`(shards: Int) {
        let broker = broker(shards: shards)
        _ = leaveMessage(broker)
        let outside = broker.client("c")
        #expect(outside.connect(clean: false, expiry: 3600, userName: "anna", listener: 1)?.sessionPresent == false)
        #expect(outside.messages.isEmpty)
    }

    @Test(arguments: [1, 4]) func `its owner resumes it`(shards: Int) {
        let broker = broker(shards: shards)
        let anna = leaveMessage(broker)
        #expect(comesBack(anna) == true)
        #expect(anna.texts == ["for anna"])
    }

    @Test(arguments: [1, 4]) func `a live session that another user ends is told so, and its will is published`(shards: Int) {
        let broker = broker(shards: shards)
        let witness = broker.connected("witness")
        witness.subscribe("will")
        var will = Will(topic: "will", payload: Array("gone".utf8))
        will.properties.willDelayInterval = 1000
        let anna = broker.client("c")
        anna.connect(clean: false, expiry: 3600, will: will, userName: "anna")
        anna.subscribe("secret")
        let thief = broker.client("c")
        #expect(thief.connect(clean: false, expiry: 3600, userName: "bob")?.sessionPresent == false)
        #expect(anna.disconnectReason == .sessionTakenOver && !anna.isConnected)
        #expect(witness.texts == ["gone"], "a session that ends does not wait with its will [MQTT-3.1.2-8 v5]")
        broker.connected("publisher").publish("secret", "for anna")
        #expect(thief.messages.isEmpty)
    }

    @Test(arguments: [1, 4], [ProtocolVersion.v5, .v311])
    func `with refuse the session stays as it is, and the other user is turned away`(shards: Int, version: ProtocolVersion) {
        let broker = broker(shards: shards, .refusesNewcomer)
        let anna = leaveMessage(broker, version: version)
        for clean in [false, true] {
            let thief = broker.client("c", version: version)
            let answer = thief.connect(clean: clean, userName: "bob")
            if version == .v5 {
                #expect(answer?.reasonCode == .clientIdentifierNotValid)
            } else {
                #expect(answer?.returnCode == .identifierRejected)
            }
            #expect(thief.connection?.isClosed == true)
        }
        #expect(comesBack(anna) == true)
        #expect(anna.texts == ["for anna"])
        let thief = broker.client("c", version: version)
        thief.connect(userName: "bob")
        #expect(!thief.isConnected && anna.isConnected && anna.ping())
        #expect(broker.connected("elsewhere").isConnected)
    }

    @Test(arguments: [(1, 1), (4, 4), (4, 1), (1, 3)]) func `the owner is known after a restart`(before: Int, after: Int) {
        let broker = broker(shards: before, .refusesNewcomer, store: SimulatedStore())
        let anna = leaveMessage(broker)
        let next = broker.crashed(shards: after)
        let thief = next.client("c")
        #expect(thief.connect(clean: false, userName: "bob")?.reasonCode == .clientIdentifierNotValid)
        #expect(thief.connect(clean: false, userName: "anna", listener: 1)?.reasonCode == .clientIdentifierNotValid)
        anna.broker = next
        #expect(comesBack(anna) == true)
        #expect(anna.texts == ["for anna"])
    }

    @Test(.statement("MQTT-4.12.1-2", .v5), arguments: [1, 4])
    func `nobody becomes another user by a re-authentication`(shards: Int) {
        let broker = SimulatedBroker(
            shards: shards, settings: SimulatedBroker.testSettings { $0.authenticationMethods = ["NAME"] })
        broker.authenticate = { request in
            guard case .begin(_, let data) = request.step else { return .refused(.notAuthorized) }
            return .accepted(userName: data.flatMap { EncodedString($0) }, data: nil)
        }
        func packet(_ reason: ReasonCode, _ name: String) -> ControlPacket {
            .auth(
                AuthPacket(
                    reasonCode: reason,
                    properties: .having {
                        $0.authenticationMethod = "NAME"
                        $0.authenticationData = Array(name.utf8)
                    }))
        }
        let client = broker.client("c")
        client.connect(
            properties: .having {
                $0.authenticationMethod = "NAME"
                $0.authenticationData = Array("anna".utf8)
            })
        client.send(packet(.reauthenticate, "anna"))
        #expect(client.isConnected)
        client.send(packet(.reauthenticate, "bob"))
        #expect(client.disconnectReason == .notAuthorized && !client.isConnected)
    }
}
