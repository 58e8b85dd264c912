import BrokerModel
import Bytes
import MQTTCodec

/// What a shard has that waits until something is durable, and what it gives its store when.
///
///     a change ─► journal ─► takeBatch ─► the store ─► committed ─► release, takeConfirmation, visitListed
///     shard messages that must be durable at its receiver ─► requireConfirmation ─► confirmed ─► release
///
/// It decides what may happen when; the shard does it. There is one on each shard of a broker with a store.
struct Durability {
    let journal: Journal
    /// Mail that other shards have to confirm.
    private(set) var shardMessages: AwaitedShardMessages
    /// Mail of other shards that this one has to confirm.
    private var owed: OwedConfirmations
    /// Acknowledgements, and what else must not happen before something is durable.
    private var held: HeldQueue
    /// Rows of messages that share groups have moved to other shards: they go when those have them.
    private var moved: [(number: UInt64, hasFlow: Bool, group: UInt64, dependency: DurabilityDependency)] = []
    /// Messages of QoS 2 that go to other shards as soon as their rows here are durable. Before that a crash could
    /// leave them there under the names of rows that never were, and they would come once more from who was not told
    /// that the broker has them.
    private var leaving: [SharedEntry] = []
    /// The change up to which all was durable when the entries were looked through last.
    private var leavingThrough: UInt64 = 0
    /// Of those that have gone: what other shards may forget as soon as that is durable.
    private var goneEntries: [(number: UInt64, group: UInt64, sequence: UInt64)] = []
    /// The rows of entries of sessions that have ended, with long queues: given up a part at a time.
    private var abandoned: [(number: UInt64, hasFlow: Bool)] = []
    /// The paged parts of such queues.
    private var abandonedQueues: [PagedQueue] = []
    /// The sessions with messages in long queues that memory can do without once they are durable.
    private var listed: [(index: UInt32, generation: UInt32)] = []
    /// The change up to which all was durable when the sessions were visited last.
    private var visitedThrough: UInt64 = 0
    /// Until when the batch waits for what its receivers acknowledge meanwhile, in milliseconds; nil if it does not.
    private(set) var patience: UInt64?
    /// Whether the store is to be given what there is at the end of the turn, whatever the interval.
    private var isSaving = false
    /// The journal's last change, and the shards that got shard messages to be confirmed, since the last `beginPacket`.
    private var sequenceBefore: UInt64 = 0
    private var sentTo: UInt64 = 0
    /// The partitions of the cluster's log that got something since then, a bit each.
    private var partitions: UInt64 = 0

    /// What stands for a cluster among the receivers of shard messages, behind the shards: its log, and its stream of
    /// retained messages.
    let logReceiver: Int
    let retainedReceiver: Int

    init(shard: Int, shardCount: Int, journal: Journal) {
        self.journal = journal
        (logReceiver, retainedReceiver) = (shardCount, shardCount + 1)
        shardMessages = AwaitedShardMessages(receiverCount: shardCount + 2)
        owed = OwedConfirmations(shardCount: shardCount)
        held = HeldQueue(shard: shard, receiverCount: shardCount + 2)
    }

    // MARK: What comes of a packet

    /// A packet, or a batch of shard messages, is about to be worked off: what is changed and sent from now on comes of
    /// it.
    @inline(__always)
    mutating func beginPacket() {
        sequenceBefore = journal.sequence
        (sentTo, partitions) = (0, 0)
    }

    /// Whether anything came of the packet that has to become durable, here or on another shard: whoever has caused
    /// none need not wait.
    @inline(__always)
    var hasChanged: Bool { journal.sequence != sequenceBefore || sentTo != 0 }

    /// What came of the packet on other shards.
    @inline(__always)
    var dependency: DurabilityDependency {
        DurabilityDependency(shards: sentTo, serial: shardMessages.serial, partitions: partitions)
    }

    // MARK: Acknowledgements

    /// How many things are held.
    var heldCount: Int { held.count }

    /// Whether what says that everything up to now is durable, here and as far as it relies on other shards, has to be
    /// held.
    @inline(__always)
    func mustHold(dependingOn dependency: DurabilityDependency) -> Bool {
        if !journal.isPersisted { return true }
        if dependency.shards == 0 { return false }
        return mustHold(forShards: dependency)
    }

    private func mustHold(forShards dependency: DurabilityDependency) -> Bool {
        shardMessages.firstAwaited(dependency) != nil || dependency.isEverything && held.count > 0
    }

