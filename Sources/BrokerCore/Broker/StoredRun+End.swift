public import BrokerModel

extension StoredRun {
    /// The last batch of a run, to be committed when every shard has stopped and all its changes are durable.
    public static func end(of shards: [BrokerShard]) -> JournalBatch {
        let batch = JournalBatch()
        let hasEnded = shards.count == 1 || shards.allSatisfy { !$0.receipts.hasUncertain }
        StoredRun(shardCount: shards.count, hasEnded: hasEnded).encoded().withUnsafeBytes {
            batch.append(JournalRecord(.update, .run, key: key, body: $0))
        }
        return batch
    }
}
