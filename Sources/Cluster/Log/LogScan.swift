public import BrokerModel
import Bytes

/// One reading of a partition of the log, for all readers that lack records of it.
///
///     found ──► passed ──► … ──► caughtUp, and found again while something that is wanted has not come
///
/// A record that is wanted has been read on this node before, so it is there; what the stream was found to have says so
/// only of what was wanted by then. Looked for in vain twice, it has gone: the servers have lost it.
public struct LogScan<Reader: Hashable> {
    /// Records of the partition that somebody lacks.
    public struct Want {
        public let reader: Reader
        public let span: LogSpan
        /// How often the stream was found since it is wanted.
        fileprivate var findings = 0

        public init(_ reader: Reader, _ span: LogSpan) { (self.reader, self.span) = (reader, span) }
    }

    public private(set) var wants: [Want]
    /// The last record that was given, or passed over.
    public private(set) var position: UInt64
    /// The last one of the stream as it was found.
    private var last: UInt64 = 0

    public init(_ wants: [Want]) {
        self.wants = wants
        position = wants.map(\.span.after).min() ?? 0
    }

    /// Adds a reader's span. Returns false if the reading is already beyond its beginning.
    public mutating func add(_ want: Want) -> Bool {
        guard want.span.after >= position else { return false }
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
    ///   - counts: whether a reader lacks what it wants and does not get: some look a little farther back than they
    ///     need to.
    /// - Returns: how many that are wanted had gone before they were read.
    public mutating func found(
        first: UInt64, last: UInt64, known: UInt64 = 0, counts: (Reader) -> Bool = { _ in true }
    ) -> UInt64 {
        self.last = last
        for index in wants.indices { wants[index].findings += 1 }
        guard first > position + 1, last > 0 else { return 0 }
        var (count, end): (UInt64, UInt64) = (0, max(position, known))
        position = first - 1
        for want in wants.sorted(by: { $0.span.after < $1.span.after }) where counts(want.reader) {
            let (after, through) = (max(want.span.after, end), min(want.span.through, position))
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
        for want in wants where sequence > want.span.after && sequence <= want.span.through { readers(want.reader) }
        return true
    }

    /// The readers whose records have been given, one for each want.
    public mutating func takeDone() -> [Reader] { take { [position] in $0.span.through <= position } }

    /// Takes note that all records that were found have been given: those that are wanted and have not come are lost.
    /// While `wants` is not empty, the stream is to be found again.
    public mutating func caughtUp() -> [Reader] { take { [last] in $0.span.through <= last || $0.findings > 1 } }

    private mutating func take(where isDone: (Want) -> Bool) -> [Reader] {
        guard wants.contains(where: isDone) else { return [] }
        let done = wants.filter(isDone).map(\.reader)
        wants.removeAll(where: isDone)
        return done
    }
}

/// Says which records of a partition count, to a reader that reads them in the log's order.
///
/// A node sends a queue's records one after the other. One that comes behind a later one of its queue was given up
/// before: nobody was told that it is stored, and what followed it has been read. One that comes a second time was sent
/// again after the servers had forgotten it. One that comes behind the word that its node is gone was on its way for so
/// long that nobody is there any more who would be told; others have acted for that node by what stood before. All
/// these are passed over, by all readers alike. Of records with one will `WillOrder` says whether they count.
public struct LogOrder: Sendable {
    private var last: [Bundle.Origin: UInt64] = [:]
    /// The nodes that are said to be gone, and in which record first.
    private var gone: [NodeID: UInt64] = [:]
    private var wills = WillOrder()

    public init() {}

    /// Begins at a record that another reader has passed. What that reader had read by then about nodes that are gone
    /// counts here too, however far in front it stands.
    public init(from sequence: UInt64, knowing other: LogOrder) { gone = other.gone.filter { $0.value < sequence } }

    /// Whether a record counts; to be asked once for each, in the log's order.
    public mutating func counts(_ bundle: Bundle, at sequence: UInt64) -> Bool {
        guard bundle.origin.queue != Bundle.willQueue else {
            return bundle.entries.wills.reduce(false) { wills.counts($1.session, $1.name) || $0 }
        }
        guard bundle.number > last[bundle.origin] ?? 0, gone[bundle.origin.node] == nil else { return false }
        last[bundle.origin] = bundle.number
        for node in bundle.gone where gone[node] == nil {
            gone[node] = sequence
            for queue in 0..<UInt8(Limits.logQueues) { last[Bundle.Origin(node: node, queue: queue)] = nil }
        }
        return true
    }
}

/// Says which wills count, to a reader that reads them in the log's order: each connection's once, also if the node
/// that was to publish it has died and the next one could not know whether it had.
public struct WillOrder: Sendable {
    private var last: [[UInt8]: WillName] = [:]
    /// The sessions in `last`, in the order of their wills.
    private var order = Deque<(session: [UInt8], name: WillName)>()
    /// Bytes of the sessions in `order`.
    private var byteCount = 0

    public init() {}

    /// Whether the will of a session's connection counts; to be asked once for each, in the log's order.
    public mutating func counts(_ session: [UInt8], _ name: WillName) -> Bool {
        if let last = last[session], name <= last { return false }
        last[session] = name
        order.append((session, name))
        byteCount += session.count
        while order.count > Limits.willsRememberedMax || byteCount > Limits.willsRememberedBytesMax,
            let (oldest, name) = order.popFirst()
        {
            if last[oldest] == name { last[oldest] = nil }
            byteCount -= oldest.count
        }
        return true
    }
}

extension Limits {
    /// Of how many sessions the last will is remembered, so that it does not count twice; the oldest is forgotten for
    /// the next. Bytes: `willsRememberedBytesMax`.
    static let willsRememberedMax = 100_000

    /// Bytes of their Client Identifiers; the oldest are forgotten for the next.
    static let willsRememberedBytesMax = 16 << 20
}
