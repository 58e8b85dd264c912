import BrokerModel

/// Counts the changes of subscriptions, so that a cached match knows when it is old.
///
/// One count would make every subscription anywhere forget every match. There are 256, chosen by the first level, and one for the
/// filters that begin with a wildcard and may match any topic.
struct TopicGenerations: ~Copyable {
    private static let bucketCount = 256

    private let hashing: TopicHash
    private let buckets: UnsafeMutablePointer<UInt32>
    private var wildcards: UInt32 = 0

    init(hashing: TopicHash) {
        self.hashing = hashing
        buckets = .allocate(capacity: Self.bucketCount)
        buckets.initialize(repeating: 0, count: Self.bucketCount)
    }

    deinit { buckets.deallocate() }

    /// Notes that who matches `filter` has changed.
    mutating func advance(_ filter: UnsafeRawBufferPointer) {
        var sequence = LevelSequence(filter)
        guard let first = sequence.next() else { return }
        if LevelSequence.isSingleLevelWildcard(first) || LevelSequence.isMultiLevelWildcard(first) {
            wildcards &+= 1
        } else {
            advance(firstLevel: first)
        }
    }

    /// Notes that who matches a filter has changed whose first level is this text, and no wildcard.
    mutating func advance(firstLevel text: UnsafeRawBufferPointer) {
        let bucket = buckets + (Int(truncatingIfNeeded: hashing.hash(text)) & (Self.bucketCount - 1))
        bucket.pointee &+= 1
    }

    /// Notes that who matches anything may have changed.
    mutating func advanceAll() { wildcards &+= 1 }

    /// Which count a topic belongs to.
    func bucket(of topic: UnsafeRawBufferPointer) -> Int {
        var sequence = LevelSequence(topic)
        guard let first = sequence.next() else { return 0 }
        return Int(truncatingIfNeeded: hashing.hash(first)) & (Self.bucketCount - 1)
    }

    /// The state that a match made now belongs to; another state later means that it may be old.
    @inline(__always)
    func stamp(bucket: Int) -> UInt64 { UInt64(buckets[bucket]) << 32 | UInt64(wildcards) }
}
