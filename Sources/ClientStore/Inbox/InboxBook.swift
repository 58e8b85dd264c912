internal import Bytes
public import ClientCore

/// What an inbox knows without looking into the store, and what it writes there: messages by conversation, in the order
/// in which they came or were sent, each once.
///
/// A value without store or thread. Its changes are to be committed in the order in which it gives them, and before the
/// server is told that a message was taken. `totals` goes with each commit.
public struct InboxBook: Sendable {
    public let name: String
    public internal(set) var unread = UnreadCount()
    /// How many messages it has, and their bytes in the store.
    public internal(set) var (count, byteCount) = (0, 0)
    /// What an older version, or damage, has left undone: to be written before all else.
    public private(set) var repairs: [StoreChange] = []
    /// Conversations of which the message is to be looked for that stands for them among the recent ones, in no order.
    public internal(set) var unshown: Set<String> = []
    var conversations: [String: ConversationRow] = [:]
    var echoes: OwnEchoes
    private var repeats: Repeats
    private(set) var lastArrival: UInt64 = 0
    let prefix: StoreKey
    /// Of conversations whose newest message is not handed to the store: the recency that it still has there.
    var storedRecency: [String: UInt64] = [:]

    /// An inbox as it is in a store.
    ///
    /// - `capacity`: how many messages are known again when they repeat.
    public init(_ name: String, in storage: any ClientStorage, capacity: Int = 10_000) throws(StoreError) {
        (self.name, prefix, repeats) = (name, StoreKey(name), Repeats(capacity: capacity))
        echoes = OwnEchoes(prefix)
        try readConversations(storage)
        try readArrivals(storage)
        try readTotals(storage)
    }

    /// Takes a message in.
    ///
    /// - `conversation`: what it belongs to; the byte 0 is left out.
    /// - `now`: milliseconds since 1970.
    /// - Returns: the message in its place, nil for one's own that has come back; and what is to be written. Nil for a
    ///   repeat.
    public mutating func arrived(
        _ message: ReceivedMessage, in conversation: String, now: UInt64
    ) -> (message: InboxMessage?, changes: [StoreChange])? {
        let fingerprint = Repeats.Fingerprint(message)
        if repeats.contains(fingerprint, duplicate: message.duplicate) { return nil }
        if fingerprint.identifier == nil, !echoes.isEmpty, let taken = echoes.take(fingerprint.contents, now: now) {
            // Remembered all the same: it may come once more.
            return (nil, taken + remember(fingerprint))
        }
        var changes = remember(fingerprint)
        let conversation = Self.key(conversation)
        var row = conversations[conversation] ?? ConversationRow()
        changes += displace(row.recency, conversation)
        storedRecency[conversation] = nil
        row.last += 1
        row.recency = lastArrival
        row.shown = row.last
        set(row, conversation)
        var publication = Publication(message.topic, message.payload, qos: message.qos, retain: message.retain)
        if message.hasProperties { publication.properties = message.properties }
        let stored = InboxMessage(conversation, row.last, arrivedAt: now, publication)
        return (
            stored,
            changes + keep(stored) + [put(row, conversation), .put(.recent, prefix.number(row.recency), RecentRow.body(stored))]
        )
    }

    /// Somebody has read a conversation up to a message. What was read stays read.
    public mutating func markRead(_ conversation: String, through number: UInt64) -> [StoreChange] {
        guard var row = conversations[conversation], number > row.readThrough, row.readThrough < row.last else { return [] }
        row.read(through: number)
        set(row, conversation)
        return [put(row, conversation)]
    }

    /// The server has forgotten the session.
    public mutating func sessionLost() -> [StoreChange] {
        repeats.sessionLost()
        return [.put(.arrival, Self.boundary(prefix), NumberRow(lastArrival).encodedFields)] + echoes.sessionLost()
    }

