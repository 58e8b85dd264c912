import BrokerCore
import MartletTestKit
import Testing

/// Rows that no broker has written, as a damaged store may hold them.
@Suite struct StrangeRowTests {
    /// Whether recovery takes a row in, with others before it.
    private func takes(_ table: StoreTable, key: UInt64, _ body: [UInt8]) -> Bool {
        let shard = BrokerShard(
            index: 0, shardCount: 1, settings: SimulatedBroker.testSettings, seed: 7, randomSeed: 1, now: 1, isPersistent: true)
        var recovery = Recovery(shards: [shard], highestKeys: [table: key])
        let isTaken = body.withUnsafeBytes { recovery.take(table, key: key, body: $0) }
        _ = recovery.finish()
        return isTaken
    }

    @Test func `how the broker ran is read from its own key alone`() {
        let row = StoredRun(shardCount: 1, hasEnded: false).encoded()
        #expect(takes(.run, key: StoredRun.key, row))
        #expect(!takes(.run, key: 2, row), "the start would change a row that is not there")
    }
}
