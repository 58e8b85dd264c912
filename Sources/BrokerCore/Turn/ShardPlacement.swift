import BrokerModel
public import MQTTCodec

/// Which shard a Client Identifier or a topic belongs to: the same on every shard, for as long as the broker runs.
public struct ShardPlacement: Sendable {
    public let shardCount: Int
    let hashing: TopicHash

    init(shardCount: Int, hashing: TopicHash) {
        precondition((1...64).contains(shardCount), "a broker has 1 to 64 shards")
        self.shardCount = shardCount
        self.hashing = hashing
    }

    public func shard(of clientIdentifier: EncodedString) -> Int {
        clientIdentifier.bytes.withUnsafeBytes { shard(of: $0) }
    }

    /// The same of one that nobody has checked.
    public func shard(ofClient identifier: UnsafeRawBufferPointer) -> Int { shard(of: identifier) }

    /// Where the retained message of a topic is kept.
    public func shard(of topic: TopicName) -> Int { topic.bytes.withUnsafeBytes { shard(of: $0) } }

    func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 { hashing.hash(bytes) }

    func shard(of bytes: UnsafeRawBufferPointer) -> Int {
        shardCount == 1 ? 0 : Int(hashing.hash(bytes) >> 33) % shardCount
    }
}
