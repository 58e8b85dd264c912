import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Wills of clients that were connected when the power went, whose sessions end with their connections: published after
/// the start.
@Suite struct WillCrashTests {
    private func will(_ topic: TopicName = "wills/a", delay: UInt32 = 0) -> Will {
        var properties = Properties()
        if delay > 0 { properties.willDelayInterval = delay }
        return Will(topic: topic, payload: Array("gone".utf8), qos: .atLeastOnce, retain: true, properties: properties)
    }

    /// A broker on a store, with a client that waits for wills.
    private func watched(shards: Int) -> (broker: SimulatedBroker, watcher: TestClient) {
        let broker = SimulatedBroker(shards: shards, store: SimulatedStore())
        let watcher = broker.connected("watcher", expiry: 1000)
        watcher.subscribe("wills/#")
        return (broker, watcher)
    }

    /// The broker starts again, and the client that waits for wills comes.
    private func restarted(_ broker: SimulatedBroker, _ watcher: TestClient, shards: Int? = nil) -> SimulatedBroker {
        let next = broker.crashed(shards: shards)
        next.advance(seconds: 1)
        watcher.comeBack(to: next)
        return next
    }

    private func retained(_ broker: SimulatedBroker) -> [String] {
        let reader = broker.connected("reader")
        reader.subscribe("wills/#")
        return reader.texts
    }

    @Test(.statement("MQTT-3.1.2-8", .v5), arguments: [1, 3], [ProtocolVersion.v31, .v311, .v5])
    func `the will of a session that ends with its connection is published after a crash, once`(
        shards: Int, version: ProtocolVersion
    ) {
        let (broker, watcher) = watched(shards: shards)
        let client = broker.client("a", version: version)
        client.connect(will: will(delay: version == .v5 ? 60 : 0))
        let next = restarted(broker, watcher, shards: shards)
        #expect(watcher.texts == ["gone"] && retained(next) == ["gone"])
        #expect(next.statistics().clientsExpired == 0, "its session is over since the crash")
        let last = restarted(next, watcher)
        last.advance(seconds: 100)
        #expect(watcher.texts == ["gone"] && last.store?.rows[.session]?.count == 1)
    }

    @Test(arguments: [1, 3]) func `a client that has said goodbye, or was lost before, leaves no row`(shards: Int) {
        let (broker, watcher) = watched(shards: shards)
        let (left, lost, without) = (broker.client("left"), broker.client("lost"), broker.client("without"))
        left.connect(will: will())
        lost.connect(will: will("wills/lost"))
        without.connect()
        broker.advance(seconds: 1)
        #expect(broker.store?.rows[.session]?.count == 3)
        left.disconnect()
        lost.lose()
        broker.advance(seconds: 1)
        #expect(broker.store?.rows[.session]?.count == 1 && watcher.texts == ["gone"])
        _ = restarted(broker, watcher)
        #expect(watcher.texts == ["gone"])
    }

    @Test func `a client that comes in the place of its old connection has its own will alone`() {
        let (broker, watcher) = watched(shards: 1)
        broker.client("a").connect(will: will("wills/first"))
        broker.client("a").connect(will: will("wills/second"))
        #expect(watcher.messages.map(\.topic) == ["wills/first"])
        _ = restarted(broker, watcher)
        #expect(watcher.messages.map(\.topic) == ["wills/first", "wills/second"])
    }

    /// The client is there before the shard has looked at its timers.
    @Test(arguments: [1, 3]) func `a client that is back at once is preceded by its will`(shards: Int) {
        let (broker, watcher) = watched(shards: shards)
        let client = broker.client("a")
        client.connect(will: will())
        broker.advance(seconds: 1)
        let next = broker.crashed()
        client.broker = next
        #expect(client.connect()?.sessionPresent == false)
        client.publish("wills/a", "here", qos: .atLeastOnce, retain: true)
        watcher.comeBack(to: next)
        next.advance(seconds: 1)
        #expect(watcher.texts == ["gone", "here"] && retained(next) == ["here"])
    }

    @Test func `CONNACK waits for no disk`() {
        let (broker, _) = watched(shards: 1)
        broker.store?.mode = .paused
        let client = broker.client("a")
        #expect(client.connect(will: will()) != nil)
        #expect(client.subscribe("t")?.reasonCodes.first?.isError == false)
        #expect(broker.store?.waitingCount == 1)
    }

    @Test func `a store in trouble keeps nobody out for a will, and is given none`() {
        let (broker, watcher) = watched(shards: 1)
        broker.store?.mode = .full
        watcher.publish("wills/x", "x", qos: .atLeastOnce, until: .sent)
        broker.advance(seconds: 1)
        let client = broker.client("a")
        #expect(client.connect(will: will())?.isAccepted == true)
        broker.store?.mode = .prompt
        broker.advance(seconds: 1)
        client.disconnect()
        broker.advance(seconds: 1)
        #expect(broker.store?.rows[.session]?.count == 1)
    }

    @Test func `a session that lasted, and whose client has come for one connection, publishes its will too`() {
        let (broker, watcher) = watched(shards: 1)
        let client = broker.connected("a", expiry: 1000)
        client.subscribe("wills/#")
        client.disconnect()
        client.connect(clean: false, expiry: 0, will: will(delay: 60))
        let next = restarted(broker, watcher)
        #expect(watcher.texts == ["gone"] && next.store?.rows[.session]?.count == 1 && next.store?.rows[.subscription]?.count == 1)
    }
}
