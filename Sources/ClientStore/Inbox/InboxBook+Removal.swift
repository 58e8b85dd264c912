internal import ClientCore

/// How much an inbox may keep. What is beyond goes, the oldest first, whether it was read or not.
public struct InboxBounds: Hashable, Sendable {
    /// Messages of all conversations.
    public var messages: Int
    /// Their bytes in the store.
    public var bytes: Int
    /// How long a message is kept, in milliseconds; nil for ever.
    public var milliseconds: UInt64?

    public init(messages: Int = 1_000_000, bytes: Int = 1 << 30, milliseconds: UInt64? = nil) {
        (self.messages, self.bytes, self.milliseconds) = (messages, bytes, milliseconds)
    }
}

/// Messages that go.
extension InboxBook {
    /// Whether more is there than may.
    public func isBeyond(_ bounds: InboxBounds) -> Bool { count > 0 && (count > bounds.messages || byteCount > bounds.bytes) }

    /// The oldest messages, so many as are looked at together.
    public var oldest: StoreQuery { StoreQuery(.kept, under: prefix, limit: Limits.removalRowsMax) }

    /// Removes of the oldest messages those that are too many, or too old.
    ///
    /// - `rows`: what `oldest` has found.
    /// - Returns: where they stood, what is to be written, whether there may be more to remove; and when the next is too old, in milliseconds since
    ///   1970, nil for never.
    public mutating func trim(_ rows: StoreRows, to bounds: InboxBounds, now: UInt64) -> (
        removed: [(conversation: String, number: UInt64)], changes: [StoreChange], hasMore: Bool, next: UInt64?
    ) {
        var removed: [(String, UInt64)] = []
        var changes = rows.damages.map { StoreChange.remove(.kept, $0.key) }
        for row in rows.rows {
            guard let kept = KeptRow(row, of: name) else { continue }
            let end = bounds.milliseconds.map { kept.arrivedAt + min($0, .max - kept.arrivedAt) }
            guard isBeyond(bounds) || end.map({ $0 <= now }) ?? false else { return (removed, changes, false, end) }
            removed.append((kept.conversation, kept.number))
            changes += remove(kept.conversation, kept.number, arrivedAt: kept.arrivedAt, byteCount: kept.byteCount)
        }
        let isFull = rows.rows.count + rows.damages.count == Limits.removalRowsMax
        if !isFull, isBeyond(bounds) { (count, byteCount) = (0, 0) }
        return (removed, changes, isFull, nil)
    }

    /// Messages of a conversation, so many as are removed together, the oldest first.
    public func messages(of conversation: String, _ numbers: ClosedRange<UInt64>) -> StoreQuery {
        let key = prefix.text(Self.key(conversation))
        return StoreQuery(
            .inbox, from: key.number(numbers.lowerBound),
            to: numbers.upperBound == .max ? key.end : key.number(numbers.upperBound + 1),
            limit: Limits.removalRowsMax)
    }

    /// Removes messages of a conversation.
    ///
    /// - `rows`: what `messages(of:_:)` has found.
    /// - Returns: where they stood, what is to be written, and from which number on there may be more; nil for none.
    public mutating func remove(_ rows: StoreRows) -> (
        removed: [(conversation: String, number: UInt64)], changes: [StoreChange], next: UInt64?
    ) {
        var removed: [(String, UInt64)] = []
        var changes = rows.damages.map { StoreChange.remove(.inbox, $0.key) }
        for row in rows.rows {
            guard let message = InboxMessage(row, of: name) else { continue }
            removed.append((message.conversation, message.number))
            changes += remove(
                message.conversation, message.number, arrivedAt: message.arrivedAt,
                byteCount: row.key.bytes.count + row.body.count)
        }
        guard rows.rows.count + rows.damages.count == Limits.removalRowsMax else { return (removed, changes, nil) }
        let last = (rows.rows.map(\.key) + rows.damages.map(\.key)).compactMap(\.lastNumber).max()
        return (removed, changes, last.map { $0 + 1 })
    }

    private mutating func remove(_ conversation: String, _ number: UInt64, arrivedAt: UInt64, byteCount size: Int) -> [StoreChange]
    {
        count = max(0, count - 1)
        byteCount = max(0, byteCount - size)
        let key = prefix.text(conversation).number(number)
        var changes: [StoreChange] = [
            .remove(.inbox, key), .remove(.own, key), .remove(.kept, KeptRow.key(prefix, arrivedAt, conversation, number)),
        ]
        guard var row = conversations[conversation] else { return changes }
        row.pass(number...number)
        if row.shown == number {
            row.shown = 0
            changes.append(.remove(.recent, prefix.number(row.recency)))
            unshown.insert(conversation)
        }
        set(row, conversation)
        return changes + [put(row, conversation)]
    }

    /// The newest message of a conversation.
    public func newest(of conversation: String) -> StoreQuery {
        StoreQuery(.inbox, under: prefix.text(conversation), limit: 1, isDescending: true)
    }

    /// Shows the message that was found to be the newest of a conversation among the recent ones; a conversation without any goes.
    public mutating func show(_ rows: StoreRows, of conversation: String) -> [StoreChange] {
        unshown.remove(conversation)
        // Something has come meanwhile.
        guard var row = conversations[conversation], row.shown == 0 else { return [] }
        guard let message = rows.rows.first.flatMap({ InboxMessage($0, of: name) }) else {
            conversations[conversation] = nil
            unread[conversation] = 0
            return [.remove(.conversation, prefix.text(conversation))]
        }
        if row.recency == 0 { row.recency = nextArrival() }
        row.shown = message.number
        set(row, conversation)
        return [put(row, conversation), .put(.recent, prefix.number(row.recency), RecentRow.body(message))]
    }
}