    /// Holds a packet until the journal is durable as it is now, and what it relies on too.
    @inline(__always)
    mutating func hold(
        _ kind: HeldPacket.Kind, _ packetIdentifier: UInt16 = 0, _ reason: ReasonCode = .success, to connection: ConnectionID,
        dependingOn dependency: DurabilityDependency = .nothing
    ) {
        held.append(
            HeldPacket(kind, after: journal.sequence, connection, packetIdentifier, reason, at: journal.clockMicroseconds),
            dependingOn: dependency)
    }

    mutating func hold(_ answer: HeldAnswer, to connection: ConnectionID) {
        held.append(answer, HeldPacket(.answer, after: journal.sequence, connection))
    }

    /// Holds a QoS 2 message for members of share groups on other shards, and behind it its PUBREC.
    mutating func hold(
        _ dispatch: HeldDispatch, _ packetIdentifier: UInt16, _ reason: ReasonCode, to connection: ConnectionID
    ) {
        held.append(
            .dispatch(dispatch),
            HeldPacket(.dispatch, after: journal.sequence, connection, packetIdentifier, reason, at: journal.clockMicroseconds))
    }

    /// Takes the next that may happen, in its connection's order; nil if there is none.
    @inline(__always)
    mutating func release() -> HeldQueue.Released? { held.pop(persisted: journal.persisted, shardMessages) }

    /// What `item` stands for was dispatched, since `beginPacket`. Its PUBREC waits on, if it has to, until what came
    /// of that is durable, and of the message's other receivers.
    ///
    /// - Returns: the PUBREC if it need not wait.
    mutating func dispatched(_ item: HeldPacket, _ dispatch: HeldDispatch) -> HeldPacket? {
        let sequence = journal.sequence == sequenceBefore ? item.sequence : journal.sequence
        let pubrec = HeldPacket(.pubrec, after: sequence, item.connection, item.packetIdentifier, item.reason, at: item.heldAt)
        let dependency = dispatch.dependency.union(dependency)
        return held.waitsAgain(pubrec, dependingOn: dependency, shardMessages, persisted: journal.persisted) ? nil : pubrec
    }

    // MARK: Up to now

    /// A moment of a shard: the last change, and the last batch that was sent, up to then.
    struct Moment {
        fileprivate let sequence: UInt64
        fileprivate let dependency: DurabilityDependency
    }

    var moment: Moment {
        Moment(
            sequence: journal.sequence,
            dependency: DurabilityDependency(shards: .max, serial: shardMessages.serial, partitions: .max))
    }

    /// Whether all of that is durable, here and where it was sent to.
    func isDurable(_ moment: Moment) -> Bool {
        journal.persisted >= moment.sequence && shardMessages.firstAwaited(moment.dependency) == nil
    }

    // MARK: Other shards

    /// A batch of shard messages for a shard has something in it that must be durable there before what relies on it is
    /// promised.
    ///
    /// - Returns: the serial of the batch.
    @inline(__always)
    mutating func requireConfirmation(of shard: Int) -> UInt64 {
        sentTo |= 1 << UInt64(shard)
        shardMessages.require(of: shard)
        return shardMessages.serial
    }

    /// Requires the log's confirmation for what comes of the packet, and went into these partitions.
    ///
    /// - Returns: the serial of the batch.
    mutating func requireLog(in partitions: UInt64) -> UInt64 {
        self.partitions |= partitions
        return requireConfirmation(of: logReceiver)
    }

    /// Requires the log's confirmation for something that has nothing to do with the packet that is being handled.
    /// Returns the dependency of what waits for it.
    mutating func requireLog(besidesPacketIn partitions: UInt64) -> DurabilityDependency {
        shardMessages.require(of: logReceiver)
        return DurabilityDependency(shards: 1 << UInt64(logReceiver), serial: shardMessages.serial, partitions: partitions)
    }

    /// The turn's shard messages have left.
    mutating func shardMessagesPosted() { shardMessages.posted() }

    /// A shard has made durable what came of its shard messages up to this serial.
    mutating func confirmed(_ serial: UInt64, by shard: Int) {
        shardMessages.confirm(serial, by: shard)
        held.confirmed(by: shard)
    }

    /// What waits for what went into these partitions of the log and has not been confirmed, up to this serial; nil if
    /// nothing of the log is awaited. O(held).
    func heldForLog(through serial: UInt64, partitions: UInt64) -> [HeldPacket]? {
        guard let oldest = shardMessages.oldest(of: logReceiver), oldest <= serial else { return nil }
        return held.items { $0.depends(on: logReceiver, from: oldest, through: serial) && $0.partitions & partitions != 0 }
    }

