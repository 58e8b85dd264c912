/// One reading of a partition of the log, for all who lack some of it.
///
///     found ──► passed ──► … ──► caughtUp, and found again while something that is wanted has not come
///
/// A record that is wanted has been read on this node before, so it is there; what the stream was found to have says so only of what was
/// wanted by then. Looked for in vain twice, it has gone: the servers have lost it.
public struct LogScan<Reader: Hashable> {
    /// Records from the one behind `after` through `through`.
    public struct Want {
        public let reader: Reader
        public let after: UInt64
        public let through: UInt64
        /// How often the stream was found since it is wanted.
        fileprivate var findings = 0

        public init(_ reader: Reader, after: UInt64, through: UInt64) {
            (self.reader, self.after, self.through) = (reader, after, through)
        }
    }

    public private(set) var wants: [Want]
    /// The last record that was given, or passed over.
    public private(set) var position: UInt64
    /// The last one of the stream as it was found.
    private var last: UInt64 = 0

    public init(_ wants: [Want]) {
        self.wants = wants
        position = wants.map(\.after).min() ?? 0
    }

    /// Takes one more, unless the reading is beyond its beginning; false then.
    public mutating func add(_ want: Want) -> Bool {
        guard want.after >= position else { return false }
        wants.append(want)
        return true
    }

    public mutating func forget(_ reader: Reader) { wants.removeAll { $0.reader == reader } }

    /// The stream has records from `first` through `last`.
    ///
    /// - Parameters:
    ///   - first: the number of its first one; greater by one than the last in a stream that has become empty.
    ///   - last: 0 in one that never had any.
    ///   - known: what has gone up to here was told before.
    ///   - counts: whether a reader lacks what it wants and does not get: some look a little farther back than they need to.
    /// - Returns: how many that are wanted had gone before they were read.
    public mutating func found(
        first: UInt64, last: UInt64, known: UInt64 = 0, counts: (Reader) -> Bool = { _ in true }
    ) -> UInt64 {
        self.last = last
        for index in wants.indices { wants[index].findings += 1 }
        guard first > position + 1, last > 0 else { return 0 }
        var (count, end): (UInt64, UInt64) = (0, max(position, known))
        position = first - 1
        for want in wants.sorted(by: { $0.after < $1.after }) where counts(want.reader) {
            let (after, through) = (max(want.after, end), min(want.through, position))
            guard after < through else { continue }
            count += through - after
            end = through
        }
        return count
    }

    /// A record has come; false if it had come before. `readers` gets those that want it.
    public mutating func passes(_ sequence: UInt64, _ readers: (Reader) -> Void) -> Bool {
        guard sequence > position else { return false }
        position = sequence
        for want in wants where sequence > want.after && sequence <= want.through { readers(want.reader) }
        return true
    }

    /// The readers whose records have been given, one for each want.
    public mutating func takeDone() -> [Reader] { take { [position] in $0.through <= position } }

    /// All that was found has been given: what of it is wanted and has not come is not there any more. While there are wants left the stream
    /// is to be looked at again.
    public mutating func caughtUp() -> [Reader] { take { [last] in $0.through <= last || $0.findings > 1 } }

    private mutating func take(where isDone: (Want) -> Bool) -> [Reader] {
        guard wants.contains(where: isDone) else { return [] }
        let done = wants.filter(isDone).map(\.reader)
        wants.removeAll(where: isDone)
        return done
    }
}
