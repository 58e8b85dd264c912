internal import Platform

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

/// A store in memory, for tests and simulation: a test may hold commits back, complete them one by one, or lose those that are held.
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
        return StoreMeasure(rows: found.rows.count + found.damages.count, bytes: found.rows.reduce(0) { $0 + $1.body.count })
    }

    /// What was lost in a crash is answered now, as closed: for a simulation that is over, and whose dead nobody waits for any more.
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

    /// What is to be done next; nil if nothing waits, or another call does it.
    private func take() -> Work? {
        state.withLock { state in
            if state.isPerforming || state.waiting.isEmpty { return nil }
            state.isPerforming = true
            return state.waiting.removeFirst()
        }
    }

    /// The client's process dies: what waits is lost, nobody is told before `close`, and another client may have the disk.
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
