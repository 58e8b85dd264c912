import BrokerCore
import MQTTCodec
import MartletTestKit
import Testing

/// Wills: when they are published, and when not.
@Suite struct WillTests {
    private func will(delay: UInt32 = 0, retain: Bool = false, qos: QoS = .atLeastOnce) -> Will {
        var properties = Properties()
        if delay > 0 { properties.willDelayInterval = delay }
        return Will(topic: "wills/a", payload: Array("gone".utf8), qos: qos, retain: retain, properties: properties)
    }

    private func watcher(_ broker: SimulatedBroker) -> TestClient {
        let watcher = broker.connected("watcher")
        watcher.subscribe("wills/#")
        return watcher
    }

    @Test(.statement("MQTT-3.1.2-8", .v5), arguments: [1, 4], [ProtocolVersion.v31, .v311, .v5])
    func `a lost connection publishes the will, a goodbye does not`(shards: Int, version: ProtocolVersion) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        let client = broker.client("a", version: version)
        client.connect(will: will())
        client.disconnect()
        #expect(watcher.messages.isEmpty)
        client.connect(will: will())
        client.lose()
        #expect(watcher.texts == ["gone"])
        // Once, even though the client never comes back.
        broker.advance(seconds: 3600)
        #expect(watcher.texts == ["gone"])
    }

    @Test(arguments: [1, 4]) func `DISCONNECT with reason 4 publishes the will`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        let client = broker.client("a")
        client.connect(will: will())
        client.disconnect(.disconnectWithWillMessage)
        #expect(watcher.texts == ["gone"])
    }

    @Test(arguments: [1, 4]) func `a protocol error publishes the will`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        let client = broker.client("a")
        client.connect(will: will())
        client.send([0xf0, 0x01, 0xff])
        #expect(client.connection?.isClosed == true)
        #expect(watcher.texts == ["gone"])
    }

    @Test(.statement("MQTT-3.1.2-15", .v5), arguments: [1, 4]) func `a will with RETAIN is kept`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.client("a")
        client.connect(will: will(retain: true))
        client.lose()
        let watcher = watcher(broker)
        #expect(watcher.messages.map(\.retain) == [true])
    }

    @Test(.statement("MQTT-3.1.3-9", .v5), arguments: [1, 4])
    func `a will waits for its delay, and a client that comes back cancels it`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        let client = broker.client("a")
        client.connect(expiry: 100, will: will(delay: 5))
        client.lose()
        broker.advance(milliseconds: 4_900)
        #expect(watcher.messages.isEmpty)
        broker.advance(milliseconds: 100)
        #expect(watcher.texts == ["gone"])
        client.connect(clean: false, expiry: 100, will: will(delay: 5))
        client.lose()
        broker.advance(milliseconds: 4_900)
        client.connect(clean: false, expiry: 100)
        broker.advance(seconds: 1000)
        #expect(watcher.texts == ["gone"])
    }

    @Test(arguments: [1, 4]) func `the end of the session does not wait for the will's delay`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        let client = broker.client("a")
        client.connect(expiry: 2, will: will(delay: 5))
        client.lose()
        broker.advance(milliseconds: 1_900)
        #expect(watcher.messages.isEmpty)
        broker.advance(milliseconds: 100)
        #expect(watcher.texts == ["gone"])
        // Without a session to outlive the connection there is nothing to wait for.
        client.connect(will: will(delay: 5))
        client.lose()
        #expect(watcher.texts == ["gone", "gone"])
    }

    @Test(arguments: [1, 4]) func `a clean start in time keeps a waiting will back, though it ends the session`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        let client = broker.client("a")
        client.connect(expiry: 100, will: will(delay: 5))
        client.lose()
        client.connect(clean: true)
        broker.advance(seconds: 200)
        #expect(watcher.texts == [])
    }

    @Test(arguments: [1, 4]) func `a takeover publishes the will unless it has a delay and the session goes on`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        broker.client("a").connect(expiry: 100, will: will())
        broker.client("a").connect(clean: false, expiry: 100, will: will(delay: 5))
        #expect(watcher.texts == ["gone"])
        broker.client("a").connect(clean: false, expiry: 100, will: will(delay: 5))
        broker.advance(seconds: 10)
        #expect(watcher.texts == ["gone"])
        broker.client("a").connect(clean: true, expiry: 100)
        #expect(watcher.texts == ["gone", "gone"])
    }

    @Test(.statement("MQTT-3.1.2-22", .v5), .statement("MQTT-3.1.2-24", .v311), arguments: [1, 4], [ProtocolVersion.v311, .v5])
    func `a client that is silent for one and a half times its Keep Alive is gone, not before`(
        shards: Int, version: ProtocolVersion
    ) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        let client = broker.client("a", version: version)
        client.connect(keepAlive: 10, will: will())
        broker.advance(seconds: 7)
        #expect(client.ping())
        broker.advance(milliseconds: 14_900)
        #expect(client.isConnected)
        #expect(watcher.messages.isEmpty)
        broker.advance(milliseconds: 100)
        #expect(client.connection?.isClosed == true)
        #expect(client.disconnectReason == (version == .v5 ? .keepAliveTimeout : nil))
        #expect(watcher.texts == ["gone"])
    }

    @Test(.statement("MQTT-3.1.2-22", .v5), arguments: [1, 4])
    func `a broker that did not run for a while reads what its clients have sent before it counts them as silent`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        let (client, silent) = (broker.client("a"), broker.client("b"))
        client.connect(keepAlive: 10, will: will())
        silent.connect(keepAlive: 10, will: will())
        client.connection?.send(.pingreq)
        broker.stall(until: broker.now + 100_000)
        broker.settle()
        #expect(client.isConnected)
        broker.advance(milliseconds: 1000)
        #expect(silent.connection?.isClosed == true)
        #expect(watcher.texts == ["gone"])
        broker.advance(milliseconds: 13_900)
        #expect(client.isConnected)
    }

    @Test(arguments: [1, 4]) func `a Keep Alive of zero is for ever`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let client = broker.connected("a")
        broker.advance(seconds: 1_000_000)
        #expect(client.ping())
    }

    @Test(arguments: [1, 4]) func `a delayed will survives a takeover's lost connection`(shards: Int) {
        let broker = SimulatedBroker(shards: shards)
        let watcher = watcher(broker)
        let client = broker.client("a")
        client.connect(expiry: .max, will: will(delay: 5, qos: .exactlyOnce))
        client.lose()
        broker.advance(seconds: 5)
        #expect(watcher.messages.map(\.qos) == [.exactlyOnce])
        #expect(watcher.messages.map(\.properties.willDelayInterval) == [nil])
    }
}
