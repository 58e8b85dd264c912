import Bytes

/// The batches of the shards that wait for the log, or for the stream of retained messages: each is confirmed when all
/// that is in it is stored, in the order in which its shard has sent them.
public struct BatchLedger {
    /// What has become of a batch; without a failure also of those before it of which nothing was said.
    public struct Outcome: Equatable, Sendable {
        public let shard: Int
        public let serial: UInt64
        public let failure: LogFailure?
        /// The partitions with parts that failed, a bit each.
        public var partitions: UInt64 = 0
    }

    private struct Batch {
        let token: UInt64
        let serial: UInt64
        var left: Int
        var failure: LogFailure?
        var partitions: UInt64 = 0
    }

    private var batches: [Deque<Batch>]
    private var shards: [UInt64: Int] = [:]
    private var lastToken: UInt64 = 0

    public init(shardCount: Int) { batches = Array(repeating: [], count: shardCount) }

    /// A batch of a shard begins; `done` or `failed` for each part of it, with the token.
    ///
    /// - Parameters:
    ///   - serial: the batch's, rising on its shard.
    ///   - shard: whose batch it is.
    ///   - count: how many parts it has, one at least.
    /// - Returns: the token.
    public mutating func begin(_ serial: UInt64, of shard: Int, count: Int = 1) -> UInt64 {
        lastToken += 1
        shards[lastToken] = shard
        batches[shard].append(Batch(token: lastToken, serial: serial, left: count))
        return lastToken
    }

    /// A part is stored.
    public mutating func done(_ token: UInt64) { change(token) { $0.left -= 1 } }

    /// A part has failed.
    ///
    /// - Parameters:
    ///   - token: of its batch.
    ///   - failure: why.
    ///   - partitions: where it should have been, a bit each.
    public mutating func failed(_ token: UInt64, _ failure: LogFailure, in partitions: UInt64) {
        change(token) { batch in
            batch.left -= 1
            batch.partitions |= partitions
            // What nobody knows outweighs what is known.
            if batch.failure != .unknown { batch.failure = failure }
        }
    }

    /// What a shard can be told now: of what succeeded the last.
    public mutating func take() -> [Outcome] {
        var outcomes: [Outcome] = []
        for shard in batches.indices {
            var good: Outcome?
            let count = batches[shard].prefix { $0.left == 0 }.count
            for batch in batches[shard].prefix(count) {
                shards[batch.token] = nil
                let outcome = Outcome(
                    shard: shard, serial: batch.serial, failure: batch.failure, partitions: batch.partitions)
                if batch.failure == nil {
                    good = outcome
                } else {
                    if let good { outcomes.append(good) }
                    outcomes.append(outcome)
                    good = nil
                }
            }
            if let good { outcomes.append(good) }
            if count > 0 { batches[shard].removeFirst(count) }
        }
        return outcomes
    }

    /// Tokens of a shard rise.
    private mutating func change(_ token: UInt64, _ body: (inout Batch) -> Void) {
        guard let shard = shards[token] else { return }
        body(&batches[shard][batches[shard].partitioningIndex { $0.token >= token }])
    }
}
