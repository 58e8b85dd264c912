/// What a shard knows to be done of what share groups deal this node of a cluster's log: a row of the table `run`, with a key for each shard. After a
/// crash it says what is to be looked at once more; see `DealingPast`.
public struct StoredDealing: Equatable, Sendable {
    /// What one incarnation of a node was dealt: of this one, or of one that is gone and for which this one deals.
    public struct Part: Equatable, Sendable {
        /// The incarnation's number, as the other nodes know it.
        public var incarnation: UInt64
        /// By partition: the last record up to which all is done that share groups have dealt it.
        public var done: [UInt64]
        /// The incarnation that deals for it; 0 if nobody does yet.
        public var heir: UInt64

        public init(incarnation: UInt64, done: [UInt64], heir: UInt64 = 0) {
            (self.incarnation, self.done, self.heir) = (incarnation, done, heir)
        }
    }

    /// Those that are not settled: of the present incarnation, the last one, of such as were killed, and of nodes that
    /// are gone.
    public var parts: [Part]

    public init(parts: [Part]) { self.parts = parts }

    /// Behind the row of `StoredMembership`.
    package static func key(shard: Int) -> UInt64 { StoredMembership.key + 1 + UInt64(shard) }

    /// The shard whose row has this key; nil for another row.
    package static func shard(ofKey key: UInt64) -> Int? {
        let first = Self.key(shard: 0)
        return (first..<first + UInt64(SharedLimits.shardsMax)).contains(key) ? Int(key - first) : nil
    }

    /// What holds for several shards at once: done is what is so for each of them.
    public func union(_ other: StoredDealing) -> StoredDealing {
        var all = self
        for part in other.parts {
            if let place = all.parts.firstIndex(where: { $0.incarnation == part.incarnation }) {
                all.parts[place].done = zip(all.parts[place].done, part.done).map { min($0, $1) }
                all.parts[place].heir = max(all.parts[place].heir, part.heir)
            } else {
                all.parts.append(part)
            }
        }
        return all
    }

    /// Reads a row's body; nil if it is not one.
    public init?(decoding body: UnsafeRawBufferPointer) {
        var reader = RecordReader(body)
        guard let partitions = reader.read(UInt8.self), partitions > 0 else { return nil }
        parts = []
        while !reader.isAtEnd {
            guard let incarnation = reader.read(UInt64.self), let heir = reader.read(UInt64.self) else { return nil }
            var part = Part(incarnation: incarnation, done: [], heir: heir)
            for _ in 0..<partitions {
                guard let sequence = reader.read(UInt64.self) else { return nil }
                part.done.append(sequence)
            }
            parts.append(part)
        }
    }

    /// All parts have as many partitions.
    public func encoded() -> [UInt8] {
        var writer = RecordWriter()
        writer.write(UInt8(parts.first?.done.count ?? 1))
        for part in parts { for number in [part.incarnation, part.heir] + part.done { writer.write(number) } }
        return writer.bytes
    }
}
