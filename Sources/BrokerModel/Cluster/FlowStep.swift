/// A step of a QoS 2 flow of a client that lasts, in either direction, or what a share group has dispatched to it. It
/// stands in the cluster's log, so that whoever keeps the session next takes no message twice, sends none twice, and
/// lacks none. [MQTT-4.3.3-10 v5] [MQTT-4.3.3-1 v5]
public struct FlowStep: Equatable, Sendable {
    /// The order of a session's steps, whatever partition each stands in.
    public struct Place: Hashable, Comparable, Sendable {
        /// By which claim the node kept the session that has taken the step.
        public var epoch: UInt64
        /// Rises with a shard's steps, also over a restart, as long as its clock is not set back; the shard is the
        /// lowest byte.
        public var number: UInt64

        public init(epoch: UInt64, number: UInt64) { (self.epoch, self.number) = (epoch, number) }

        /// Before all steps.
        public static let start = Place(epoch: 0, number: 0)

        /// Just before this one.
        package var before: Place { Place(epoch: epoch, number: number - 1) }

        public static func < (left: Place, right: Place) -> Bool { (left.epoch, left.number) < (right.epoch, right.number) }
    }

    public enum Kind: Hashable, Sendable {
        /// A message came, which is told from others by its digest; 0 for unknown.
        case received(digest: UInt32)
        /// PUBREL came.
        case released
        /// The client is about to be sent a message with the packet identifier, which is free for that.
        case sent(MessageName)
        /// PUBREC came for what was sent with it.
        case acknowledged
        /// A share group has dispatched to the session a message, of QoS 1 or 2, which waits for its client; with
        /// packet identifier 0.
        case dispatched(MessageName)
        /// Nothing, with packet identifier 0: its node takes the session up from the log, of which it has read
        /// everything when it reads this, in each partition.
        case mark
        /// How far the session has come with all that stands in the log, with packet identifier 0. The step's place is
        /// that of the last one which the receipts in it count.
        indirect case progress(SessionProgress)
        /// The client has subscribed, with packet identifier 0.
        indirect case subscribed(SessionSubscription)
        /// It has ended the subscription of this filter, with packet identifier 0.
        case unsubscribed(filter: [UInt8])
    }

    /// Whether the step is one of a message to the client.
    public var isOfDelivery: Bool {
        switch kind {
        case .sent, .acknowledged, .dispatched: true
        case .received, .released, .mark, .progress, .subscribed, .unsubscribed: false
        }
    }

    /// How far the session has come, if the step says that.
    public var progress: SessionProgress? {
        if case .progress(let progress) = kind { progress } else { nil }
    }

    /// Whether the step is one of the session as a whole, and matters to who takes that up alone.
    public var isOfSession: Bool {
        switch kind {
        case .progress, .subscribed, .unsubscribed: true
        case .received, .released, .sent, .acknowledged, .dispatched, .mark: false
        }
    }

    /// The message that a session is sent, or was dispatched; nil of other steps.
    package var name: MessageName? {
        switch kind {
        case .sent(let name), .dispatched(let name): name
        case .received, .released, .acknowledged, .mark, .progress, .subscribed, .unsubscribed: nil
        }
    }

    public var place: Place
    public var packetIdentifier: UInt16
    public var kind: Kind
    /// Of a message to the client: identifiers whose flows have ended with PUBCOMP before this, and since the step
    /// before.
    public var finished: [UInt16] = []

    public init(_ kind: Kind, _ packetIdentifier: UInt16, at place: Place) {
        (self.kind, self.packetIdentifier, self.place) = (kind, packetIdentifier, place)
    }
}

