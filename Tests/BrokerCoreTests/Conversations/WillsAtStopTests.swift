import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// Wills of clients that the broker sends away.
@Suite struct WillsAtStopTests {
    private let will = Will(topic: "wills/a", payload: Array("gone".utf8), qos: .atLeastOnce, retain: true)

    private func broker(publishesWillsAtStop: Bool, shards: Int = 1) -> (broker: SimulatedBroker, watcher: TestClient) {
        let settings = SimulatedBroker.testSettings { $0.publishesWillsAtStop = publishesWillsAtStop }
        let broker = SimulatedBroker(shards: shards, settings: settings, store: SimulatedStore())
        let watcher = broker.client("watcher")
        watcher.connect(expiry: 1000)
        watcher.subscribe("wills/#")
        watcher.disconnect()
        return (broker, watcher)
    }

    @Test(arguments: [1, 3], [ProtocolVersion.v311, .v5])
    func `as with mosquitto, a broker that stops publishes wills`(shards: Int, version: ProtocolVersion) {
        let (broker, watcher) = broker(publishesWillsAtStop: true, shards: shards)
        broker.client("a", version: version).connect(will: will)
        broker.stop()
        let next = broker.crashed()
        watcher.comeBack(to: next)
        #expect(watcher.texts == ["gone"])
    }

    @Test(arguments: [1, 3], [ProtocolVersion.v311, .v5])
    func `without them those of 5.0 clients are not published, and not after the start`(shards: Int, version: ProtocolVersion) {
        let (broker, watcher) = broker(publishesWillsAtStop: false, shards: shards)
        broker.client("a", version: version).connect(will: will)
        broker.stop()
        let next = broker.crashed()
        next.advance(seconds: 10)
        watcher.comeBack(to: next)
        #expect(watcher.texts == (version == .v5 ? [] : ["gone"]), "an earlier one was not told")
    }

    @Test(arguments: [true, false]) func `a session that lasts keeps its will until it ends`(comesBack: Bool) {
        let (broker, watcher) = broker(publishesWillsAtStop: false)
        let client = broker.client("a")
        client.connect(expiry: 100, will: will)
        broker.stop()
        let next = broker.crashed()
        next.advance(seconds: 10)
        watcher.comeBack(to: next)
        #expect(watcher.texts.isEmpty)
        client.broker = next
        if comesBack {
            client.connect(clean: false, expiry: 100)
            client.disconnect()
        }
        next.advance(seconds: 200)
        #expect(watcher.texts == (comesBack ? [] : ["gone"]))
    }

    @Test func `a drain leaves them out too`() {
        let (broker, watcher) = broker(publishesWillsAtStop: false)
        broker.client("a").connect(will: will)
        broker.cores[0].drain(DrainNotice())
        broker.cores[0].sendAway(10)
        broker.settle()
        broker.cores[0].drain(nil)
        watcher.connect(clean: false, expiry: 1000)
        #expect(watcher.texts.isEmpty)
    }
}
