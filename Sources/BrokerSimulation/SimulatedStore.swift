import BrokerCore
public import BrokerModel

/// A store in memory, which commits when it likes or is told to, and loses in a crash what it had not committed.
public final class SimulatedStore {
    public enum Mode: Sendable {
        /// Commits what it has at some time before the broker settles.
        case prompt
        /// Commits when `commit` is called.
        case paused
        /// Has no room: says so, and tries again in another mode.
        case full
        /// Fails for good.
        case failed
    }

    public var mode = Mode.prompt
    /// The shard whose batches stay uncommitted, whatever the mode; nil for none.
    public var lateShard: Int?
    /// Decides where clients live, as long as the store does.
    public let seed: UInt64
    /// The rows on the disk, by table and key.
    public private(set) var rows: [StoreTable: [UInt64: [UInt8]]] = [:]
    /// How many batches were committed.
    public private(set) var commitCount = 0
    private var batches: [(shard: Int, batch: JournalBatch)] = []
    private var requests: [(shard: Int, request: StoreRequest)] = []
    private var hasReportedTrouble = false

    public init(seed: UInt64 = 7) { self.seed = seed }

    /// How many batches wait.
    public var waitingCount: Int { batches.count }

    /// Puts changes on the disk while there is no broker.
    public func write(_ batch: JournalBatch) { apply(batch) }

    /// Another one with the same rows and the same batches waiting.
    public func copy() -> SimulatedStore {
        let copy = SimulatedStore(seed: seed)
        (copy.rows, copy.batches) = (rows, batches)
        return copy
    }

    /// Ends with the broker: of the batches that wait, the first `committing` are on the disk.
    public func crash(committing: Int = 0) {
        for (_, batch) in batches.prefix(committing) { apply(batch) }
        batches = []
        requests = []
        hasReportedTrouble = false
    }

    /// The broker ends in order.
    func end(_ shards: [BrokerShard]) {
        if mode == .prompt, batches.isEmpty { apply(StoredBrokerState.end(of: shards)) }
    }

    /// Whether the broker has ended in order, with nothing left that a crash before had made uncertain.
    public var hasEnded: Bool {
        rows[.broker]?[StoredBrokerState.key]?.withUnsafeBytes { StoredBrokerState(decoding: $0)?.hasEnded } ?? false
    }

    func give(_ batch: JournalBatch, of shard: Int) { batches.append((shard, batch)) }

    func give(_ request: StoreRequest, of shard: Int) { requests.append((shard, request)) }

    func load(into shards: [BrokerShard]) -> RecoverySummary {
        var recovery = Recovery(shards: shards, highestKeys: rows.compactMapValues { $0.keys.max() })
        for table in StoreTable.inOrderOfRecovery {
            for (key, body) in (rows[table] ?? [:]).sorted(by: { $0.key < $1.key }) {
                let isTaken = body.withUnsafeBytes { recovery.restore(table, key: key, body: $0) }
                precondition(isTaken, "the core does not take its own row \(key) of \(table.name)")
            }
        }
        let (summary, changes) = recovery.finish()
        apply(changes)
        return summary
    }

    /// Whether `work` would do anything.
    var hasWork: Bool { !requests.isEmpty || (mode == .prompt && batches.contains { $0.shard != lateShard }) }

    /// Does what its mode lets it do; false if that is nothing.
    @discardableResult
    func work(_ shards: [SimulatedShard]) -> Bool {
        let hasRead = answer(shards)
        guard batches.contains(where: { $0.shard != lateShard }) else { return hasRead }
        switch mode {
        case .prompt:
            commit(shards)
            return true
        case .paused: return hasRead
        case .full, .failed:
            if mode == .failed { batches = [] }
            guard !hasReportedTrouble else { return hasRead }
            hasReportedTrouble = true
            for shard in shards { shard.reports.append(mode == .full ? .full : .failed) }
            return true
        }
    }

    /// Commits all that waits, and reports it.
    func commit(_ shards: [SimulatedShard]) {
        let taken = batches.filter { $0.shard != lateShard }
        batches.removeAll { $0.shard != lateShard }
        if hasReportedTrouble { for shard in shards { shard.reports.append(.hasRoom) } }
        hasReportedTrouble = false
        for (shard, batch) in taken {
            apply(batch)
            shards[shard].reports.append(.committed(through: batch.lastSequence))
        }
    }

    private func answer(_ shards: [SimulatedShard]) -> Bool {
        let taken = requests
        requests = []
        for (shard, request) in taken {
            let bodies = request.rows.map { rows[$0.table]?[$0.key] }
            shards[shard].reports.append(.rows(StoreRows(answering: request, bodies: bodies)))
        }
        return !taken.isEmpty
    }

    private func apply(_ batch: JournalBatch) {
        commitCount += 1
        batch.forEach { record in
            let isKnown = rows[record.table]?[record.key] != nil
            switch record.operation {
            case .insert: precondition(!isKnown, "row \(record.key) of \(record.table.name) was there already")
            case .update: precondition(isKnown, "row \(record.key) of \(record.table.name) was not there")
            case .delete: break
            }
            rows[record.table, default: [:]][record.key] = record.operation == .delete ? nil : Array(record.body)
        }
    }
}
