/// Records of one partition of a cluster's log.
public struct LogSpan: Equatable, Sendable {
    public var partition: Int
    /// The number of the record before the first one.
    public var after: UInt64
    /// That of the last one.
    public var through: UInt64

    public init(partition: Int, after: UInt64, through: UInt64) {
        (self.partition, self.after, self.through) = (partition, after, through)
    }
}
