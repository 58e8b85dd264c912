/// The will of a connection as the cluster has it, so that it is published once when that has ended without DISCONNECT,
/// whatever becomes of its node.
public struct SavedWill: Hashable, Sendable {
    /// Tells it from those of the other connections of its session. It stands with the message in the log, so that
    /// readers know the will when it comes again.
    public var name: WillName
    /// In seconds.
    public var delayInterval: UInt32
    /// As the log has it, see `LogMessage.entry`.
    public var message: [UInt8]
    /// If it is to be retained: whose it is, a `StoredOrigin`; else empty.
    public var origin: [UInt8]

    /// A will whose message is such an entry.
    public init(name: WillName, delayInterval: UInt32, message: [UInt8], origin: [UInt8] = []) {
        (self.name, self.delayInterval, self.message, self.origin) = (name, delayInterval, message, origin)
    }

    /// Whether the will is to be retained.
    public var isRetained: Bool { withMessage { $0.retain } ?? false }

    /// Calls `body` with the message; nil if there is none.
    public func withMessage<Result>(_ body: (LogMessage) -> Result) -> Result? {
        message.withUnsafeBytes { bytes in LogMessage(entry: bytes).map(body) }
    }
}

/// Tells the will of a connection from those of the other connections of its session: later ones are greater.
public struct WillName: Hashable, Comparable, Sendable {
    /// By which claim the node kept the session that the client was connected to.
    public var epoch: UInt64
    /// Rises with the connections of a shard.
    public var number: UInt64

    /// That of a connection.
    public init(epoch: UInt64, number: UInt64) { (self.epoch, self.number) = (epoch, number) }

    public static func < (left: WillName, right: WillName) -> Bool { (left.epoch, left.number) < (right.epoch, right.number) }
}

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
