import BrokerModel

/// What waits until something is durable before it happens, most often an acknowledgement.
///
///     append ─► waiting ───────────────────────────────────► pop
///                  │  this shard's store: one order for all    ▲
///                  └─► lanes ──────────────────────────────────┘
///                      other shards' stores: an order for each connection
///
/// Everything waits for the same store first, in the order in which it came. What relies on shard messages that another
/// shard has not confirmed by then goes on waiting in its connection's lane, and all of that connection behind it, but
/// nothing of any other.
///
///     sequences in `waiting` never fall; answers and reliances name items in `waiting` or in a lane
struct HeldQueue {
    /// Something that may happen now.
    struct Released {
        let item: HeldPacket
        let answer: HeldAnswer?
    }

    /// What an item of `waiting` relies on; most rely on nothing else than the store.
    private struct Need {
        let number: UInt64
        let reliance: Reliance
    }

    private var waiting: [HeldPacket] = []
    private var head = 0
    /// The number of the item at the head; numbers run on for ever.
    private var headNumber: UInt64 = 0
    private var answers: [UInt64: HeldAnswer] = [:]
    /// The needs of items in `waiting`, by number.
    private var needs: [Need] = []
    private var needsHead = 0
    private var lanes: HeldLanes

    /// - Parameter shard: this one.
    init(shard: Int, receiverCount: Int) { lanes = HeldLanes(shard: shard, receiverCount: receiverCount) }

    /// How many items there are.
    var count: Int { waiting.count - head + lanes.count }
    private var endNumber: UInt64 { headNumber &+ UInt64(waiting.count - head) }

    /// Adds an item; its change is no earlier than those of the items before.
    @inline(__always)
    mutating func append(_ item: HeldPacket, relyingOn reliance: Reliance = .nothing) {
        if reliance.shards != 0 { needs.append(Need(number: endNumber, reliance: reliance)) }
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
        _ item: HeldPacket, relyingOn reliance: Reliance, _ shardMessages: AwaitedShardMessages, persisted: UInt64
    ) -> Bool {
        keepsWaiting(HeldLanes.Entry(item: item, number: 0, reliance: reliance), shardMessages, persisted)
    }

    /// Other shards have confirmed shard messages.
    mutating func confirmed(by shard: Int) { lanes.wake(shard) }

    /// Takes the next item that may happen; nil if there is none.
    ///
    /// - Parameters:
    ///   - persisted: the last change that would survive a power cut.
    ///   - shardMessages: what other shards have to confirm.
    mutating func pop(persisted: UInt64, _ shardMessages: AwaitedShardMessages) -> Released? {
        if let entry = lanes.pop(persisted: persisted, shardMessages) {
            return Released(item: entry.item, answer: takeAnswer(entry))
        }
        while head < waiting.count, waiting[head].sequence <= persisted {
            let entry = takeHead(shardMessages)
            // A choice of share groups goes its way as soon as it is durable; its PUBREC takes its place among those that wait.
            if entry.item.kind != .deal, keepsWaiting(entry, shardMessages, persisted) { continue }
            return Released(item: entry.item, answer: takeAnswer(entry))
        }
        return nil
    }

    @inline(__always)
    private mutating func keepsWaiting(_ entry: HeldLanes.Entry, _ shardMessages: AwaitedShardMessages, _ persisted: UInt64) -> Bool
    {
        guard !lanes.isEmpty || entry.reliance.shards != 0 || entry.item.sequence > persisted else { return false }
        let keepsWaiting = lanes.takesIn(entry, persisted: persisted, shardMessages)
        for number in lanes.takeForgotten() { answers[number] = nil }
        return keepsWaiting
    }

    private mutating func takeHead(_ shardMessages: AwaitedShardMessages) -> HeldLanes.Entry {
        var entry = HeldLanes.Entry(item: waiting[head], number: headNumber, reliance: .nothing)
        if needsHead < needs.count, needs[needsHead].number == headNumber {
            let reliance = needs[needsHead].reliance
            entry.reliance = reliance.isEverything ? Reliance(shards: .max, serial: shardMessages.serial) : reliance
            needsHead &+= 1
            if needsHead == needs.count {
                needs.removeAll(keepingCapacity: needs.count <= Limits.heldCapacityMax)
                needsHead = 0
            }
        }
        head &+= 1
        headNumber &+= 1
        if head == waiting.count {
            waiting.removeAll(keepingCapacity: waiting.count <= Limits.heldCapacityMax)
            head = 0
        } else if head > Limits.heldCapacityMax, head > waiting.count / 2 {
            waiting.removeFirst(head)
            head = 0
            needs.removeFirst(needsHead)
            needsHead = 0
        }
        return entry
    }

    @inline(__always)
    private mutating func takeAnswer(_ entry: HeldLanes.Entry) -> HeldAnswer? {
        entry.item.kind.hasAnswer ? answers.removeValue(forKey: entry.number) : nil
    }

    /// What relies on shard messages to a shard with a serial of these, or on all shard messages. O(n).
    func items(relyingOn shard: Int, from oldest: UInt64, through newest: UInt64) -> [HeldPacket] {
        let waitingHere = needs.dropFirst(needsHead).filter { $0.reliance.relies(on: shard, from: oldest, through: newest) }
        return waitingHere.map { waiting[head + Int($0.number &- headNumber)] }
            + lanes.entries.filter { $0.reliance.relies(on: shard, from: oldest, through: newest) }.map(\.item)
    }

    /// How many items there are of each connection.
    func counts() -> [ConnectionID: Int] {
        Dictionary((waiting[head...] + lanes.items).map { ($0.connection, 1) }, uniquingKeysWith: +)
    }

    func checkInvariants() {
        for position in head..<max(head, waiting.count - 1) {
            precondition(waiting[position].sequence <= waiting[position + 1].sequence, "changes come in order")
        }
        let numbers = needs.dropFirst(needsHead).map(\.number)
        precondition(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }, "reliances come in order")
        precondition(numbers.allSatisfy { $0 >= headNumber && $0 < endNumber }, "a reliance is of something that waits")
        let answered = (waiting[head...] + lanes.items).count { $0.kind.hasAnswer }
        precondition(answers.count == answered, "each answer has its item")
        lanes.checkInvariants()
    }
}