    /// A batch of shard messages is worked off, since `beginPacket`, that its sender wants confirmed.
    mutating func oweConfirmation(_ serial: UInt64, to sender: Int) {
        owed.append(serial, to: sender, after: journal.sequence, dependingOn: dependency)
    }

    /// The serial that can be confirmed to a shard; nil if there is none that has not been.
    mutating func takeConfirmation(for sender: Int) -> UInt64? {
        owed.take(of: sender, persisted: journal.persisted, shardMessages)
    }

    // MARK: Rows that go later

    /// A message was sent to another shard just now: its rows here may go when that one has it.
    ///
    /// - Parameter group: whose it is, if that shard remembers that it has it; 0 if not.
    mutating func endEntry(_ number: UInt64, hasFlow: Bool, sentTo shard: Int, of group: UInt64 = 0) {
        moved.append((number, hasFlow, group, DurabilityDependency(shards: 1 << UInt64(shard), serial: shardMessages.serial)))
    }

    /// Whether a message of a share group may not go to another shard yet.
    func mustStay(_ entry: SharedEntry) -> Bool {
        entry.storeNumber > journal.persistedNumber && entry.message.qos == .exactlyOnce && journal.health == .good
    }

    /// Keeps a message that nobody has any more until it may.
    mutating func keepUntilDurable(_ entry: SharedEntry) { leaving.append(entry) }

    /// Takes the shared messages that may go now.
    mutating func takeLeaving() -> [SharedEntry] {
        guard !leaving.isEmpty, leavingThrough != journal.persistedNumber || journal.health != .good else { return [] }
        leavingThrough = journal.persistedNumber
        let all = leaving
        leaving = all.filter { mustStay($0) }
        return all.filter { !mustStay($0) }
    }

    mutating func endMovedEntries() {
        let count = moved.prefix { shardMessages.firstAwaited($0.dependency) == nil }.count
        guard count > 0 else { return }
        for (number, hasFlow, group, _) in moved.prefix(count) {
            journal.endEntry(number, hasFlow: hasFlow)
            if group != 0 { goneEntries.append((number, group, journal.sequence)) }
        }
        moved.removeFirst(count)
    }

    /// The rows of messages that other shards remember to have, and that would not come back any more after a crash.
    mutating func takeGoneEntries() -> [(number: UInt64, group: UInt64)] {
        guard let first = goneEntries.first, first.sequence <= journal.persisted else { return [] }
        let count = goneEntries.prefix { $0.sequence <= journal.persisted }.count
        defer { goneEntries.removeFirst(count) }
        return goneEntries.prefix(count).map { ($0.number, $0.group) }
    }

    /// The rows of an entry of a session that has ended may go when there is time.
    mutating func abandonEntry(_ number: UInt64, hasFlow: Bool) { abandoned.append((number, hasFlow)) }

    /// The rows of a part of a queue that only the store has may go when there is time.
    mutating func abandon(_ queue: PagedQueue) { abandonedQueues.append(queue) }

    private mutating func endAbandonedQueues() {
        var left = Limits.entriesEndedPerTurn
        while left > 0, let queue = abandonedQueues.last {
            if queue.dropFirst(journal) { left -= 1 } else { abandonedQueues.removeLast() }
        }
    }

    private mutating func endAbandonedEntries() {
        if !abandonedQueues.isEmpty { endAbandonedQueues() }
        guard !abandoned.isEmpty else { return }
        let count = min(abandoned.count, Limits.entriesEndedPerTurn)
        for (number, hasFlow) in abandoned.suffix(count).reversed() { journal.endEntry(number, hasFlow: hasFlow) }
        abandoned.removeLast(count)
    }

    // MARK: Long queues

    /// A session's queue has messages that memory can do without as soon as they are durable.
    mutating func list(_ session: Session) { listed.append((session.index, session.generation)) }

    /// Calls `visit` with each such session that is still there; one for which it returns false is listed no more.
    mutating func visitListed(_ sessions: borrowing SessionTable, _ visit: (Session) -> Bool) {
        guard !listed.isEmpty, visitedThrough != journal.persistedNumber else { return }
        visitedThrough = journal.persistedNumber
        var kept: [(index: UInt32, generation: UInt32)] = []
        for place in listed {
            guard let session = sessions.find(index: place.index, generation: place.generation) else { continue }
            if visit(session) { kept.append(place) }
        }
        listed = kept
    }

    // MARK: The store

    /// The store is to be given everything at the end of the turn.
    mutating func save() { isSaving = true }

