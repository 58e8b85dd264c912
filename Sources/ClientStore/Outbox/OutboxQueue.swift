public import ClientCore
internal import MQTTCodec

/// How much may wait in an outbox.
public struct OutboxBounds: Hashable, Sendable {
    /// Messages, those in flight with them.
    public var messages: Int
    /// Their bytes in the store.
    public var bytes: Int

    public init(messages: Int = 1_000_000, bytes: Int = 1 << 30) { (self.messages, self.bytes) = (messages, bytes) }
}

/// The messages that wait to be sent: which is next, which row goes when.
///
/// ```
///   add ──► adding ──stored──► waiting ──next──► in flight ──settled──► gone
///              └─ notStored ─► gone       ├── withdraw, drop ─────────► gone
///                                         └── too old ────────────────► gone
/// ```
/// A value without store or thread: it says what is to be written and read, and is told what came of it. Of the
/// messages that wait only the first are in memory. Invariant: what `add` gave is in the store from `stored` on until
/// `settled`, `withdraw`, a drop or its age take it out; numbers rise in the order of `add`, and `next` gives them in
/// that order.
public struct OutboxQueue: Sendable {
    var queue: NumberedQueue<OutboxMessage>
    /// In the session's hands: how many bytes each has.
    var inFlight: [UInt64: Int] = [:]
    /// Looks for messages that are too old among those that only the store has.
    var sweep = OutboxSweep()
    public var bounds: OutboxBounds
    /// Waiting and in flight.
    public private(set) var count: Int
    public private(set) var byteCount: Int
    /// When the first message in memory gets too old, or before, in milliseconds since 1970; nil for never.
    public private(set) var nextExpiry: UInt64?
    /// What identifiers of messages begin with.
    private let prefix: String

    /// An outbox as it is in a store.
    ///
    /// - `prefix`: what identifiers of messages begin with; no other outbox and no earlier run of this one has the
    ///   same.
    /// - `stored`: the numbers from the first to the last message in the store; nil for none.
    /// - `measure`: how many these are.
    public init(
        bounds: OutboxBounds = OutboxBounds(), prefix: String, stored: ClosedRange<UInt64>? = nil,
        measure: StoreMeasure = StoreMeasure(rows: 0, bytes: 0)
    ) {
        queue = NumberedQueue(stored: stored)
        (self.bounds, self.prefix, count, byteCount) = (bounds, prefix, measure.rows, measure.bytes)
        if let expiry = measure.leastHead { sweep.expect(expiry) }
    }

    /// As above, with a look into the store.
    public init(
        bounds: OutboxBounds = OutboxBounds(), prefix: String, in storage: any ClientStorage
    ) throws(StoreError) {
        let first = try storage.edge(of: .outbox, isLast: false)
        let last = try storage.edge(of: .outbox, isLast: true)
        let stored: ClosedRange<UInt64>? = if let first, let last, first <= last { first...last } else { nil }
        self.init(
            bounds: bounds, prefix: prefix, stored: stored, measure: try storage.measure(StoreQuery(.outbox)))
    }

    public var inFlightCount: Int { inFlight.count }

    /// How many of those that wait are in memory, and their bytes in the store.
    public var countInMemory: Int { queue.countInMemory }
    public var bytesInMemory: Int { queue.byteCount }

    /// Whether the session has a message.
    public func isInFlight(_ number: UInt64) -> Bool { inFlight[number] != nil }

    /// Whether a message that was in the store waits or is in flight.
    public func contains(_ number: UInt64) -> Bool { inFlight[number] != nil || queue.contains(number) }

    /// How many messages wait before one, those in flight with them.
    public func countAhead(of number: UInt64) -> Int {
        max(0, count - 1 - Int(clamping: queue.lastNumber - min(number, queue.lastNumber)))
    }

    /// Whether a message fits: always if there is no other.
    public func hasRoom(for publication: Publication) -> Bool {
        count == 0 || (count < bounds.messages && byteCount + storedByteCount(publication) <= bounds.bytes)
    }

    /// Adds a message. It is not sent before `stored` is told.
    ///
    /// - `now`: milliseconds since 1970, from which its Message Expiry Interval counts.
    public mutating func add(_ publication: Publication, now: UInt64) -> (message: OutboxMessage, change: StoreChange) {
        var body: [UInt8] = []
        let item = queue.append { number in
            var publication = publication
            if publication.properties.messageIdentifier == nil {
                publication.properties.messageIdentifier = Self.identifier(prefix, number)
            }
            let seconds = publication.properties.messageExpiryInterval
            let message = OutboxMessage(number, publication, expiresAt: seconds.map { now + UInt64($0) * 1000 })
            body = message.row.body
            return (message, body.count)
        }
        count += 1
        byteCount += item.byteCount
        if queue.hasMoreInStore, let expiresAt = item.element.expiresAt { sweep.expect(expiresAt) }
        return (item.element, .put(.outbox, StoreKey(item.number), body))
    }

