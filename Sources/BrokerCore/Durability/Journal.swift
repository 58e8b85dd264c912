import BrokerModel

/// What a shard wants kept, in order, until the store has it.
///
///     persisted ≤ given ≤ sequence
///     [ on the disk | given to the store | the batch being filled ]
///
/// Each change has the next sequence number, also one that only takes an earlier one back: a change of the batch being
/// filled is undone in place, so what is done with before it is given never reaches the disk. Belongs to a shard.
final class Journal {
    /// The shard's time, the lowest 32 bits, which what is held remembers.
    var clockMicroseconds: UInt32 = 0
    /// How many changes there have been.
    private(set) var sequence: UInt64 = 0
    /// The number up to which changes were given to the store.
    private var given: UInt64 = 0
    /// The number up to which changes would survive a power cut.
    private(set) var persisted: UInt64 = 0
    /// Whether the store has a batch that it has not reported yet.
    private(set) var isStoreBusy = false
    var health = StoreHealth.good
    /// How many entries of the batch were sent and may be acknowledged any moment, now and at the end of the turn
    /// before.
    private var awaited = 0
    private var awaitedBefore = 0
    /// When the batch began to wait for them; 0 for not yet.
    private var beganAt: UInt64 = 0
    /// Bytes of the batch that the store has.
    private var givenBytes = 0
    private var batch = JournalBatch()
    /// Where the batch's changes of rows stand, of those that are likely to be undone: entries by number, the others by
    /// key.
    private var offsets: [UInt64: Int] = [:]
    private(set) var entryOffsets: [Int] = []
    private var firstEntry: UInt64 = 0
    /// Whether entries stand among the others, by key, for their numbers are far from those before.
    private var hasDistantEntries = false
    private var serial: UInt64
    /// Rows with numbers up to here that were added would survive a power cut, and those that the store was given.
    private(set) var persistedNumber: UInt64 = 0
    private var givenNumber: UInt64 = 0
    /// References to rows of shared messages.
    private var sharedRows = SharedRows()
    private let shard: UInt64

    /// - Parameter lastSerial: the highest number in use, in whatever table, without its lowest byte.
    init(shard: Int, lastSerial: UInt64 = 0) {
        self.shard = UInt64(shard)
        serial = lastSerial
    }

    /// Bytes of the batch being filled.
    var batchBytes: Int { batch.byteCount }
    /// Bytes that are not on the disk yet.
    var pendingBytes: Int { givenBytes + batch.byteCount }
    var isPersisted: Bool { persisted == sequence }

    /// A number that no row has: it rises, with the shard in the lowest byte, so that shards never give the same.
    func nextNumber() -> UInt64 {
        serial &+= 1
        return serial << 8 | shard
    }

    /// No number that was given is higher, and none that will be is lower.
    var lastNumber: UInt64 { serial << 8 | 0xff }

    /// Makes sure that no number up to this one is given again.
    func skipNumbers(through serial: UInt64) {
        self.serial = max(self.serial, serial)
        // Those that there are come from the store.
        if sequence == 0 { persistedNumber = lastNumber }
    }

    /// Adds a row; the caller fills the body in at once.
    func insert(_ table: StoreTable, key: UInt64, bodyCount: Int) -> UnsafeMutableRawPointer {
        sequence &+= 1
        let offset = batch.append(.insert, table, key: key, bodyCount: bodyCount)
        if table == .entry { indexEntry(key, offset) } else { offsets[Self.rowKey(table, key)] = offset }
        return batch.body(at: offset)
    }

    func insert(_ table: StoreTable, key: UInt64, _ body: [UInt8]) {
        let target = insert(table, key: key, bodyCount: body.count)
        body.withUnsafeBytes { if let source = $0.baseAddress { target.copyMemory(from: source, byteCount: $0.count) } }
    }

    /// Changes a row that is there, on the disk or in the batch.
    func update(_ table: StoreTable, key: UInt64, bodyCount: Int) -> UnsafeMutableRawPointer {
        precondition(table != .entry, "entries never change")
        sequence &+= 1
        var operation = JournalRecord.Operation.update
        if let known = offsets[Self.rowKey(table, key)] {
            let header = batch.header(at: known)
            if header.operation == JournalRecord.Operation.insert.rawValue { operation = .insert }
            batch.kill(at: known)
        }
        let offset = batch.append(operation, table, key: key, bodyCount: bodyCount)
        offsets[Self.rowKey(table, key)] = offset
        return batch.body(at: offset)
    }

