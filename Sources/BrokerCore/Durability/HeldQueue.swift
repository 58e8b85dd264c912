/// What waits for the store, in the order in which it is to happen, and for what other shards must have made durable first.
///
/// An item goes when its change is persisted and every batch of mail that left in the turn it was added, or before, is confirmed.
struct HeldQueue {
    /// Mail that another shard has to confirm before the items from number `start` on may go.
    private struct Need {
        let start: UInt64
        let shard: Int
        let serial: UInt64
    }

    private var items: [HeldPacket] = []
    private var head = 0
    /// The number of the item at the head; numbers run on for ever.
    private var headNumber: UInt64 = 0
    private var answers: [UInt64: HeldAnswer] = [:]
    /// By `start`.
    private var needs: [Need] = []
    /// The last serial that each shard confirmed.
    private var confirmed: [UInt64]
    /// The number of the first item of this turn.
    private var turnStart: UInt64 = 0

    init(shardCount: Int) { confirmed = Array(repeating: 0, count: shardCount) }

    var count: Int { items.count - head }
    private var endNumber: UInt64 { headNumber &+ UInt64(count) }

    mutating func append(_ item: HeldPacket) { items.append(item) }

    mutating func append(_ answer: HeldAnswer, after sequence: UInt64, _ connection: ConnectionID) {
        answers[endNumber] = answer
        items.append(HeldPacket(.answer, after: sequence, connection))
    }

    /// A batch with this serial goes to another shard in this turn: what is held in the turn waits until it is confirmed.
    mutating func require(_ serial: UInt64, of shard: Int) { require(Need(start: turnStart, shard: shard, serial: serial)) }

    /// What was taken from the queue just now has put something into such a batch: all that stands behind it waits.
    mutating func requireBehindTaken(_ serial: UInt64, of shard: Int) {
        require(Need(start: headNumber, shard: shard, serial: serial))
    }

    private mutating func require(_ need: Need) {
        var place = needs.count
        while place > 0, needs[place - 1].start > need.start { place -= 1 }
        needs.insert(need, at: place)
    }

    mutating func confirm(_ serial: UInt64, by shard: Int) {
        confirmed[shard] = max(confirmed[shard], serial)
        while let need = needs.first, confirmed[need.shard] >= need.serial { needs.removeFirst() }
    }

    /// Whether other shards have to confirm mail.
    var isWaitingForShards: Bool { !needs.isEmpty }

    /// Takes the next item that may go; nil if there is none.
    mutating func pop(persisted: UInt64) -> (item: HeldPacket, answer: HeldAnswer?)? {
        guard head < items.count, items[head].sequence <= persisted, headNumber < limit else { return nil }
        let item = items[head]
        let answer = item.kind == .answer ? answers.removeValue(forKey: headNumber) : nil
        head &+= 1
        headNumber &+= 1
        if head == items.count {
            items.removeAll(keepingCapacity: items.count <= Limits.heldCapacityMax)
            head = 0
        } else if head > Limits.heldCapacityMax, head > items.count / 2 {
            items.removeFirst(head)
            head = 0
        }
        return (item, answer)
    }

    mutating func endTurn() { turnStart = endNumber }

    /// The number of the first item that must wait for another shard.
    private var limit: UInt64 { needs.first?.start ?? .max }
}
