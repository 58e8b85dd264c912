import BrokerModel
import BrokerSimulation
import MQTTCodec
import MartletTestKit
import Testing

@testable import BrokerCore

/// Mount points that depend on who the client is.
@Suite struct MountPointTests {
    private func broker(_ mountPoint: String, shards: Int = 3, _ attributes: [(name: String, value: String)] = [])
        -> SimulatedBroker
    {
        var settings = SimulatedBroker.testSettings
        settings.listeners = [ListenerPolicy(), ListenerPolicy()]
        (settings.listeners[0].name, settings.listeners[1].name) = ("inside", "outside")
        settings.listeners[1].mountPoint = MountPoint(mountPoint)
        settings.listeners[1].checksPasswords = true
        let broker = SimulatedBroker(shards: shards, settings: settings)
        broker.authenticate = { _ in .accepted(userName: nil, data: nil, grant: LoginGrant(source: "http", attributes: attributes))
        }
        return broker
    }

    @Test func `each user has topics of its own, and wills, retained messages and share groups see them so`() {
        let broker = broker("t/%u/")
        let watcher = broker.connected("watcher")
        watcher.subscribe("t/#")
        let anna = broker.client("a")
        anna.connect(will: Will(topic: "gone", payload: Array("w".utf8)), userName: "anna", listener: 1)
        let (bob, other) = (broker.client("b"), broker.client("c"))
        bob.connect(userName: "bob", listener: 1)
        other.connect(userName: "anna", listener: 1)
        for client in [anna, bob, other] { client.subscribe("x") }
        anna.publish("x", "1", retain: true)
        #expect(anna.takeMessages().map(\.topic) == ["x"] && other.takeMessages().count == 1 && bob.messages.isEmpty)
        #expect(watcher.takeMessages().map(\.topic) == ["t/anna/x"])
        bob.subscribe("$share/g/x")
        broker.connected("inner").publish("t/bob/x", "2")
        #expect(bob.takeMessages().map(\.topic) == ["x", "x"] && anna.messages.isEmpty)
        _ = watcher.takeMessages()
        anna.lose()
        #expect(watcher.takeMessages().map(\.topic) == ["t/anna/gone"])
    }

    @Test func `an attribute and the Client Identifier fill it too`() {
        let broker = broker("%{client_attrs.site}/%c/", [("site", "north")])
        let watcher = broker.connected("watcher")
        watcher.subscribe("#")
        let client = broker.client("d1")
        client.connect(userName: "u", listener: 1)
        client.publish("x", "1")
        #expect(watcher.takeMessages().map(\.topic) == ["north/d1/x"])
    }

    @Test(arguments: [
        ("%u/", nil as EncodedString?, "c" as EncodedString), ("%u/", "a/b", "c"), ("%u/", "+", "c"), ("%u/", "$SYS", "c"),
        ("m/%c/", "u", "#"), ("%{client_attrs.site}/", "u", "c"),
    ])
    func `a client that it cannot be made for is refused`(mountPoint: String, user: EncodedString?, identifier: EncodedString) {
        let broker = broker(mountPoint)
        let client = broker.client(identifier)
        client.connect(userName: user, listener: 1)
        #expect(client.connack?.reasonCode == .notAuthorized)
        #expect(broker.logLines.contains { $0.contains("the mount point asks for") })
    }
}
