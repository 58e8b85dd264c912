internal import Platform

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
    /// Whether nobody waits for it: then it may be made durable together with the next that somebody waits for, or a
    /// little later alone.
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

/// What a ``MemoryStore`` writes to. It outlives the client that uses it, as a disk does.
public final class MemoryDisk: Sendable {
    /// The rows, and who has them.
    struct State {
        var tables = [[StoreKey: [UInt8]]](repeating: [:], count: StoreTable.allCases.count)
        /// The keys of each table in their order, nil where that is not known.
        var order = [[StoreKey]?](repeating: nil, count: StoreTable.allCases.count)
        var damaged: Set<DamagedRow> = []
        var bytes = 0
        var bytesMax: Int?
        var isTaken = false
    }

    struct DamagedRow: Hashable {
        let table: StoreTable
        let key: StoreKey
    }

    public let name: String
    let state = Locked(State())

    public init(_ name: String = "memory") { self.name = name }

    private static let disks = Locked<[String: MemoryDisk]>([:])

    /// The disk of that name, for as long as the process lives.
    public static func named(_ name: String) -> MemoryDisk {
        disks.withLock { disks in
            let disk = disks[name] ?? MemoryDisk(name)
            disks[name] = disk
            return disk
        }
    }

    /// How many bytes of keys and bodies there is room for; nil for any number.
    public var bytesMax: Int? {
        get { state.withLock(\.bytesMax) }
        set { state.withLock { $0.bytesMax = newValue } }
    }

    /// A table's rows, in no order: what would outlive a crash.
    package func rows(of table: StoreTable) -> [StoreRow] {
        state.withLock { $0.tables[Int(table.rawValue)].map { StoreRow($0.key, $0.value) } }
    }

    /// Lets a row be found damaged from now on, until it is written again.
    public func damage(_ table: StoreTable, _ key: StoreKey) {
        state.withLock { _ = $0.damaged.insert(DamagedRow(table: table, key: key)) }
    }
}

/// A store in memory, for tests and simulation: a test may hold commits back, complete them one by one, or lose those
/// that are held.
public final class MemoryStore: ClientStorage {
    private enum Work: Sendable {
        case commit(StoreBatch, @Sendable (StoreError?) -> Void)
        case read(StoreQuery, @Sendable (Result<StoreRows, StoreError>) -> Void)
    }

    private struct State {
        var waiting: [Work] = []
        /// What waited when the process died.
        var lost: [Work] = []
        var holdsCommits = false
        var isPerforming = false
        var isClosed = false
    }

    public let disk: MemoryDisk
    private let state = Locked(State())

    /// Throws `inUse` while another client has the disk.
    public init(_ disk: MemoryDisk = MemoryDisk()) throws(StoreError) {
        self.disk = disk
        let isTaken = disk.state.withLock { state in
            defer { state.isTaken = true }
            return state.isTaken
        }
        if isTaken { throw .inUse(disk.name) }
    }

    deinit {
        if !state.withLock(\.isClosed) { disk.state.withLock { $0.isTaken = false } }
    }

    public func commit(_ batch: StoreBatch, _ done: @escaping @Sendable (StoreError?) -> Void) { add(.commit(batch, done)) }

    public func read(_ query: StoreQuery, _ done: @escaping @Sendable (Result<StoreRows, StoreError>) -> Void) {
        add(.read(query, done))
    }

    public func rows(_ query: StoreQuery) throws(StoreError) -> StoreRows {
        if state.withLock(\.isClosed) { throw .closed }
        return disk.state.withLock { $0.rows(query) }
    }

    public func measure(_ query: StoreQuery) throws(StoreError) -> StoreMeasure {
        let found = try rows(query)
        return StoreMeasure(
            rows: found.rows.count + found.damages.count, bytes: found.rows.reduce(0) { $0 + $1.body.count },
            leastHead: found.rows.map { StoreMeasure.head($0.body) }.min())
    }

    /// Answers now, as closed, what was lost in a crash: for a simulation that is over, and whose dead nobody waits
    /// for any more.
    public func close() {
        holdsCommits = false
        end()
        let lost = state.withLock { state in
            defer { state.lost = [] }
            return state.lost
        }
        for work in lost { refuse(work) }
    }

    private func add(_ work: Work) {
        let isClosed = state.withLock { state in
            if !state.isClosed { state.waiting.append(work) }
            return state.isClosed
        }
        if isClosed { return refuse(work) }
        if !holdsCommits { complete() }
    }

    private func refuse(_ work: Work) {
        switch work {
        case .commit(_, let done): done(.closed)
        case .read(_, let done): done(.failure(.closed))
        }
    }
}

/// For tests.
extension MemoryStore {
    /// Whether commits, and readings behind them, wait for `complete`.
    public var holdsCommits: Bool {
        get { state.withLock(\.holdsCommits) }
        set {
            state.withLock { $0.holdsCommits = newValue }
            if !newValue { complete() }
        }
    }

