import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import Testing

/// A will is published where its client's listener has its topics, or nowhere.
@Suite struct WillTopicTests {
    private static let mountPoint = "mounted/at/a/place/"

    private let settings = SimulatedBroker.testSettings {
        $0.listeners = [ListenerPolicy(), ListenerPolicy()]
        $0.listeners[1].mountPoint = MountPoint(Self.mountPoint)
        $0.topicLevelsMax = 6
    }

    private func will(_ topic: String) throws -> Will {
        Will(topic: try #require(TopicName(topic)), payload: Array("gone".utf8), qos: .atLeastOnce, retain: true)
    }

    /// Somebody who hears of everything, below `$SYS` too.
    private func witness(of broker: SimulatedBroker) -> TestClient {
        let witness = broker.connected("witness")
        witness.subscribe("#")
        witness.subscribe("$SYS/#")
        return witness
    }

    /// With one byte more than there is room for behind the mount point.
    private static let tooLong: [String] = ["x", "$SYS/"].map {
        $0 + String(repeating: "x", count: 65_536 - mountPoint.utf8.count - $0.utf8.count)
    }

    @Test(arguments: [1, 4], tooLong + ["a/b/c"])
    func `a will that is too long or too deep behind its mount point is refused at CONNECT`(shards: Int, topic: String) throws {
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let witness = witness(of: broker)
        for version in [ProtocolVersion.v311, .v5] {
            let client = broker.client("a", version: version)
            let answer = client.connect(will: try will(topic), listener: 1)
            if version == .v5 {
                #expect(answer?.reasonCode == (topic == "a/b/c" ? .malformedPacket : .topicNameInvalid))
            } else {
                #expect(answer?.returnCode == .notAuthorized)
            }
            #expect(client.connection?.isClosed == true)
        }
        #expect(witness.messages.isEmpty)
    }

    @Test(arguments: [1, 4]) func `a will that just fits behind its mount point is published there`(shards: Int) throws {
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let witness = witness(of: broker)
        let longest = String(repeating: "x", count: 65_535 - Self.mountPoint.utf8.count)
        for topic in [longest, "a/b", "$SYS/x"] {
            let client = broker.client("a")
            #expect(client.connect(will: try will(topic), listener: 1)?.reasonCode == .success)
            client.lose()
            #expect(witness.takeMessages().map(\.topic) == [Self.mountPoint + topic])
        }
    }

    @Test(arguments: ["", "$SYS/"]) func `a will below $SYS is refused at CONNECT, whatever the mount point makes of it`(
        mountPoint: String
    ) throws {
        var settings = settings
        settings.listeners[1].mountPoint = MountPoint(mountPoint)
        let broker = SimulatedBroker(settings: settings)
        let topic = mountPoint.isEmpty ? "$SYS/broker/x" : "broker/x"
        #expect(broker.client("a").connect(will: try will(topic), listener: 1)?.reasonCode == .notAuthorized)
    }

    @Test(arguments: [1, 4]) func `a will whose topic has become too deep is not published, and counted`(shards: Int) throws {
        let broker = SimulatedBroker(shards: shards, settings: settings)
        let witness = witness(of: broker)
        let client = broker.client("a")
        client.connect(will: try will("a/b/c/d"))
        var strict = settings
        strict.topicLevelsMax = 3
        for core in broker.cores { core.apply(strict) }
        client.lose()
        #expect(witness.messages.isEmpty)
        #expect(broker.statistics().drops[.refused] == 1)
    }

    @Test func `a will below $SYS that stands in a store is not published`() throws {
        let store = SimulatedStore()
        var row = StoredSession(clientIdentifier: "a", version: .v5, expiryIntervalSeconds: 100)
        row.will = try will("$SYS/broker/x")
        row.willDueAt = 1
        let batch = JournalBatch()
        row.encoded().withUnsafeBytes { batch.append(JournalRecord(.insert, .session, key: 256, body: $0)) }
        store.write(batch)
        let broker = SimulatedBroker(settings: settings, store: store)
        let witness = witness(of: broker)
        broker.advance(seconds: 1)
        #expect(witness.messages.isEmpty)
        #expect(broker.statistics().drops[.notAuthorised] == 1)
    }
}
