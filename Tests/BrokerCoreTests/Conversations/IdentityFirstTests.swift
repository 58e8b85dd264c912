import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// `use_username_as_clientid`: the Client Identifier is the user name that the login has proved, not what CONNECT says
/// it is.
@Suite struct IdentityFirstTests {
    /// A broker whose method NAME takes the word that the client answers with for its name, unless that begins with a
    /// question mark.
    private func broker(shards: Int, _ change: (inout ListenerPolicy) -> Void = { _ in }) -> SimulatedBroker {
        let settings = SimulatedBroker.testSettings {
            $0.authenticationMethods = ["NAME"]
            $0.listeners[0].usesUserNameAsClientIdentifier = true
            change(&$0.listeners[0])
        }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { request in
            switch request.step {
            case .begin: return .challenge(data: Array("name?".utf8))
            case .proceed(_, let data):
                guard let data, data.first != UInt8(ascii: "?") else { return .refused(.notAuthorized) }
                return .accepted(userName: EncodedString(data), data: Array("welcome".utf8))
            case .password(let userName, _): return .accepted(userName: userName == "alias" ? "anna" : userName, data: nil)
            case .abandon: return .refused(.notAuthorized)
            }
        }
        return broker
    }

    private func auth(_ reason: ReasonCode, _ data: String) -> ControlPacket {
        .auth(
            AuthPacket(
                reasonCode: reason,
                properties: .having {
                    $0.authenticationMethod = "NAME"
                    $0.authenticationData = Array(data.utf8)
                }))
    }

    /// Logs in as somebody, whatever CONNECT says.
    private func logIn(
        _ broker: SimulatedBroker, as name: String, claiming userName: EncodedString?, clean: Bool = true
    ) -> TestClient {
        let client = broker.client("whatever")
        client.connect(
            clean: clean, expiry: 3600, userName: userName, properties: .having { $0.authenticationMethod = "NAME" })
        client.send(auth(.continueAuthentication, name))
        return client
    }

    private func clients(_ broker: SimulatedBroker) -> Set<String> {
        // The shard that it lives on is the one where its identifier belongs: it can be disconnected there and nowhere
        // else.
        Set(
            ["anna", "victim", "whatever", "mallory"].filter { name in
                guard let identifier = EncodedString(name) else { return false }
                return broker.cores[broker.shard(of: identifier)].disconnect(identifier)
            })
    }

    @Test(arguments: [1, 4]) func `the identifier is the name that was proved, not the one that CONNECT says`(shards: Int) {
        let broker = broker(shards: shards)
        let client = logIn(broker, as: "anna", claiming: "victim")
        #expect(client.isConnected && client.connack?.properties.authenticationData == Array("welcome".utf8))
        #expect(client.ping())
        client.send(auth(.reauthenticate, ""))
        client.send(auth(.continueAuthentication, "anna"))
        #expect(client.isConnected, "the method is known where it was handed to")
        #expect(clients(broker) == ["anna"])
    }

    @Test(arguments: [1, 4]) func `a login that fails ends nobody's session`(shards: Int) {
        let broker = broker(shards: shards)
        let victim = logIn(broker, as: "victim", claiming: nil)
        #expect(logIn(broker, as: "?", claiming: "victim").connack?.reasonCode == .notAuthorized)
        #expect(victim.isConnected && victim.ping())
    }

    @Test(arguments: [1, 4]) func `another user who claims a name does not get its session`(shards: Int) {
        let broker = broker(shards: shards)
        let victim = logIn(broker, as: "victim", claiming: nil)
        victim.subscribe("secret", qos: .atLeastOnce)
        victim.disconnect(expiry: 3600)
        logIn(broker, as: "anna", claiming: nil).publish("secret", "s", qos: .atLeastOnce)
        let thief = logIn(broker, as: "mallory", claiming: "victim", clean: false)
        #expect(thief.connack?.sessionPresent == false && thief.messages.isEmpty)
        let back = logIn(broker, as: "victim", claiming: "anna", clean: false)
        #expect(back.connack?.sessionPresent == true && back.texts == ["s"])
    }

    @Test(arguments: [1, 4]) func `what identifiers must begin with is asked of the proved name`(shards: Int) {
        let broker = broker(shards: shards) { $0.clientIdentifierPrefix = "a" }
        #expect(logIn(broker, as: "anna", claiming: "victim").isConnected)
        #expect(logIn(broker, as: "victim", claiming: "anna").connack?.reasonCode == .clientIdentifierNotValid)
    }

    @Test(arguments: [1, 4], [ProtocolVersion.v5, .v311])
    func `who decides on a password may name the user otherwise`(shards: Int, version: ProtocolVersion) {
        let broker = broker(shards: shards) { $0.checksPasswords = true }
        let client = broker.client("whatever", version: version)
        client.connect(userName: "alias", password: [1])
        #expect(client.isConnected && client.ping())
        #expect(clients(broker) == ["anna"])
    }

    @Test(arguments: [1, 4]) func `a method that proves no name gives none, whatever CONNECT says`(shards: Int) {
        let settings = SimulatedBroker.testSettings { $0.authenticationMethods = ["NAME"] }
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let client = broker.client("c")
        client.connect(expiry: 3600, userName: "anna", properties: .having { $0.authenticationMethod = "NAME" })
        client.disconnect()
        #expect(broker.client("c").connect(clean: false, userName: "anna")?.sessionPresent == false)
    }

    @Test(arguments: [1, 4]) func `a client that answers much at once is read on where it lives`(shards: Int) {
        let broker = broker(shards: shards)
        let witness = logIn(broker, as: "anna", claiming: nil)
        witness.subscribe("t")
        for number in 0..<20 {
            let client = broker.client("whatever")
            client.connect(properties: .having { $0.authenticationMethod = "NAME" })
            client.connection?.send(auth(.continueAuthentication, "user \(number)"))
            while client.connack == nil, broker.step() {}
            client.publish("t", "\(number)")
        }
        #expect(witness.texts == (0..<20).map { "\($0)" })
    }
}
