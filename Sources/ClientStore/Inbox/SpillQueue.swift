internal import Bytes
public import ClientCore
internal import MQTTCodec

/// The messages of one subscription that wait for its consumer in the store, acknowledged to the server.
///
/// ```
///   arrived ──► adding ──stored──► waiting ──take──► with the consumer ──settled──► gone
/// ```
/// A value without store or thread. Of those that wait only the first are in memory. After a crash what was not settled
/// comes again, in order.
public struct SpillQueue: Sendable {
    private var queue: NumberedQueue<ReceivedMessage>
    private let prefix: StoreKey
    private let subscription: UInt32

    /// What waits in a store for a subscription.
    ///
    /// - `name`: the same for a subscription in every run, such as its filters.
    /// - `subscription`: what tells its tokens from those of others in this run; below 2^20.
    public init(_ name: String, subscription: UInt32, in storage: any ClientStorage) throws(StoreError) {
        (prefix, self.subscription) = (StoreKey(name), subscription)
        let first = try storage.edge(of: .spill, under: prefix, isLast: false)
        let last = try storage.edge(of: .spill, under: prefix, isLast: true)
        let stored: ClosedRange<UInt64>? = if let first, let last, first <= last { first...last } else { nil }
        queue = NumberedQueue(stored: stored)
    }

    /// Whether anything is in the store only, or not in the consumer's hands yet.
    public var isEmpty: Bool { queue.countInMemory == 0 && !queue.hasMoreInStore }

    /// Takes a message in: its number, and what is to be written before the server is told that it was taken.
    ///
    /// - `wallOffset`: what milliseconds since 1970 are ahead of the clock by which messages get too old.
    public mutating func arrived(_ message: ReceivedMessage, wallOffset: UInt64 = 0) -> (number: UInt64, change: StoreChange) {
        var publication = Publication(message.topic, message.payload, qos: message.qos, retain: message.retain)
        if message.hasProperties { publication.properties = message.properties }
        var stored = StoredPublication(publication)
        stored.duplicate = message.duplicate
        if message.expiresAt != .max { stored.expiresAt = message.expiresAt &+ wallOffset }
        let body = stored.encodedFields
        let item = queue.append { number in
            var waiting = message
            waiting.token = AcknowledgementToken(stored: number, for: subscription)
            return (waiting, body.count)
        }
        return (item.number, .put(.spill, prefix.number(item.number), body))
    }

    /// The store has all messages up to a number.
    public mutating func stored(through number: UInt64) { queue.stored(through: number) }

    /// The next message for the consumer, with a token for `settled`; nil if the store has to be read first, or nothing
    /// waits.
    public mutating func take() -> ReceivedMessage? { queue.popFirst()?.element }

    /// The consumer is done with a message.
    public func settled(_ token: AcknowledgementToken) -> StoreChange? {
        token.storedNumber(for: subscription).map { .remove(.spill, prefix.number($0)) }
    }

    /// The consumer has left for good: what waits is gone.
    public var removal: StoreChange { .removeAll(.spill, under: prefix) }

    /// The rows to read now; nil for none. Each query is answered by `read`.
    public mutating func nextReading() -> StoreQuery? {
        queue.nextReading().map { StoreQuery(.spill, from: prefix.number($0.from), to: prefix.end, limit: $0.count) }
    }

    /// Takes rows that were read. Returns what is to be written: damaged rows are removed.
    ///
    /// - `wallOffset`: as above.
    public mutating func read(_ rows: StoreRows, of query: StoreQuery, wallOffset: UInt64 = 0) -> [StoreChange] {
        var items: [NumberedQueue<ReceivedMessage>.Item] = []
        var damaged = rows.damages.map(\.key)
        for row in rows.rows {
            guard let number = row.key.lastNumber, let stored = StoredPublication(body: row.body) else {
                damaged.append(row.key)
                continue
            }
            let publication = stored.publication
            var message = ReceivedMessage(
                topic: publication.topic, payload: publication.payload, qos: publication.qos, retain: publication.retain,
                duplicate: stored.duplicate, token: AcknowledgementToken(stored: number, for: subscription))
            if publication.hasProperties { message.properties = publication.properties }
            if stored.expiresAt != .max { message.expiresAt = max(stored.expiresAt, wallOffset) - wallOffset }
            items.append(.init(number: number, element: message, byteCount: row.body.count))
        }
        let last = (rows.rows.map(\.key) + rows.damages.map(\.key)).compactMap(\.lastNumber).max()
        queue.read(items, through: rows.rows.count + rows.damages.count < query.limit ? nil : last)
        return damaged.map { .remove(.spill, $0) }
    }
}