    func update(_ table: StoreTable, key: UInt64, _ body: [UInt8]) {
        let target = update(table, key: key, bodyCount: body.count)
        body.withUnsafeBytes { if let source = $0.baseAddress { target.copyMemory(from: source, byteCount: $0.count) } }
    }

    /// Changes a row if it is there, else adds it.
    func put(_ table: StoreTable, key: UInt64, _ body: [UInt8], isThere: Bool) {
        if isThere { update(table, key: key, body) } else { insert(table, key: key, body) }
    }

    /// Removes a row. If it was added in this batch, it never was.
    func delete(_ table: StoreTable, key: UInt64) {
        sequence &+= 1
        let known = table == .entry ? takeEntryOffset(key) : offsets.removeValue(forKey: Self.rowKey(table, key))
        if table == .entry, known != nil, awaited > 0 { awaited -= 1 }
        if let known {
            let header = batch.header(at: known)
            batch.kill(at: known)
            if header.operation == JournalRecord.Operation.insert.rawValue { return }
        }
        _ = batch.append(.delete, table, key: key, bodyCount: 0)
    }

    /// An entry is done with.
    func endEntry(_ number: UInt64, hasFlow: Bool) {
        if hasFlow { delete(.flow, key: number) }
        delete(.entry, key: number)
    }

    // MARK: Rows that are shared

    /// There is one reference more to the row of a shared message.
    func holdShared(_ number: UInt64) { sharedRows.hold(number) }

    /// There is one less; the row goes with the last.
    func letGoShared(_ number: UInt64) {
        if sharedRows.letGo(number) { delete(.message, key: number) }
    }

    /// A row that the store has brought back, to which nobody is known to have a reference.
    func markShared(_ number: UInt64) { sharedRows.record(number) }

    /// There is one reference more to such a row; false if it is not there.
    func claimShared(_ number: UInt64) -> Bool { sharedRows.claim(number) }

    /// All references are claimed: the rows without one go.
    func settleShared() {
        for number in sharedRows.settle() { delete(.message, key: number) }
    }

    /// Notes the packet identifier of an entry whose row is still in the batch; false if it is not.
    func markSent(_ number: UInt64, _ packetIdentifier: UInt16, isAwaited: Bool) -> Bool {
        guard let body = entryBody(number) else { return false }
        body.storeBytes(of: packetIdentifier, toByteOffset: EntryHeader.packetIdentifierOffset, as: UInt16.self)
        if isAwaited { awaited += 1 }
        return true
    }

    /// The row of an entry, if it is still in the batch.
    func entryBody(_ number: UInt64) -> UnsafeMutableRawPointer? {
        if let index = entryIndex(number) { return entryOffsets[index] < 0 ? nil : batch.body(at: entryOffsets[index]) }
        return hasDistantEntries ? offsets[Self.rowKey(.entry, number)].map { batch.body(at: $0) } : nil
    }

    /// When a batch that its receivers are acknowledging is given to the store all the same, in milliseconds; nil for
    /// at once.
    ///
    /// What they acknowledge first never reaches the disk, so a batch that is mostly on its way to them waits a moment,
    /// and longer as long as it shrinks. Without the wait ten times as much is written, and pairs with durable sessions
    /// are a third slower.
    func patience(now: UInt64) -> UInt64? {
        defer { awaitedBefore = awaited }
        guard awaited > 0, awaited * 2 >= batch.liveCount else { return nil }
        if beganAt == 0 { beganAt = now }
        let deadline =
            beganAt + (awaited < awaitedBefore ? Limits.storePatienceWhileShrinkingMilliseconds : Limits.storePatienceMilliseconds)
        return deadline > now ? deadline : nil
    }

    /// The batch for the store, unless the store is busy or nothing has to reach it.
    func takeBatch() -> JournalBatch? {
        guard !isStoreBusy, persisted != sequence else { return nil }
        guard !batch.isEmpty else {
            // All was undone in time.
            forgetOffsets()
            batch.reset()
            persisted = sequence
            persistedNumber = lastNumber
            return nil
        }
        let taken = batch
        taken.lastSequence = sequence
        givenBytes = taken.byteCount
        isStoreBusy = true
        given = sequence
        givenNumber = lastNumber
        batch = JournalBatch(capacity: max(16 * 1024, min(taken.byteCount, 1 << 20)))
        forgetOffsets()
        return taken
    }