    /// The changes that the store is to be given now; nil if there are none, or it is busy, or they are to wait.
    ///
    /// - Parameters:
    ///   - storesAtOnce: whether it gets them as they come.
    ///   - isStopping: whether nothing is to be waited for any more.
    ///   - now: milliseconds.
    mutating func takeBatch(storesAtOnce: Bool, isStopping: Bool, now: UInt64) -> JournalBatch? {
        guard journal.health != .failed else {
            for queue in abandonedQueues { while queue.dropFirst(nil) {} }
            (abandoned, abandonedQueues) = ([], [])
            // Last: a payload that goes here still deletes its row.
            journal.discardBatch()
            return nil
        }
        endAbandonedEntries()
        guard !journal.isStoreBusy else { return nil }
        guard storesAtOnce || isStopping || isSaving || journal.batchBytes > Limits.storeBatchBytesMax else { return nil }
        patience = isStopping || isSaving ? nil : journal.patience(now: now)
        guard patience == nil else { return nil }
        isSaving = false
        return journal.takeBatch()
    }

    /// Whether another turn is needed at once.
    func hasWork(storesAtOnce: Bool, isStopping: Bool) -> Bool {
        if !abandoned.isEmpty || !abandonedQueues.isEmpty { return true }
        return patience == nil && (storesAtOnce || isSaving || isStopping) && !journal.isStoreBusy && !journal.isPersisted
            && journal.health != .failed
    }

    /// Whether nothing is left that the store must have; true as well when it takes nothing any more.
    var isPersisted: Bool { journal.isPersisted || journal.health != .good }

    /// How many things are held for each connection.
    func heldCounts() -> [ConnectionID: Int] { held.counts() }

    func checkInvariants() {
        shardMessages.checkInvariants()
        owed.checkInvariants()
        held.checkInvariants()
    }
}

/// The batches of shard messages that this shard is to confirm to their senders when what came of them would survive a
/// power cut, here and wherever this shard has sent it on to.
///
///     owed[sender]: sequences never fall, serials rise
struct OwedConfirmations {
    private struct Batch {
        let serial: UInt64
        /// The last change of the journal that came of it.
        let sequence: UInt64
        let dependency: DurabilityDependency
    }

    /// By sender, oldest first.
    private var owed: [[Batch]]

    init(shardCount: Int) { owed = Array(repeating: [], count: shardCount) }

    var isEmpty: Bool { owed.allSatisfy(\.isEmpty) }

    mutating func append(_ serial: UInt64, to sender: Int, after sequence: UInt64, dependingOn dependency: DurabilityDependency) {
        owed[sender].append(Batch(serial: serial, sequence: sequence, dependency: dependency))
    }

    /// The last batch of a sender that can be confirmed, which stands for those before it; nil if there is none.
    mutating func take(of sender: Int, persisted: UInt64, _ shardMessages: AwaitedShardMessages) -> UInt64? {
        let count = owed[sender].prefix { $0.sequence <= persisted && shardMessages.firstAwaited($0.dependency) == nil }.count
        guard count > 0 else { return nil }
        defer { owed[sender].removeFirst(count) }
        return owed[sender][count - 1].serial
    }

    func checkInvariants() {
        for batches in owed {
            for (first, second) in zip(batches, batches.dropFirst()) {
                precondition(first.serial < second.serial && first.sequence <= second.sequence, "batches stand in their order")
            }
        }
    }
}

/// What waits until something is durable before it happens, most often an acknowledgement.
///
///     append ─► waiting ───────────────────────────────────► pop
///                  │  this shard's store: one order for all    ▲
///                  └─► lines ──────────────────────────────────┘
///                      other shards' stores: an order for each connection
///
/// Everything waits for the same store first, in the order in which it came. What relies on shard messages that another
/// shard has not confirmed by then goes on waiting in its connection's line, and all of that connection behind it, but
/// nothing of any other.
///
///     sequences in `waiting` never fall; answers and dependencies name items in `waiting` or in a line
struct HeldQueue {
    /// Something that may happen now.
    struct Released {
        let item: HeldPacket
        let answer: HeldAnswer?
    }

    /// What an item of `waiting` relies on; most rely on nothing else than the store.
    private struct Need {
        let number: UInt64
        let dependency: DurabilityDependency
    }

    private var waiting = Deque<HeldPacket>()
    /// The number of the first item; numbers run on for ever.
    private var firstNumber: UInt64 = 0
    private var answers: [UInt64: HeldAnswer] = [:]
    /// The needs of items in `waiting`, by number.
    private var needs = Deque<Need>()
    private var lines: HeldLines

    /// - Parameter shard: this one.
    init(shard: Int, receiverCount: Int) { lines = HeldLines(shard: shard, receiverCount: receiverCount) }