    /// How many messages there are, and their bytes.
    public var totals: StoreChange {
        let totals = InboxTotals(count: UInt64(clamping: count), byteCount: UInt64(clamping: byteCount))
        return .put(.kept, Self.boundary(prefix), totals.encodedFields)
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

    /// A conversation's name as it is stored.
    static func key(_ conversation: String) -> String {
        conversation.utf8.contains(0) ? conversation.filter { $0 != "\0" } : conversation
    }

    // MARK: - What all that comes and goes has in common

    mutating func set(_ row: ConversationRow, _ conversation: String) {
        conversations[conversation] = row
        unread[conversation] = row.unread
    }

    func put(_ row: ConversationRow, _ conversation: String) -> StoreChange {
        .put(.conversation, prefix.text(conversation), row.body)
    }

    /// Counts one more arrival.
    mutating func nextArrival() -> UInt64 {
        lastArrival += 1
        return lastArrival
    }

    /// A message counts among those that are there.
    mutating func keep(_ message: InboxMessage) -> [StoreChange] {
        let (key, body) = (prefix.text(message.conversation).number(message.number), message.body)
        let size = key.bytes.count + body.count
        count += 1
        byteCount += size
        return [.put(.inbox, key, body), Self.kept(prefix, message, size)]
    }

    /// A conversation is not where it was any more among the recent ones.
    func displace(_ recency: UInt64, _ conversation: String) -> [StoreChange] {
        [recency, storedRecency[conversation] ?? 0].filter { $0 > 0 }.map { .remove(.recent, prefix.number($0)) }
    }

    /// A message is a repeat from now on.
    mutating func remember(_ fingerprint: Repeats.Fingerprint) -> [StoreChange] {
        repeats.insert(fingerprint)
        lastArrival += 1
        return [
            .put(
                .arrival, prefix.number(lastArrival % UInt64(repeats.capacity)), ArrivalRow(lastArrival, fingerprint).encodedFields)
        ]
    }

    static func kept(_ prefix: StoreKey, _ message: InboxMessage, _ byteCount: Int) -> StoreChange {
        let key = KeptRow.key(prefix, message.arrivedAt, message.conversation, message.number)
        return .put(.kept, key, NumberRow(UInt64(byteCount)).encodedFields)
    }
}

// MARK: - From the store

extension InboxBook {
    private mutating func readConversations(_ storage: any ClientStorage) throws(StoreError) {
        let found = try storage.rows(StoreQuery(.conversation, under: prefix))
        var damaged = found.damages.map(\.key)
        for stored in found.rows {
            guard let row = ConversationRow(stored.body) else {
                damaged.append(stored.key)
                continue
            }
            load(row, stored.key)
        }
        for key in damaged {
            // The messages themselves are right: they are taken for read rather than overwritten.
            var row = ConversationRow()
            row.last = try storage.edge(of: .inbox, under: key, isLast: true) ?? 0
            row.readThrough = row.last
            load(row, key)
        }
    }

    private mutating func load(_ row: ConversationRow, _ key: StoreKey) {
        guard let name = key.text(behind: prefix) else { return }
        let conversation = String(decoding: name, as: UTF8.self)
        set(row, conversation)
        if row.shown == 0 { unshown.insert(conversation) }
        lastArrival = max(lastArrival, row.recency)
    }

    private mutating func readArrivals(_ storage: any ClientStorage) throws(StoreError) {
        let found = try storage.rows(StoreQuery(.arrival, under: prefix))
        let boundary = Self.boundary(prefix)
        var lastBefore: UInt64 = 0
        for row in found.rows where row.key == boundary {
            lastBefore = NumberRow.number(row.body) ?? 0
        }
        var arrivals: [ArrivalRow] = []
        for row in found.rows where row.key != boundary && !echoes.restore(row) {
            if let arrival = ArrivalRow(body: row.body) { arrivals.append(arrival) }
        }
        for arrival in arrivals.sorted(by: { $0.arrival < $1.arrival }) {
            var fingerprint = arrival.fingerprint
            if arrival.arrival <= lastBefore { fingerprint.packetIdentifier = nil }
            repeats.insert(fingerprint)
            lastArrival = max(lastArrival, arrival.arrival)
        }
    }

    private mutating func readTotals(_ storage: any ClientStorage) throws(StoreError) {
        for row in try storage.rows(StoreQuery(.kept, at: Self.boundary(prefix))).rows {
            guard let totals = InboxTotals(body: row.body) else { continue }
            (count, byteCount) = (Int(clamping: totals.count), Int(clamping: totals.byteCount))
            return
        }
        // Without that row, whatever became of it, all is counted anew.
        repairs = [.removeAll(.kept, under: prefix)]
        var from = prefix
        while true {
            let found = try storage.rows(
                StoreQuery(.inbox, from: from, to: prefix.end, limit: Limits.sweepRowsMax))
            for row in found.rows {
                guard let message = InboxMessage(row, of: name) else { continue }
                let size = row.key.bytes.count + row.body.count
                count += 1
                byteCount += size
                repairs.append(Self.kept(prefix, message, size))
            }
            guard found.rows.count + found.damages.count == Limits.sweepRowsMax,
                let last = (found.rows.map(\.key) + found.damages.map(\.key)).max()
            else { break }
            from = StoreKey(bytes: last.bytes + [0])
        }
        if count == 0 { repairs = [] }
        repairs.append(totals)
    }

