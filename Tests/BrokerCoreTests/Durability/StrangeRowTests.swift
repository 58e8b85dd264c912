import BrokerCore
import BrokerModel
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Rows that no broker has written, as a damaged store may hold them.
@Suite struct StrangeRowTests {
    /// Whether recovery takes a row in, with others before it.
    private func takes(_ table: StoreTable, key: UInt64, _ body: [UInt8]) -> Bool {
        let shard = BrokerShard(
            index: 0, shardCount: 1, settings: SimulatedBroker.testSettings, seed: 7, random: SeededGenerator(seed: 1),
            sessionCount: SimulatedSessionCount(), now: 1, isPersistent: true)
        var recovery = Recovery(shards: [shard], highestKeys: [table: key])
        let isTaken = body.withUnsafeBytes { recovery.restore(table, key: key, body: $0) }
        _ = recovery.finish()
        // What `martlet store check` says is what the start says.
        #expect(body.withUnsafeBytes { table.hasMeaning(key: key, body: $0) } == isTaken)
        return isTaken
    }

    @Test func `how the broker ran is read from its own key alone`() {
        let row = StoredBrokerState(shardCount: 1, hasEnded: false).encoded()
        #expect(takes(.broker, key: StoredBrokerState.key, row))
        #expect(!takes(.broker, key: 2, row), "the start would change a row that is not there")
    }

    @Test(arguments: [(UInt8(0x20), true), (0x22, true), (0x23, false)])
    func `a subscription has a QoS that there is, or is none`(terms: UInt8, isSubscription: Bool) {
        var row = StoredSubscription(session: 1, filter: "a/b", maximumQoS: .atMostOnce, identifier: 2).encoded()
        let place = row.count - 1
        #expect(row[place] == 0x20)
        row[place] = terms
        #expect((row.withUnsafeBytes { StoredSubscription(decoding: $0) } != nil) == isSubscription)
    }

    @Test(arguments: [([UInt8](), true), ([3, 0, 1, 0x61], true), ([3, 0, 9, 0x61], false), ([7], false), ([0x23, 0, 1], false)])
    func `a message has the properties of a message, or is none`(properties: [UInt8], isMessage: Bool) {
        let message = StoredMessage(topic: [0x74], properties: properties, payload: [], qos: .atLeastOnce, retain: true)
        #expect(takes(.message, key: 256, message.encoded()) == isMessage)
        #expect(takes(.retained, key: 256, StoredRetained(message: message).encoded()) == isMessage)
        #expect(
            takes(.entry, key: 256, StoredEntry(session: 1, qos: .atLeastOnce, retain: false, message: message).encoded())
                == isMessage)
    }

    @Test(arguments: ["a/+", "#", "\0"]) func `a message has a topic that may be published to, or is none`(topic: String) {
        let message = StoredMessage(topic: Array(topic.utf8), payload: [], qos: .atLeastOnce, retain: true)
        #expect(!takes(.message, key: 256, message.encoded()))
        #expect(!takes(.retained, key: 256, StoredRetained(message: message).encoded()))
    }

    @Test(arguments: [([0x0B, 7, 0x0B, 8], true), ([0x0B, 0], false), ([3, 0, 1, 0x61], false)] as [([UInt8], Bool)])
    func `an entry has Subscription Identifiers, or is none`(identifiers: [UInt8], isEntry: Bool) {
        let message = StoredMessage(topic: [0x74], payload: [], qos: .atLeastOnce, retain: true)
        let entry = StoredEntry(session: 1, qos: .atLeastOnce, retain: false, identifiers: identifiers, message: message)
        #expect(takes(.entry, key: 256, entry.encoded()) == isEntry)
    }
}