    /// How many commits and readings wait.
    public var heldCount: Int { state.withLock(\.waiting.count) }

    /// Does so much of what waits, in order; stops at a batch that waits for room.
    public func complete(_ count: Int = .max) {
        var left = count
        while left > 0, let work = take() {
            let isDone = perform(work)
            state.withLock { state in
                state.isPerforming = false
                if !isDone, !state.isClosed { state.waiting.insert(work, at: 0) }
            }
            if !isDone { return }
            left -= 1
        }
    }

    /// Takes out the work that is next; nil if none waits, or another call does it.
    private func take() -> Work? {
        state.withLock { state in
            if state.isPerforming || state.waiting.isEmpty { return nil }
            state.isPerforming = true
            return state.waiting.removeFirst()
        }
    }

    /// The client's process dies: what waits is lost, nobody is told before `close`, and another client may have the
    /// disk.
    public func crash() {
        state.withLock { state in
            state.lost += state.waiting
            state.waiting = []
        }
        end()
    }

    private func end() {
        let wasClosed = state.withLock { state in
            defer { state.isClosed = true }
            return state.isClosed
        }
        if !wasClosed { disk.state.withLock { $0.isTaken = false } }
    }

    /// False if there is no room.
    private func perform(_ work: Work) -> Bool {
        switch work {
        case .commit(let batch, let done):
            guard disk.state.withLock({ $0.apply(batch) }) else {
                if batch.waitsForRoom { return false }
                done(.noRoom(disk.name))
                return true
            }
            done(nil)
        case .read(let query, let done):
            done(.success(disk.state.withLock { $0.rows(query) }))
        }
        return true
    }
}

extension MemoryDisk.State {
    /// False, and nothing is changed, if there is no room.
    mutating func apply(_ batch: StoreBatch) -> Bool {
        if let bytesMax, bytes + batch.addedBytes > bytesMax, batch.addedBytes > 0 { return false }
        for change in batch.changes {
            switch change {
            case .put(let table, let key, let body): put(table, key, body)
            case .remove(let table, let key): remove(table, key)
            case .removeRange(let table, let from, let to):
                for key in keys(table, from, to) { remove(table, key) }
            }
        }
        return true
    }

    private mutating func put(_ table: StoreTable, _ key: StoreKey, _ body: [UInt8]) {
        damaged.remove(MemoryDisk.DamagedRow(table: table, key: key))
        bytes += key.bytes.count + body.count
        if let old = tables[Int(table.rawValue)].updateValue(body, forKey: key) {
            bytes -= key.bytes.count + old.count
        } else if let last = order[Int(table.rawValue)]?.last, last < key {
            order[Int(table.rawValue)]?.append(key)
        } else {
            order[Int(table.rawValue)] = nil
        }
    }

    private mutating func remove(_ table: StoreTable, _ key: StoreKey) {
        guard let old = tables[Int(table.rawValue)].removeValue(forKey: key) else { return }
        bytes -= key.bytes.count + old.count
    }

    /// The keys of a range that have, or had, rows.
    private mutating func keys(_ table: StoreTable, _ from: StoreKey, _ to: StoreKey?) -> ArraySlice<StoreKey> {
        let count = tables[Int(table.rawValue)].count
        if order[Int(table.rawValue)].map({ $0.count > 2 * count + 64 }) ?? true {
            order[Int(table.rawValue)] = tables[Int(table.rawValue)].keys.sorted()
        }
        let keys = order[Int(table.rawValue)] ?? []
        let first = keys.firstIndex(notBelow: from)
        return keys[first..<max(first, to.map { keys.firstIndex(notBelow: $0) } ?? keys.count)]
    }

    mutating func rows(_ query: StoreQuery) -> StoreRows {
        let found = keys(query.table, query.from, query.to)
        var answer = StoreRows()
        for index in found.indices {
            guard answer.rows.count + answer.damages.count < query.limit else { break }
            let key = found[query.isDescending ? found.startIndex + found.endIndex - 1 - index : index]
            guard let body = tables[Int(query.table.rawValue)][key] else { continue }
            if damaged.contains(MemoryDisk.DamagedRow(table: query.table, key: key)) {
                answer.damages.append(StoreDamage(query.table, key))
            } else {
                answer.rows.append(StoreRow(key, body))
            }
        }
        return answer
    }
}

extension StoreBatch {
    /// What it puts, in bytes of keys and bodies.
    fileprivate var addedBytes: Int {
        changes.reduce(0) { sum, change in
            if case .put(_, let key, let body) = change { sum + key.bytes.count + body.count } else { sum }
        }
    }
}

extension [StoreKey] {
    /// Where the first key stands that is not below one, in keys that rise.
    fileprivate func firstIndex(notBelow key: StoreKey) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < key { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
