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
/// A value without store or thread: it says what is to be written and read, and is told what came of it. Of the messages that wait only the
/// first are in memory. Invariant: what `add` gave is in the store from `stored` on until `settled`, `withdraw`, a drop or its age take it out;
/// numbers rise in the order of `add`, and `next` gives them in that order.
public struct OutboxQueue: Sendable {
    private var queue: NumberedQueue<OutboxMessage>
    /// In the session's hands: how many bytes each has.
    private var inFlight: [UInt64: Int] = [:]
    public var bounds: OutboxBounds
    /// Waiting and in flight.
    public private(set) var count: Int
    public private(set) var byteCount: Int
    /// When the first message in memory gets too old, or before, in milliseconds since 1970; nil for never. Those in the store only are looked
    /// at when they are read.
    public private(set) var nextExpiry: UInt64?
    /// What identifiers of messages begin with.
    private let prefix: String

    /// An outbox as it is in a store.
    ///
    /// - `prefix`: what identifiers of messages begin with; no other outbox and no earlier run of this one has the same.
    /// - `stored`: the numbers from the first to the last message in the store; nil for none.
    /// - `measure`: how many these are.
    public init(
        bounds: OutboxBounds = OutboxBounds(), prefix: String, stored: ClosedRange<UInt64>? = nil,
        measure: StoreMeasure = StoreMeasure(rows: 0, bytes: 0)
    ) {
        queue = NumberedQueue(stored: stored)
        (self.bounds, self.prefix, count, byteCount) = (bounds, prefix, measure.rows, measure.bytes)
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
        return (item.element, .put(.outbox, StoreKey(item.number), body))
    }

    /// The store has all messages up to a number.
    public mutating func stored(through number: UInt64) {
        let before = queue.storedThrough
        queue.stored(through: number)
        noteExpiry(after: before)
    }

    /// The store had no room for a message.
    public mutating func notStored(_ number: UInt64, byteCount: Int) {
        _ = queue.remove(number)
        remove(byteCount)
    }

    /// What is next.
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
        noteExpiry(after: 0)
    }

    /// Looks at what is in memory beyond a number.
    private mutating func noteExpiry(after number: UInt64) {
        for case let expiresAt? in queue.stored(after: number).lazy.map(\.element.expiresAt) {
            nextExpiry = min(nextExpiry ?? .max, expiresAt)
        }
    }

    /// A message that a session has had since an earlier run: it does not come from `next`. To be called before anything is read.
    public mutating func restore(_ message: OutboxMessage) { inFlight[message.number] = message.row.body.count }

    /// The session is done with a message: what is to be written.
    public mutating func settled(_ number: UInt64) -> StoreChange? {
        guard let bytes = inFlight.removeValue(forKey: number) else { return nil }
        queue.noteRemoval(number)
        remove(bytes)
        return .remove(.outbox, StoreKey(number))
    }

    /// Takes a message back that waits; nil if it is in flight or gone already.
    ///
    /// - `byteCount`: of its row.
    public mutating func withdraw(_ number: UInt64, byteCount: Int) -> StoreChange? {
        guard inFlight[number] == nil, queue.remove(number) else { return nil }
        remove(byteCount)
        return .remove(.outbox, StoreKey(number))
    }

    /// Takes back the message that waits longest; nil if none does, or the store has yet to write or to read it.
    public mutating func dropOldest() -> (message: OutboxMessage, change: StoreChange)? {
        guard let oldest = queue.popFirst() else { return nil }
        remove(oldest.byteCount)
        return (oldest.element, .remove(.outbox, StoreKey(oldest.number)))
    }

    /// What is to be read now; nil for nothing. Each is to be answered by `read`.
    public mutating func nextReading() -> StoreQuery? {
        guard let reading = queue.nextReading() else { return nil }
        // Those in flight since an earlier run are among them.
        return StoreQuery(.outbox, from: StoreKey(reading.from), to: nil, limit: reading.count + inFlight.count)
    }

    /// What was read. Returns what is to be written: damaged rows go.
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
        noteExpiry(after: 0)
        for _ in damaged { remove(0) }
        return damaged.map { .remove(.outbox, $0) }
    }

    /// What a message will have in the store: what `OutboxMessage.row` makes of it, counted without making it.
    private func storedByteCount(_ publication: Publication) -> Int {
        var count = 17 + publication.topic.bytes.count + publication.payload.count
        if publication.hasProperties { count += publication.properties.encodedContent().count }
        if !publication.hasProperties || publication.properties.messageIdentifier == nil {
            // A User Property: one byte that says so, and two texts behind their lengths.
            count += 5 + Properties.messageIdentifierName.bytes.count + Self.identifier(prefix, queue.lastNumber + 1).utf8.count
        }
        return count
    }

    private static func identifier(_ prefix: String, _ number: UInt64) -> String { "\(prefix)-\(String(number, radix: 36))" }

    private mutating func remove(_ bytes: Int) {
        count = max(0, count - 1)
        byteCount = count == 0 ? 0 : max(0, byteCount - bytes)
    }
}