    /// How many items there are.
    var count: Int { waiting.count + lines.count }
    private var endNumber: UInt64 { firstNumber &+ UInt64(waiting.count) }

    /// Adds an item; its change is no earlier than those of the items before.
    @inline(__always)
    mutating func append(_ item: HeldPacket, dependingOn dependency: DurabilityDependency = .nothing) {
        if dependency.shards != 0 { needs.append(Need(number: endNumber, dependency: dependency)) }
        waiting.append(item)
    }

    mutating func append(_ answer: HeldAnswer, _ item: HeldPacket) {
        answers[endNumber] = answer
        waiting.append(item)
    }

    /// An item that was released waits again, before whatever its connection has behind it.
    ///
    /// - Returns: false if it need not.
    mutating func waitsAgain(
        _ item: HeldPacket, dependingOn dependency: DurabilityDependency, _ shardMessages: AwaitedShardMessages, persisted: UInt64
    ) -> Bool {
        keepsWaiting(HeldLines.Entry(item: item, number: 0, dependency: dependency), shardMessages, persisted)
    }

    /// Other shards have confirmed shard messages.
    mutating func confirmed(by shard: Int) { lines.wake(shard) }

    /// Takes the next item that may happen; nil if there is none.
    ///
    /// - Parameters:
    ///   - persisted: the last change that would survive a power cut.
    ///   - shardMessages: what other shards have to confirm.
    mutating func pop(persisted: UInt64, _ shardMessages: AwaitedShardMessages) -> Released? {
        if let entry = lines.pop(persisted: persisted, shardMessages) {
            return Released(item: entry.item, answer: takeAnswer(entry))
        }
        while let first = waiting.first, first.sequence <= persisted {
            let entry = takeFirst(first, shardMessages)
            // A choice of share groups goes its way as soon as it is durable; its PUBREC takes its place among those
            // that wait.
            if entry.item.kind != .dispatch, keepsWaiting(entry, shardMessages, persisted) { continue }
            return Released(item: entry.item, answer: takeAnswer(entry))
        }
        return nil
    }

    @inline(__always)
    private mutating func keepsWaiting(_ entry: HeldLines.Entry, _ shardMessages: AwaitedShardMessages, _ persisted: UInt64) -> Bool
    {
        guard !lines.isEmpty || entry.dependency.shards != 0 || entry.item.sequence > persisted else { return false }
        let keepsWaiting = lines.takesIn(entry, persisted: persisted, shardMessages)
        for number in lines.takeForgotten() { answers[number] = nil }
        return keepsWaiting
    }

    private mutating func takeFirst(_ item: HeldPacket, _ shardMessages: AwaitedShardMessages) -> HeldLines.Entry {
        var entry = HeldLines.Entry(item: item, number: firstNumber, dependency: .nothing)
        if let need = needs.first, need.number == firstNumber {
            entry.dependency =
                need.dependency.isEverything
                ? DurabilityDependency(shards: .max, serial: shardMessages.serial, partitions: .max) : need.dependency
            needs.popFirst(keepingCapacity: Limits.heldCapacityMax)
        }
        waiting.popFirst(keepingCapacity: Limits.heldCapacityMax)
        firstNumber &+= 1
        return entry
    }

    @inline(__always)
    private mutating func takeAnswer(_ entry: HeldLines.Entry) -> HeldAnswer? {
        entry.item.kind.hasAnswer ? answers.removeValue(forKey: entry.number) : nil
    }

    /// What relies on such shard messages. O(n).
    func items(where isWanted: (DurabilityDependency) -> Bool) -> [HeldPacket] {
        let waitingHere = needs.filter { isWanted($0.dependency) }
        return waitingHere.map { waiting[Int($0.number &- firstNumber)] }
            + lines.entries.filter { isWanted($0.dependency) }.map(\.item)
    }

    /// How many items there are of each connection.
    func counts() -> [ConnectionID: Int] {
        Dictionary((Array(waiting) + lines.items).map { ($0.connection, 1) }, uniquingKeysWith: +)
    }

    func checkInvariants() {
        for position in 0..<max(0, waiting.count - 1) {
            precondition(waiting[position].sequence <= waiting[position + 1].sequence, "changes come in order")
        }
        let numbers = needs.map(\.number)
        precondition(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }, "dependencies come in order")
        precondition(numbers.allSatisfy { $0 >= firstNumber && $0 < endNumber }, "a dependency is on something that waits")
        let answered = (Array(waiting) + lines.items).count { $0.kind.hasAnswer }
        precondition(answers.count == answered, "each answer has its item")
        lines.checkInvariants()
    }
}