    /// The store has all messages up to a number.
    public mutating func stored(through number: UInt64) {
        let before = queue.storedThrough
        queue.stored(through: number)
        updateNextExpiry(after: before)
    }

    /// The store had no room for a message.
    public mutating func notStored(_ number: UInt64, byteCount: Int) {
        _ = queue.remove(number)
        remove(byteCount)
    }

    /// What an outbox sends next.
    public enum Next: Hashable, Sendable {
        /// It is in flight from now on.
        case send(OutboxMessage)
        /// It is gone.
        case expired(OutboxMessage)
    }

    /// A message that is too old, or the one whose turn it is; nil if there is none yet.
    ///
    /// - Parameters:
    ///   - now: milliseconds since 1970.
    ///   - maySend: false if only those are asked for that are too old.
    public mutating func next(now: UInt64, maySend: Bool = true) -> Next? {
        if let expired = popExpired(now) { return .expired(expired) }
        guard maySend, let first = queue.popFirst() else { return nil }
        inFlight[first.number] = first.byteCount
        return .send(first.element)
    }

    private mutating func popExpired(_ now: UInt64) -> OutboxMessage? {
        guard let nextExpiry, nextExpiry <= now else { return nil }
        guard let old = queue.popFirst(where: { $0.expiresAt.map { $0 <= now } ?? false }) else {
            lookForExpiry()
            return nil
        }
        remove(old.byteCount)
        return old.element
    }

    private mutating func lookForExpiry() {
        nextExpiry = nil
        updateNextExpiry(after: 0)
    }

    /// Looks at what is in memory beyond a number.
    private mutating func updateNextExpiry(after number: UInt64) {
        for case let expiresAt? in queue.stored(after: number).lazy.map(\.element.expiresAt) {
            nextExpiry = min(nextExpiry ?? .max, expiresAt)
        }
    }

    /// A message that a session has had since an earlier run: it does not come from `next`. To be called before
    /// anything is read.
    public mutating func restore(_ message: OutboxMessage) { inFlight[message.number] = message.row.body.count }

    /// The session is done with a message: what is to be written.
    public mutating func settled(_ number: UInt64) -> StoreChange? {
        guard let bytes = inFlight.removeValue(forKey: number) else { return nil }
        queue.recordRemoval(number)
        sweep.recordRemoval(number)
        remove(bytes)
        return .remove(.outbox, StoreKey(number))
    }

    /// Takes a message back that waits; nil if it is in flight or gone already.
    ///
    /// - `byteCount`: of its row.
    public mutating func withdraw(_ number: UInt64, byteCount: Int) -> StoreChange? {
        guard inFlight[number] == nil, queue.remove(number) else { return nil }
        sweep.recordRemoval(number)
        remove(byteCount)
        return .remove(.outbox, StoreKey(number))
    }

    /// Takes back the message that waits longest; nil if none does, or the store has yet to write or to read it.
    public mutating func dropOldest() -> (message: OutboxMessage, change: StoreChange)? {
        guard let oldest = queue.popFirst() else { return nil }
        remove(oldest.byteCount)
        return (oldest.element, .remove(.outbox, StoreKey(oldest.number)))
    }

    /// The rows to read now; nil for none. Each query is answered by `read`.
    public mutating func nextReading() -> StoreQuery? {
        guard let reading = queue.nextReading() else { return nil }
        // Those in flight since an earlier run are among them.
        return StoreQuery(.outbox, from: StoreKey(reading.from), to: nil, limit: reading.count + inFlight.count)
    }

    /// Takes rows that were read. Returns what is to be written: damaged rows are removed.
    public mutating func read(_ rows: StoreRows, of query: StoreQuery) -> [StoreChange] {
        var items: [NumberedQueue<OutboxMessage>.Item] = []
        var damaged = rows.damages.map(\.key)
        for row in rows.rows {
            guard let message = OutboxMessage(row) else {
                damaged.append(row.key)
                continue
            }
            if inFlight[message.number] == nil {
                items.append(.init(number: message.number, element: message, byteCount: row.body.count))
            }
        }
        let last = (rows.rows.map(\.key) + rows.damages.map(\.key)).compactMap(\.lastNumber).max()
        queue.read(items, through: rows.rows.count + rows.damages.count < query.limit ? nil : last)
        updateNextExpiry(after: 0)
        for _ in damaged { remove(0) }
        return damaged.map { .remove(.outbox, $0) }
    }

    /// What a message will have in the store: what `OutboxMessage.row` makes of it, counted without making it.
    private func storedByteCount(_ publication: Publication) -> Int {
        var count = publication.hasProperties ? publication.properties.encodedContent().count : 0
        if !publication.hasProperties || publication.properties.messageIdentifier == nil {
            // A User Property: one byte that says so, and two texts behind their lengths.
            count += 5 + Properties.messageIdentifierName.bytes.count + Self.identifier(prefix, queue.lastNumber + 1).utf8.count
        }
        return OutboxMessage.byteCount(publication, propertyByteCount: count)
    }