    /// The store has made a batch durable.
    func committed(through sequence: UInt64) {
        precondition(sequence <= self.sequence, "the store cannot have what was never given")
        persisted = max(persisted, sequence)
        guard isStoreBusy, sequence >= given else { return }
        isStoreBusy = false
        givenBytes = 0
        persistedNumber = givenNumber
    }

    /// The store takes nothing any more: what gathers is of no use.
    func discardBatch() {
        forgetOffsets()
        batch.reset()
    }

    func checkInvariants() {
        sharedRows.checkInvariants()
        precondition(persistedNumber <= givenNumber || !isStoreBusy, "the store cannot have what was never given")
    }

    private func indexEntry(_ number: UInt64, _ offset: Int) {
        if entryOffsets.isEmpty { firstEntry = number }
        let distance = (number &- firstEntry) >> 8
        guard number >= firstEntry, isOfShard(number), distance >= entryOffsets.count,
            distance - UInt64(entryOffsets.count) <= Limits.entryGapMax
        else {
            indexDistantEntry(number, offset)
            return
        }
        while entryOffsets.count < distance { entryOffsets.append(-1) }
        entryOffsets.append(offset)
    }

    /// Rows that a recovery writes again have the numbers of another time, or of another shard.
    private func indexDistantEntry(_ number: UInt64, _ offset: Int) {
        if let index = entryIndex(number) {
            entryOffsets[index] = offset
        } else {
            hasDistantEntries = true
            offsets[Self.rowKey(.entry, number)] = offset
        }
    }

    private func takeEntryOffset(_ number: UInt64) -> Int? {
        guard let index = entryIndex(number) else {
            return hasDistantEntries ? offsets.removeValue(forKey: Self.rowKey(.entry, number)) : nil
        }
        guard entryOffsets[index] >= 0 else { return nil }
        defer { entryOffsets[index] = -1 }
        return entryOffsets[index]
    }

    /// The index of an entry's offset, if it is among those that are near each other.
    @inline(__always)
    private func entryIndex(_ number: UInt64) -> Int? {
        let index = Int(truncatingIfNeeded: (number &- firstEntry) >> 8)
        return number >= firstEntry && index < entryOffsets.count && isOfShard(number) ? index : nil
    }

    /// Whether a number is of the same shard as those that are near each other: a recovery writes rows of several.
    @inline(__always)
    private func isOfShard(_ number: UInt64) -> Bool { (number ^ firstEntry) & 0xff == 0 }

    private func forgetOffsets() {
        (awaited, awaitedBefore, beganAt) = (0, 0, 0)
        hasDistantEntries = false
        offsets.removeAll(keepingCapacity: offsets.count < 4096)
        entryOffsets.removeAll(keepingCapacity: true)
    }

    /// Numbers are below 2^56: the table fits in above.
    private static func rowKey(_ table: StoreTable, _ key: UInt64) -> UInt64 { UInt64(table.rawValue) << 60 | key }
}

/// How many references there are to rows of messages that several queues share: the row goes with the last of them.
///
/// A reference is a `StoredPayload` in memory, or a message in a queue that only the store has. Most rows have one,
/// which nobody writes down:
///
///     references(number): 1 where `blocks` says nothing
///     a block: the rows of one shard whose serial numbers agree but for the lowest 16 bits, those bits rising
///
/// While a broker starts, every row is counted from 0 (`record`) until `settle`. Belongs to a `Journal`.
struct SharedRows {
    fileprivate struct Block {
        var serials: [UInt16] = []
        /// Of the serial at the same position. Outside a start, 1 is one that is not written down any more.
        var counts: [UInt32] = []
        var live = 0
    }

    private var blocks: [UInt64: Block] = [:]

    /// How many rows have other than one reference.
    var count: Int { blocks.values.reduce(0) { $0 + $1.live } }

    /// There is one reference more.
    mutating func hold(_ number: UInt64) {
        let serial = Self.serial(number)
        var block = blocks.removeValue(forKey: Self.block(number)) ?? Block()
        let position = block.position(of: serial)
        if position < block.serials.count, block.serials[position] == serial {
            if block.counts[position] == 1 { block.live += 1 }
            block.counts[position] += 1
        } else {
            block.serials.insert(serial, at: position)
            block.counts.insert(2, at: position)
            block.live += 1
        }
        blocks[Self.block(number)] = block
    }

