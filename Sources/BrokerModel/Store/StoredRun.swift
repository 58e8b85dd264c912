/// How the broker ran when it last wrote to the store.
public struct StoredRun: Equatable, Sendable {
    public static let key: UInt64 = 1

    /// How many shards it had: what belongs to which follows from that.
    public var shardCount: UInt16
    /// Whether it ended in order, with every shard's part done of every QoS 2 message that was received.
    public var hasEnded: Bool

    public init(shardCount: Int, hasEnded: Bool) {
        self.shardCount = UInt16(shardCount)
        self.hasEnded = hasEnded
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let count = reader.read(UInt16.self), (1...64).contains(count), let hasEnded = reader.readBool(), reader.isAtEnd
        else { return nil }
        self.init(shardCount: Int(count), hasEnded: hasEnded)
    }

    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(shardCount)
        writer.write(hasEnded)
        return writer.bytes
    }
}