    private static func identifier(_ prefix: String, _ number: UInt64) -> String { "\(prefix)-\(String(number, radix: 36))" }

    mutating func remove(_ bytes: Int) {
        count = max(0, count - 1)
        byteCount = count == 0 ? 0 : max(0, byteCount - bytes)
    }
}

/// When and from where on to look for messages that are too old among those of an outbox that only the store has.
///
/// ```
///   resting ──the earliest is due, and the pause over──► looking: piece after piece ──the last──► resting
/// ```
/// Invariant: while it rests, no message beyond those in memory is too old before `earliest`.
struct OutboxSweep: Sendable {
    /// When the first of them gets too old, or before, in milliseconds since 1970; nil for never.
    private var earliest: UInt64?
    /// Not before that does it look again, in the same milliseconds.
    private var pausesUntil: UInt64 = 0
    /// The number of the next message to look at; nil while the sweep rests.
    private var from: UInt64?
    /// Whether an answer is awaited.
    private var isAsked = false
    private var rowCount = 0
    /// Gone since that was asked, though the answer may have them.
    private var removedSince: Set<UInt64> = []

    /// One is there that gets too old then.
    mutating func expect(_ expiresAt: UInt64) {
        if expiresAt < .max { earliest = min(earliest ?? .max, expiresAt) }
    }

    mutating func recordRemoval(_ number: UInt64) { if isAsked { removedSince.insert(number) } }

    /// When it wants to look; nil for never, or while it does.
    var due: UInt64? { from == nil ? earliest.map { max($0, pausesUntil) } : nil }

    /// From which number on it wants to look now; nil if not now.
    ///
    /// - Parameter first: the number of the first message that only the store has.
    mutating func next(first: UInt64, now: UInt64) -> UInt64? {
        guard !isAsked else { return nil }
        if from == nil {
            guard let due, due <= now else { return nil }
            (from, earliest, rowCount) = (first, nil, 0)
        }
        isAsked = true
        return from.map { max($0, first) }
    }

    /// Whether a message that was in the answer is there still.
    func has(_ number: UInt64) -> Bool { !removedSince.contains(number) }

    /// The answer was looked at.
    ///
    /// - Parameter through: the last number in it; nil if that was the end.
    mutating func looked(_ count: Int, through: UInt64?, now: UInt64) {
        (isAsked, removedSince, from) = (false, [], through.map { $0 + 1 })
        rowCount += count
        if from == nil {
            pausesUntil =
                now + Limits.sweepPauseMilliseconds + UInt64(rowCount / Limits.sweepRowsPerMillisecond)
        }
    }
}

extension OutboxQueue {
    /// When those in the store only are to be looked at, in milliseconds since 1970; nil for never.
    public var nextSweep: UInt64? { queue.hasMoreInStore ? sweep.due : nil }

    /// The rows to read now in search of messages that are too old; nil for none. The query is answered by `swept`.
    public mutating func sweepReading(now: UInt64) -> StoreQuery? {
        guard queue.hasMoreInStore, let from = sweep.next(first: queue.readThrough + 1, now: now) else {
            return nil
        }
        return StoreQuery(.outbox, from: StoreKey(from), to: nil, limit: Limits.sweepRowsMax)
    }

    /// Takes rows that were read. Returns the numbers of those that are too old, which are gone from now on, and what
    /// is to be written.
    public mutating func swept(_ rows: StoreRows, of query: StoreQuery, now: UInt64) -> (
        expired: [UInt64], changes: [StoreChange]
    ) {
        var expired: [UInt64] = []
        for row in rows.rows {
            // Those that were read meanwhile look after themselves.
            guard let number = row.key.lastNumber, number > queue.readThrough, inFlight[number] == nil,
                sweep.has(number)
            else { continue }
            let expiresAt = StoreMeasure.head(row.body)
            guard expiresAt <= now else {
                sweep.expect(expiresAt)
                continue
            }
            expired.append(number)
            queue.recordRemoval(number)
            remove(row.body.count)
        }
        let last = (rows.rows.map(\.key) + rows.damages.map(\.key)).compactMap(\.lastNumber).max()
        let count = rows.rows.count + rows.damages.count
        sweep.looked(count, through: count < query.limit ? nil : last, now: now)
        return (expired, expired.map { .remove(.outbox, StoreKey($0)) })
    }
}

extension Limits {
    /// Milliseconds between two looks through all of an outbox's messages that only the store has, at least. So late is
    /// told at most that one of these is too old, but for the next.
    static let sweepPauseMilliseconds: UInt64 = 1000

    /// Rows that were looked at for which that pause is a millisecond longer, so that looking takes little of the
    /// disk's time: of a million messages it is 200 s.
    static let sweepRowsPerMillisecond = 5
}
