import BrokerCore
import BrokerModel
import Bytes
import MQTTCodec
import MartletTestKit
import TestBasics
import Testing

/// Shards that count for `$SYS`, one of which is slow.
@Suite struct SlowStatisticsTests {
    private final class Sink: OutputSink {
        func send(_ slices: UnsafeBufferPointer<ByteSlice>, to connection: ConnectionID) -> Int {
            slices.reduce(0) { $0 + $1.count }
        }
    }

    /// Three shards, and the shard messages that each has not got yet.
    private struct Loops {
        let shards: [BrokerShard]
        var shardMessages: [[(from: Int, batch: ShardMessageBatch)]] = [[], [], []]
        var now: UInt64 = 0

        init() {
            var settings = BrokerSettings()
            settings.systemIntervalSeconds = 1
            shards = (0..<3).map {
                BrokerShard(
                    index: $0, shardCount: 3, settings: settings, seed: 1, random: SeededGenerator(seed: UInt64($0)),
                    sessionCount: SimulatedSessionCount(), now: 0)
            }
        }

        mutating func turn(_ index: Int) {
            let shard = shards[index]
            shard.advance(to: now)
            for (sender, batch) in shardMessages[index] { shard.receivedShardMessages(batch, from: sender) }
            shardMessages[index] = []
            shard.endTurn(into: Sink()) { shardMessages[$0].append((index, $1)) }
            shard.takeEffects { _ in }
        }
    }

    @Test func `a shard that is slow to count is waited for, and no other counts for it`() {
        var loops = Loops()
        // The slow one has counted more than the others.
        for _ in 0..<100 { loops.shards[2].closed(loops.shards[2].connected(ConnectionInfo(address: "192.0.2.1"))) }
        for index in [0, 1, 2, 0] { loops.turn(index) }
        loops.now += 1000
        for index in [0, 1, 2, 0] { loops.turn(index) }
        // It is slow for two intervals, and another one answers for both at once.
        for _ in 0..<2 {
            loops.now += 1000
            loops.turn(0)
        }
        for index in [1, 0, 2, 0] { loops.turn(index) }
        #expect(loops.shards[0].currentStatistics().retainedMessages > 0)
    }
}
