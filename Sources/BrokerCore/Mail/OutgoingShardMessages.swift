import BrokerModel
import MQTTCodec

/// What a shard has for the others at the end of its turn, a batch for each, and what it awaits of them before it answers SUBACK.
///
/// ```
///     append, hold ─► batches[shard], filled in order ─► post, twice a turn
/// ```
/// A batch is there if something is in it; the shard has none for itself.
struct OutgoingShardMessages {
    private let shard: Int
    private var batches: [ShardMessageBatch?]
    /// The shards that there are batches for, a bit each.
    private var waiting: UInt64 = 0
    /// How many bytes each shard is likely to get in a turn.
    private var expectedBytes: [Int]
    private var barriers = BarrierTable()

    /// - Parameter shard: the one that sends it.
    init(from shard: Int, shardCount: Int) {
        self.shard = shard
        batches = Array(repeating: nil, count: shardCount)
        expectedBytes = Array(repeating: 0, count: shardCount)
    }

    /// Bytes that wait for the end of the turn.
    var byteCount: Int {
        var (bytes, left) = (0, waiting)
        while left != 0 {
            bytes += batches[left.trailingZeroBitCount]?.byteCount ?? 0
            left &= left &- 1
        }
        return bytes
    }

    /// Whether nothing waits for the end of the turn.
    var isEmpty: Bool { waiting == 0 }

    /// Whether something waits for a shard.
    func isThere(for shard: Int) -> Bool { batches[shard] != nil }

    // MARK: Filling

    mutating func append(_ shardMessage: ShardMessage, to shard: Int) {
        batch(for: shard).with { $0.append(shardMessage) }
    }

    mutating func appendToOthers(_ shardMessage: ShardMessage) {
        for other in batches.indices where other != shard { append(shardMessage, to: other) }
    }

    /// Adds a message.
    mutating func append(
        _ publication: borrowing Publication, as kind: ShardMessageHeader.Kind, _ detail: ShardMessageDetail?, to shard: Int
    ) {
        batch(for: shard).with { $0.append(publication, as: kind, detail) }
    }

    /// The batch for a shard, which is there, is to be confirmed under this serial when what came of it is durable.
    mutating func stamp(_ serial: UInt64, on shard: Int) {
        batch(for: shard).with { $0.serial = serial }
    }

    /// What gathers for a shard, not retained: valid until the batch is posted. To count a reference takes a locked instruction, which
    /// waits for all that was written before, into memory that is in no near cache.
    @inline(__always)
    private mutating func batch(for shard: Int) -> Reference<ShardMessageBatch> {
        if let batch = batches[shard].map({ Reference($0) }) { return batch }
        assert(shard != self.shard, "nobody writes to himself")
        let batch = ShardMessageBatch(expected: expectedBytes[shard])
        batches[shard] = batch
        waiting |= 1 << UInt64(shard)
        return Reference(batch)
    }

    // MARK: Barriers

    /// Whether an answer waits until every other shard has passed a barrier: a later one must not overtake it.
    var isBarred: Bool { barriers.isWaiting }

    /// Keeps an answer until every other shard, and the cluster if it has to, has passed what was sent before it.
    ///
    /// - Returns: the token that they send back.
    mutating func hold(_ answer: HeldAnswer, _ connection: ConnectionID, forCluster: Bool) -> UInt64 {
        let missing = batches.count - 1 + (forCluster ? 1 : 0)
        let token = barriers.hold(BarrierTable.Waiting(connection: connection, answer: answer, missing: missing))
        appendToOthers(.barrier(token: token))
        return token
    }

    /// A shard has passed a barrier; returns what waited for it if it was the last.
    mutating func passed(_ token: UInt64) -> BarrierTable.Waiting? { barriers.passed(token) }

    // MARK: Leaving

    /// Hands out the batches, in the order of their shards.
    mutating func post(_ post: (_ shard: Int, ShardMessageBatch) -> Void) {
        while waiting != 0 {
            let shard = waiting.trailingZeroBitCount
            waiting &= waiting &- 1
            guard let batch = batches[shard] else { continue }
            batches[shard] = nil
            // A turn's second batch is small: it must not make the next turn's first one small.
            expectedBytes[shard] = min(Limits.expectedShardMessageBytesMax, max(batch.byteCount, expectedBytes[shard] / 8 * 7))
            post(shard, batch)
        }
    }

    func checkInvariants() {
        precondition(batches[shard] == nil, "nobody writes to himself")
        precondition(
            batches.indices.allSatisfy { (batches[$0] != nil) == (waiting >> UInt64($0) & 1 == 1) }, "a bit for each batch")
        precondition(batches.allSatisfy { $0.map { !$0.isEmpty } ?? true }, "a batch has something in it")
        precondition(expectedBytes.allSatisfy { $0 <= Limits.expectedShardMessageBytesMax }, "what is expected has a bound")
    }
}
