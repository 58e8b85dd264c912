/// How far a session has come with what stands in a cluster's log, as its node puts that into the log itself: whoever
/// takes the session up gives it nothing of what stands before.
///
/// It holds what the session's record in the cluster holds, and is a few bytes there, so that each session's can be
/// written each second.
public struct SessionProgress: Hashable, Sendable {
    /// A message of QoS 2 that has come and is not released.
    public struct Receipt: Hashable, Sendable {
        public var packetIdentifier: UInt16
        /// Tells the message from others.
        public var digest: UInt32

        /// The receipt of a message with this packet identifier, which is not 0.
        public init(packetIdentifier: UInt16, digest: UInt32) {
            (self.packetIdentifier, self.digest) = (packetIdentifier, digest)
        }
    }

    /// By partition: the last record behind which the session may have something left to do; 0 for none.
    public var sequences: [UInt64]
    /// Tells the streams of the partitions from others of their names.
    public var streams: UInt32
    /// In the order of their packet identifiers.
    public var receipts: [Receipt]
    /// In the partition of the session's own steps: the last record behind which a subscription may stand that the
    /// session's record in the cluster has not; nil for none.
    public var subscriptionsAfter: UInt64?

    /// As it stands in the log.
    public init(sequences: [UInt64], streams: UInt32, receipts: [Receipt] = [], subscriptionsAfter: UInt64? = nil) {
        (self.sequences, self.streams, self.receipts) = (sequences, streams, receipts)
        self.subscriptionsAfter = subscriptionsAfter
    }

    /// The same of positions, as the node that writes it knows them.
    public init(_ positions: LogPositions, receipts: [Receipt] = []) {
        self.init(
            sequences: positions.places.map { $0?.sequence ?? 0 }, streams: Self.digest(of: positions), receipts: receipts)
    }

    /// The positions, for somebody who reads the log himself; nil if they are of other streams than he reads.
    ///
    /// - Parameter read: up to where he has read.
    public func positions(in read: LogPositions) -> LogPositions? {
        guard sequences.count == read.places.count, streams == Self.digest(of: read) else { return nil }
        var positions = read
        for index in positions.places.indices { positions.places[index]?.sequence = sequences[index] }
        return positions
    }

    private static func digest(of positions: LogPositions) -> UInt32 {
        let digest = positions.places.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ ($1?.stream ?? 0)) &* 0x100_0000_01b3 }
        return UInt32(truncatingIfNeeded: digest ^ digest >> 32)
    }
}

/// A subscription of a session, as the cluster's log has it until the session's record does.
public struct SessionSubscription: Hashable, Sendable {
    /// Without `$share/NAME/`: those stand in the record before they count.
    public var filter: [UInt8]
    /// As its row in the store has them.
    public var terms: UInt32
    /// Whether the client is to get the retained messages that match.
    public var wantsRetained: Bool

    /// A subscription to topics that this filter matches.
    public init(filter: [UInt8], terms: UInt32, wantsRetained: Bool) {
        (self.filter, self.terms, self.wantsRetained) = (filter, terms, wantsRetained)
    }
}
