/// How far something has been given what stands in a cluster's log.
public struct LogPlaces: Equatable, Sendable {
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
    package init(_ other: LogPlaces, partitions: Int) {
        places = (0..<partitions).map { $0 < other.places.count ? other.places[$0] : nil }
    }

    /// Whether a record is behind what was given.
    package func isNew(_ sequence: UInt64, in partition: Int) -> Bool {
        partition < places.count && places[partition].map { sequence > $0.sequence } ?? false
    }

    /// Whether a record was given before.
    package func holdsBack(_ sequence: UInt64, in partition: Int) -> Bool {
        partition < places.count && places[partition].map { sequence <= $0.sequence } ?? false
    }

    /// A partition ends at this record.
    package mutating func cut(_ partition: Int, at last: UInt64) {
        guard partition < places.count, let place = places[partition], place.sequence > last else { return }
        places[partition]?.sequence = last
    }

    /// These places where they are of the same stream as the other ones, else the other ones.
    package func fitted(to other: LogPlaces) -> LogPlaces {
        var fitted = other
        for index in other.places.indices where index < places.count {
            guard let mine = places[index] else { continue }
            guard let others = other.places[index] else {
                fitted.places[index] = mine
                continue
            }
            if mine.stream == others.stream { fitted.places[index] = mine }
        }
        return fitted
    }

    /// The later of both, partition by partition; of other streams its own.
    package func later(_ other: LogPlaces) -> LogPlaces {
        var later = self
        for index in places.indices where index < other.places.count {
            guard let others = other.places[index] else { continue }
            guard let mine = places[index] else {
                later.places[index] = others
                continue
            }
            if mine.stream == others.stream, others.sequence > mine.sequence { later.places[index] = others }
        }
        return later
    }

    /// Whether some place is before the other one's in the same stream.
    package func isBehind(_ other: LogPlaces) -> Bool { !spans(through: other).isEmpty }

    /// What stands between this and a later place of the same stream.
    package func spans(through other: LogPlaces) -> [LogSpan] {
        places.indices.compactMap { index in
            guard let mine = places[index], index < other.places.count, let others = other.places[index],
                mine.stream == others.stream, mine.sequence < others.sequence
            else { return nil }
            return LogSpan(partition: index, after: mine.sequence, through: others.sequence)
        }
    }

    /// The earlier of both, partition by partition; of a partition that only one of them knows, that.
    package func earlier(_ other: LogPlaces) -> LogPlaces {
        var earlier = self
        for index in places.indices {
            guard let mine = places[index], index < other.places.count, let others = other.places[index] else {
                if places[index] == nil, index < other.places.count { earlier.places[index] = other.places[index] }
                continue
            }
            if others.sequence < mine.sequence { earlier.places[index] = others }
        }
        return earlier
    }
}
