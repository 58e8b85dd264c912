/// The tables of a client's store.
///
/// What a key is made of stands behind each; the rows' bodies are made and read by the types named there.
public enum StoreTable: UInt8, CaseIterable, Sendable {
    /// What the client is: name (`IdentityRow`).
    case identity
    /// What it knows of its session: name (`SessionRecords`).
    case session
    /// Messages of QoS 1 and 2 on their way to the server: packet identifier.
    case outgoing
    /// Messages of QoS 2 that the server has to release: packet identifier.
    case incoming
    /// Messages that wait to be sent: number (`OutboxMessage`).
    case outbox
    /// Messages that inboxes have: inbox, conversation, number (`InboxMessage`).
    case inbox
    /// What inboxes know of their conversations: inbox, conversation (`ConversationRow`).
    case conversation
    /// Conversations by their last message: inbox, that message's count of arrivals (`RecentRow`).
    case recent
    /// What an inbox remembers so as to know repeats: inbox, arrival within a ring (`ArrivalRow`).
    case arrival
    /// Entries of collections: endpoint, topic (`EntryRow`).
    case entry
    /// What the server has granted: filter.
    case subscription
    /// Messages that wait for a consumer: subscription, number (`SpillQueue`).
    case spill
    /// What messages of the outbox belong to: number in the outbox (`OutboxOwner`).
    case owner
    /// What became of one's own messages in inboxes: inbox, conversation, number (`OwnMessageRow`).
    case own
    /// Messages of inboxes by their age: inbox, arrived at, conversation, number (`KeptRow`).
    case kept
    /// Messages that the server has refused, until their owner has seen them: number (`RefusedRow`).
    case refusal
    /// Answers to requests that are given again: scope, topic, hash (`AnswerRow`).
    case answer

    public var name: String { Self.names[Int(rawValue)] }

    private static let names = allCases.map { "\($0)" }
}

/// A change to a store.
public enum StoreChange: Sendable {
    /// Adds a row, or gives it another body.
    case put(StoreTable, StoreKey, [UInt8])
    /// Removes a row; one that is not there is none.
    case remove(StoreTable, StoreKey)
    /// Removes all rows from one key up to another, without that, or up to the end.
    case removeRange(StoreTable, from: StoreKey, to: StoreKey?)

    /// Bytes of the row that it writes, without its key.
    public var byteCount: Int { if case .put(_, _, let body) = self { body.count } else { 0 } }

    /// Removes all rows whose keys begin with one.
    public static func removeAll(_ table: StoreTable, under prefix: StoreKey = StoreKey()) -> StoreChange {
        .removeRange(table, from: prefix, to: prefix.end)
    }
}

/// Changes that are made durable together: all of them or none.
public struct StoreBatch: Sendable {
    public var changes: [StoreChange]
    /// Whether it waits while there is no room; if not, it fails then.
    public var waitsForRoom: Bool
    /// Whether nobody waits for it: then it may be made durable together with the next that somebody waits for, or a little later alone.
    public var isLazy: Bool

    public init(_ changes: [StoreChange] = [], waitsForRoom: Bool = true, isLazy: Bool = false) {
        (self.changes, self.waitsForRoom, self.isLazy) = (changes, waitsForRoom, isLazy)
    }

    public var isEmpty: Bool { changes.isEmpty }
}

/// Which rows are asked for.
public struct StoreQuery: Sendable {
    public var table: StoreTable
    public var from: StoreKey
    /// The first key that is not asked for; nil for none.
    public var to: StoreKey?
    public var limit: Int
    /// Whether the last come first.
    public var isDescending: Bool

    public init(_ table: StoreTable, from: StoreKey, to: StoreKey?, limit: Int = .max, isDescending: Bool = false) {
        (self.table, self.from, self.to, self.limit, self.isDescending) = (table, from, to, limit, isDescending)
    }

    /// All rows whose keys begin with one.
    public init(_ table: StoreTable, under prefix: StoreKey = StoreKey(), limit: Int = .max, isDescending: Bool = false) {
        self.init(table, from: prefix, to: prefix.end, limit: limit, isDescending: isDescending)
    }

    /// One row.
    public init(_ table: StoreTable, at key: StoreKey) {
        self.init(table, from: key, to: StoreKey(bytes: key.bytes + [0]), limit: 1)
    }
}

/// A row of a store.
public struct StoreRow: Hashable, Sendable {
    public var key: StoreKey
    public var body: [UInt8]

    public init(_ key: StoreKey, _ body: [UInt8]) { (self.key, self.body) = (key, body) }
}

/// What a query found.
public struct StoreRows: Sendable {
    public var rows: [StoreRow]
    /// Rows that are not what was written. They are left out.
    public var damages: [StoreDamage]

    public init(_ rows: [StoreRow] = [], damages: [StoreDamage] = []) { (self.rows, self.damages) = (rows, damages) }
}

/// A row that is not what was written.
public struct StoreDamage: Hashable, Sendable, CustomStringConvertible {
    public var table: StoreTable
    public var key: StoreKey

    public init(_ table: StoreTable, _ key: StoreKey) { (self.table, self.key) = (table, key) }

    public var description: String { "\(table.name) \(key) is damaged" }
}

/// How many rows there are, how many bytes their bodies have, and the least of what they begin with.
public struct StoreMeasure: Hashable, Sendable {
    public var rows: Int
    public var bytes: Int
    /// The first eight bytes of the least body, as a number; 0 for a shorter one, nil without rows.
    public var leastHead: UInt64?

    public init(rows: Int, bytes: Int, leastHead: UInt64? = nil) {
        (self.rows, self.bytes, self.leastHead) = (rows, bytes, leastHead)
    }

    /// What a body begins with, of which at least eight bytes are to be there.
    public static func head(_ body: some Collection<UInt8>) -> UInt64 {
        body.count < 8 ? 0 : body.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