/// Names a message of a cluster's log, on all nodes alike: its partition, its record there, and its place in that.
///
///     record 36 bits │ share 7 │ place 13 │ partition 8        0 for none
///
/// Of the record's number there are the lowest bits: that tells it from all that a log holds at a time. A record of 32
/// KiB has fewer messages than a place can say. What a share group dispatches to a session is another message to it
/// than what its own subscriptions or another group bring: share says by which of the message's share groups, from 1
/// on; 0 for none of them.
public struct MessageName: Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt64

    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// - Parameters:
    ///   - partition: from 0.
    ///   - sequence: the record's number, from 1.
    ///   - index: how many messages stand before it in the record.
    public init(partition: Int, sequence: UInt64, index: Int) {
        rawValue = sequence << 28 | UInt64(index & 0x1fff) << 8 | UInt64(partition & 0xff)
    }

    /// The name of a message that stands in no log.
    public static let none = MessageName(rawValue: 0)

    /// The name of the message as one of its share groups dispatches it.
    ///
    /// - Parameter share: which one of those that stand with it in the log, from 0. All from
    ///   `SharedLimits.namedSharesMax` on have one name.
    package func dispatched(by share: Int) -> MessageName {
        MessageName(rawValue: asPublished.rawValue | UInt64(min(share, SharedLimits.namedSharesMax) + 1) << 21)
    }

    /// The name of the message as a session's own subscriptions bring it.
    package var asPublished: MessageName { MessageName(rawValue: rawValue & ~Self.shareMask) }

    /// Which of its share groups has dispatched to it; nil if none has.
    package var share: Int? { isDispatched ? Int(rawValue >> 21 & 0x7f) - 1 : nil }

    /// Whether a share group has dispatched to it.
    package var isDispatched: Bool { rawValue & Self.shareMask != 0 }

    package var partition: Int { Int(rawValue & 0xff) }

    /// The record's number, which is before `place` or not far behind it.
    package func sequence(near place: UInt64) -> UInt64 {
        let ahead = (rawValue >> 28 &- place) & Self.recordBits
        return ahead <= Self.recordBits / 2 ? place &+ ahead : place &- (Self.recordBits + 1 - ahead)
    }

    private static let shareMask: UInt64 = 0x7f << 21
    private static let recordBits: UInt64 = 0xf_ffff_ffff
}

/// Up to which records of a cluster's log something has been given, by partition.
public struct LogPositions: Equatable, Sendable {
    /// A place in one partition.
    public struct Place: Equatable, Sendable {
        /// The number of the last record that counts as given.
        public var sequence: UInt64
        /// Tells the stream from another one of its name; never 0.
        public var stream: UInt64

        public init(sequence: UInt64, stream: UInt64) { (self.sequence, self.stream) = (sequence, stream) }
    }

    /// By partition; nil where reading has not begun yet.
    public var places: [Place?]

    public init(partitions: Int) { places = Array(repeating: nil, count: partitions) }

    /// The places of another value, for so many partitions.
    package init(_ other: LogPositions, partitions: Int) {
        places = (0..<partitions).map { $0 < other.places.count ? other.places[$0] : nil }
    }

    /// Whether a record has not been given yet.
    package func isNew(_ sequence: UInt64, in partition: Int) -> Bool {
        partition < places.count && places[partition].map { sequence > $0.sequence } ?? false
    }

    /// Whether a record was given before.
    package func holdsBack(_ sequence: UInt64, in partition: Int) -> Bool {
        partition < places.count && places[partition].map { sequence <= $0.sequence } ?? false
    }

    /// Cuts a partition off that ends at this record.
    package mutating func cut(_ partition: Int, at last: UInt64) {
        guard partition < places.count, let place = places[partition], place.sequence > last else { return }
        places[partition]?.sequence = last
    }

    /// These places where they are of the same stream as the other ones, else the other ones.
    package func fitted(to other: LogPositions) -> LogPositions {
        var fitted = other
        for (index, mine) in places.enumerated() where index < other.places.count {
            guard let mine else { continue }
            if other.places[index].map({ $0.stream == mine.stream }) ?? true { fitted.places[index] = mine }
        }
        return fitted
    }

    /// The later of both, partition by partition; of other streams its own.
    package func later(_ other: LogPositions) -> LogPositions {
        var later = self
        for (index, others) in other.places.enumerated() where index < places.count {
            guard let others else { continue }
            let isLater = places[index].map { $0.stream == others.stream && $0.sequence < others.sequence } ?? true
            if isLater { later.places[index] = others }
        }
        return later
    }

    /// Whether some place is before the other one's in the same stream.
    package func isBehind(_ other: LogPositions) -> Bool { !spans(through: other).isEmpty }

    /// What stands between this and a later place of the same stream.
    package func spans(through other: LogPositions) -> [LogSpan] {
        places.indices.compactMap { index in
            guard let mine = places[index], index < other.places.count, let others = other.places[index],
                mine.stream == others.stream, mine.sequence < others.sequence
            else { return nil }
            return LogSpan(partition: index, after: mine.sequence, through: others.sequence)
        }
    }

    /// The earlier of both, partition by partition; of a partition that only one of them knows, that.
    package func earlier(_ other: LogPositions) -> LogPositions {
        var earlier = self
        for (index, others) in other.places.enumerated() where index < places.count {
            guard let others else { continue }
            if places[index].map({ others.sequence < $0.sequence }) ?? true { earlier.places[index] = others }
        }
        return earlier
    }
}