    /// A reference is gone; whether it was the last one.
    mutating func letGo(_ number: UInt64) -> Bool {
        guard !blocks.isEmpty, var block = blocks.removeValue(forKey: Self.block(number)) else { return true }
        defer { if block.live > 0 { blocks[Self.block(number)] = block } }
        let position = block.position(of: Self.serial(number))
        guard position < block.serials.count, block.serials[position] == Self.serial(number), block.counts[position] > 1 else {
            return true
        }
        block.counts[position] -= 1
        if block.counts[position] == 1 {
            block.live -= 1
            block.shrink()
        }
        return false
    }

    // MARK: A start

    /// A row is there, with no reference yet.
    mutating func record(_ number: UInt64) {
        var block = blocks.removeValue(forKey: Self.block(number)) ?? Block()
        let position = block.position(of: Self.serial(number))
        block.serials.insert(Self.serial(number), at: position)
        block.counts.insert(0, at: position)
        block.live += 1
        blocks[Self.block(number)] = block
    }

    /// A row that was recorded has one reference more; false if there is no such row.
    mutating func claim(_ number: UInt64) -> Bool {
        guard var block = blocks.removeValue(forKey: Self.block(number)) else { return false }
        defer { blocks[Self.block(number)] = block }
        let position = block.position(of: Self.serial(number))
        guard position < block.serials.count, block.serials[position] == Self.serial(number) else { return false }
        block.counts[position] += 1
        return true
    }

    /// All references are known: forgets the rows that have one.
    ///
    /// - Returns: the numbers of those that have none, rising.
    mutating func settle() -> [UInt64] {
        var unused: [UInt64] = []
        for (name, block) in blocks {
            var left = Block()
            for (serial, count) in zip(block.serials, block.counts) {
                if count == 0 { unused.append(Self.number(name, serial)) }
                guard count > 1 else { continue }
                left.serials.append(serial)
                left.counts.append(count)
                left.live += 1
            }
            blocks[name] = left.live > 0 ? left : nil
        }
        return unused.sorted()
    }

    // Numbers are below 2^56, a serial with its shard in the lowest byte.
    private static func block(_ number: UInt64) -> UInt64 { (number >> 24) << 8 | number & 0xff }
    private static func serial(_ number: UInt64) -> UInt16 { UInt16(truncatingIfNeeded: number >> 8) }
    private static func number(_ block: UInt64, _ serial: UInt16) -> UInt64 {
        (block >> 8) << 24 | UInt64(serial) << 8 | block & 0xff
    }

    func checkInvariants() {
        for block in blocks.values {
            precondition(zip(block.serials, block.serials.dropFirst()).allSatisfy { $0 < $1 }, "serials rise")
            precondition(block.serials.count == block.counts.count && block.live > 0, "a block has rows")
            precondition(block.counts.count { $0 > 1 } == block.live, "a block knows how many rows it has")
        }
    }
}

extension SharedRows.Block {
    /// Where a serial stands, or would.
    fileprivate func position(of serial: UInt16) -> Int {
        // They mostly come in order.
        guard let last = serials.last, last >= serial else { return serials.count }
        var (low, high) = (0, serials.count)
        while low < high {
            let middle = (low + high) / 2
            if serials[middle] < serial { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Gives up what is not written down any more: from the end at once, else when it is more than half.
    fileprivate mutating func shrink() {
        while counts.last == 1 {
            counts.removeLast()
            serials.removeLast()
        }
        guard serials.count > 64, live < serials.count / 2 else { return }
        var kept = 0
        for position in serials.indices where counts[position] > 1 {
            (serials[kept], counts[kept]) = (serials[position], counts[position])
            kept += 1
        }
        serials.removeLast(serials.count - kept)
        counts.removeLast(counts.count - kept)
    }
}

/// A reference to a row of `StoreTable.message`: a message that several entries share. The row goes with the last
/// reference; `SharedRows` counts them.
///
/// Belongs to one shard.
final class StoredPayload {
    let number: UInt64
    private let journal: Journal

    init(number: UInt64, journal: Journal) {
        self.number = number
        self.journal = journal
    }

    deinit { journal.letGoShared(number) }
}

extension Limits {
    /// How long changes wait for what their receivers acknowledge meanwhile, which then need not be stored, in
    /// milliseconds.
    static let storePatienceMilliseconds: UInt64 = 2

    /// How long changes wait for their receivers' acknowledgements while these keep coming.
    static let storePatienceWhileShrinkingMilliseconds: UInt64 = 20

    /// How far the number of an entry may be from that of the one before for both to stand in the batch's list; one
    /// beyond it is found by a look-up. Bytes: 16 each.
    static let entryGapMax: UInt64 = 4096
}
