public import ClientCore

/// What an inbox knows without looking into the store, and what it writes there: messages by conversation, in the order in which they came,
/// each once.
///
/// A value without store or thread. Its changes are to be committed in the order in which it gives them, and before the server is told that a
/// message was taken.
public struct InboxBook: Sendable {
    public let name: String
    public private(set) var unread = UnreadCount()
    private var conversations: [String: ConversationRow] = [:]
    private var repeats: Repeats
    private var lastArrival: UInt64 = 0
    private let prefix: StoreKey

    /// An inbox as it is in a store.
    ///
    /// - `capacity`: how many messages are known again when they repeat.
    public init(_ name: String, in storage: any ClientStorage, capacity: Int = 10_000) throws(StoreError) {
        (self.name, prefix, repeats) = (name, StoreKey(name), Repeats(capacity: capacity))
        try readConversations(storage)
        try readArrivals(storage)
    }

    /// Takes a message in.
    ///
    /// - `conversation`: what it belongs to; the byte 0 is left out.
    /// - `now`: milliseconds since 1970.
    /// - Returns: the message in its place, and what is to be written; nil for a repeat.
    public mutating func arrived(
        _ message: ReceivedMessage, in conversation: String, now: UInt64
    ) -> (message: InboxMessage, changes: [StoreChange])? {
        let mark = Repeats.Mark(message)
        if repeats.contains(mark, duplicate: message.duplicate) { return nil }
        repeats.insert(mark)
        lastArrival += 1
        let conversation = conversation.utf8.contains(0) ? conversation.filter { $0 != "\0" } : conversation
        var row = conversations[conversation] ?? ConversationRow()
        let before = row
        row.last += 1
        row.recency = lastArrival
        conversations[conversation] = row
        unread[conversation] = row.unread
        var publication = Publication(message.topic, message.payload, qos: message.qos, retain: message.retain)
        if message.hasProperties { publication.properties = message.properties }
        let stored = InboxMessage(conversation, row.last, arrivedAt: now, publication)
        let key = prefix.text(conversation)
        var changes: [StoreChange] = [
            .put(.inbox, key.number(row.last), stored.body), .put(.conversation, key, row.body),
            .put(.recent, prefix.number(row.recency), RecentRow.body(stored)),
            .put(.arrival, prefix.number(lastArrival % UInt64(repeats.capacity)), ArrivalRow(lastArrival, mark).body),
        ]
        if before.recency > 0 { changes.append(.remove(.recent, prefix.number(before.recency))) }
        return (stored, changes)
    }

    /// Somebody has read a conversation up to a message. What was read stays read.
    public mutating func markRead(_ conversation: String, through number: UInt64) -> [StoreChange] {
        guard var row = conversations[conversation], number > row.readThrough else { return [] }
        row.readThrough = min(number, row.last)
        conversations[conversation] = row
        unread[conversation] = row.unread
        return [.put(.conversation, prefix.text(conversation), row.body)]
    }

    /// The server has forgotten the session.
    public mutating func sessionLost() -> [StoreChange] {
        repeats.sessionLost()
        var writer = RowWriter()
        writer.write(lastArrival)
        return [.put(.arrival, Self.boundary(prefix), writer.bytes)]
    }

    /// The conversations with the latest messages first.
    public static func recent(_ inbox: String, limit: Int) -> StoreQuery {
        StoreQuery(.recent, under: StoreKey(inbox), limit: limit, isDescending: true)
    }

    /// Messages of a conversation, the latest first.
    ///
    /// - `number`: only those before it; nil for all.
    public static func messages(_ inbox: String, in conversation: String, before number: UInt64?, limit: Int) -> StoreQuery {
        let key = StoreKey(inbox).text(conversation)
        return StoreQuery(.inbox, from: key, to: number.map { key.number($0) } ?? key.end, limit: limit, isDescending: true)
    }

    private mutating func readConversations(_ storage: any ClientStorage) throws(StoreError) {
        let found = try storage.rows(StoreQuery(.conversation, under: prefix))
        var damaged = found.damages.map(\.key)
        for stored in found.rows {
            guard let row = ConversationRow(stored.body) else {
                damaged.append(stored.key)
                continue
            }
            take(row, stored.key)
        }
        for key in damaged {
            // The messages themselves are right: they are taken for read rather than overwritten.
            var row = ConversationRow()
            row.last = try storage.edge(of: .inbox, under: key, isLast: true) ?? 0
            row.readThrough = row.last
            take(row, key)
        }
    }

    private mutating func take(_ row: ConversationRow, _ key: StoreKey) {
        guard let name = key.text(behind: prefix) else { return }
        let conversation = String(decoding: name, as: UTF8.self)
        conversations[conversation] = row
        unread[conversation] = row.unread
        lastArrival = max(lastArrival, row.recency)
    }

    private mutating func readArrivals(_ storage: any ClientStorage) throws(StoreError) {
        let found = try storage.rows(StoreQuery(.arrival, under: prefix))
        let boundary = Self.boundary(prefix)
        var lastBefore: UInt64 = 0
        for row in found.rows where row.key == boundary {
            var reader = RowReader(row.body)
            lastBefore = reader.number(UInt64.self) ?? 0
        }
        let arrivals = found.rows.filter { $0.key != boundary }.compactMap { ArrivalRow($0.body) }.sorted {
            $0.arrival < $1.arrival
        }
        for arrival in arrivals {
            var mark = arrival.mark
            if arrival.arrival <= lastBefore { mark.packetIdentifier = nil }
            repeats.insert(mark)
            lastArrival = max(lastArrival, arrival.arrival)
        }
    }

    /// Where the last arrival stands that came before the server forgot the session.
    private static func boundary(_ prefix: StoreKey) -> StoreKey { prefix.number(.max) }
}

extension ConversationRow {
    /// Messages are never removed: numbers have no gaps.
    fileprivate var unread: Int { Int(clamping: last - min(readThrough, last)) }
}