    /// Where the last arrival stands that came before the server forgot the session; and, in another table, the totals.
    private static func boundary(_ prefix: StoreKey) -> StoreKey { prefix.number(.max) }
}

/// One's own messages, which stand in their conversations beside what has come, and are not unread.
extension InboxBook {
    /// One's own message that has its place and is to be stored.
    public struct Own: Sendable {
        public let message: InboxMessage
        /// The inbox's count of arrivals when it was sent, and that of the message that stood for the conversation
        /// before.
        let recency: UInt64
        let before: UInt64
    }

    /// Whether an inbox has any of one's own: a row, or none.
    public static func anyOwn(_ inbox: String) -> StoreQuery { StoreQuery(.own, under: StoreKey(inbox), limit: 1) }

    /// Gives a message of one's own its place. What is to be written says `changes(for:)`, when the changes of before
    /// are handed over.
    ///
    /// - `now`: milliseconds since 1970.
    public mutating func sent(_ publication: Publication, in conversation: String, now: UInt64) -> Own {
        let conversation = Self.key(conversation)
        var row = conversations[conversation] ?? ConversationRow()
        let before = row.recency
        if storedRecency[conversation] == nil { storedRecency[conversation] = before }
        row.last += 1
        row.recency = nextArrival()
        row.shown = row.last
        row.pass(row.last...row.last)
        set(row, conversation)
        let message = InboxMessage(conversation, row.last, arrivedAt: now, publication)
        count += 1
        byteCount += size(of: message)
        return Own(message: message, recency: row.recency, before: before)
    }

    /// The changes that store a message of one's own.
    ///
    /// - Parameters:
    ///   - own: the message, as it was appended.
    ///   - outbox: its number in the outbox.
    ///   - byteCount: its bytes there.
    public mutating func changes(for own: Own, outbox: UInt64, byteCount: Int) -> [StoreChange] {
        let (message, conversation) = (own.message, own.message.conversation)
        let row = conversations[conversation] ?? ConversationRow()
        var changes: [StoreChange] = [
            .put(.inbox, prefix.text(conversation).number(message.number), message.body),
            Self.kept(prefix, message, size(of: message)),
            OwnMessageRow(.open(outbox, byteCount: byteCount)).put(name, conversation, message.number),
            put(row, conversation),
        ]
        // What has come since stands for the conversation.
        if row.recency == own.recency {
            if let stored = storedRecency[conversation], stored > 0 { changes.append(.remove(.recent, prefix.number(stored))) }
            changes.append(.put(.recent, prefix.number(own.recency), RecentRow.body(message)))
            storedRecency[conversation] = nil
        }
        return changes
    }

    /// A message of one's own could not be stored. Those that were sent last are to be told first.
    public mutating func notSent(_ own: Own) -> [StoreChange] {
        let conversation = own.message.conversation
        count -= 1
        byteCount -= size(of: own.message)
        guard var row = conversations[conversation] else { return [] }
        guard row.recency == own.recency else { return own.before > 0 ? [.remove(.recent, prefix.number(own.before))] : [] }
        storedRecency[conversation] = nil
        row.recency = own.before
        row.shown = 0
        set(row, conversation)
        unshown.insert(conversation)
        return [put(row, conversation)]
    }

    /// A message of one's own is about to leave: what comes back of it is known. To be stored before it leaves.
    ///
    /// - Parameters:
    ///   - number: its number in the outbox.
    ///   - publication: the message.
    ///   - isUnnamed: whether it comes back without its identifier, as before MQTT 5.0.
    ///   - now: milliseconds since 1970.
    public mutating func leaves(_ number: UInt64, _ publication: Publication, isUnnamed: Bool, now: UInt64) -> [StoreChange] {
        let fingerprint = Repeats.Fingerprint(publication)
        return isUnnamed ? echoes.sent(number, contents: fingerprint.contents, now: now) : remember(fingerprint)
    }

    /// The outbox is done with a message of one's own.
    public mutating func settled(_ number: UInt64, isTaken: Bool) -> [StoreChange] {
        echoes.isEmpty ? [] : echoes.settled(number, isTaken: isTaken)
    }

    private func size(of message: InboxMessage) -> Int {
        prefix.text(message.conversation).number(message.number).bytes.count + message.body.count
    }
}

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
    /// - Returns: where they stood, what is to be written, whether there may be more to remove; and when the next is
    ///   too old, in milliseconds since 1970, nil for never.
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

    /// Shows the message that was found to be the newest of a conversation among the recent ones; a conversation
    /// without any goes.
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

extension Limits {
    /// Messages of an inbox that are read at once so as to remove some; then the next so many.
    static let removalRowsMax = 200
}
