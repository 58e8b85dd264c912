import BrokerModel
import MQTTCodec

/// What waits for other shards' stores: a line for each connection that has something there, in which nothing
/// overtakes.
///
/// ```
///     lines, by the connection's slot:  first ─► entry ─► entry ◄─ last
///     blocked[shard]: the connections whose first entry waits for that shard; this one's index stands for its own store
///     ready: those whose first entry may have become free
/// ```
/// A line that is not empty stands in one of these lists, once. A connection that has ended leaves its line behind,
/// which empties itself as any other does, or is forgotten when the next connection in its slot needs one.
struct HeldLines {
    struct Entry {
        let item: HeldPacket
        /// Names its answer, if it has one.
        let number: UInt64
        var dependency: DurabilityDependency
    }

    private struct Node {
        var entry: Entry
        var next: UInt32
    }

    private struct Line {
        var generation: UInt32 = 0
        var first = Line.none
        var last = Line.none

        static let none = UInt32.max
        var isEmpty: Bool { first == Line.none }
    }

    private var nodes: [Node] = []
    private var free: [UInt32] = []
    private var lines: [Line] = []
    private var blocked: [[ConnectionID]]
    private var ready: [ConnectionID] = []
    /// The shards that have confirmed shard messages since the last `pop`, a bit each.
    private var awakened: UInt64 = 0
    private var lastPersisted: UInt64 = 0
    /// The numbers of forgotten entries that have an answer.
    private var forgotten: [UInt64] = []
    private let shard: Int

    init(shard: Int, receiverCount: Int) {
        self.shard = shard
        blocked = Array(repeating: [], count: receiverCount)
    }

    /// How many entries there are.
    var count: Int { nodes.count - free.count }
    var isEmpty: Bool { count == 0 }

    /// Takes an entry in if it has to wait: for a shard, or for others of its connection.
    mutating func takesIn(_ entry: Entry, persisted: UInt64, _ shardMessages: AwaitedShardMessages) -> Bool {
        let connection = entry.item.connection
        let slot = Int(connection.slot)
        let hasQueue = slot < lines.count && lines[slot].generation == connection.generation && !lines[slot].isEmpty
        if hasQueue {
            let node = insert(entry)
            nodes[Int(lines[slot].last)].next = node
            lines[slot].last = node
            return true
        }
        guard let shard = firstAwaited(entry, persisted, shardMessages) else { return false }
        while lines.count <= slot { lines.append(Line()) }
        forgetQueue(slot)
        let node = insert(entry)
        lines[slot] = Line(generation: connection.generation, first: node, last: node)
        blocked[shard].append(connection)
        return true
    }

    /// The numbers of entries that had an answer and were forgotten since the last call.
    mutating func takeForgotten() -> [UInt64] {
        guard !forgotten.isEmpty else { return [] }
        defer { forgotten = [] }
        return forgotten
    }

    /// A shard has confirmed shard messages.
    mutating func wake(_ shard: Int) { awakened |= 1 << UInt64(shard) }

    /// Takes the next entry that waits for nothing any more; nil if there is none.
    mutating func pop(persisted: UInt64, _ shardMessages: AwaitedShardMessages) -> Entry? {
        guard !isEmpty else { return nil }
        if persisted != lastPersisted { wake(shard) }
        lastPersisted = persisted
        wakeLines()
        while let connection = ready.last {
            let line = lines[Int(connection.slot)]
            guard line.generation == connection.generation, !line.isEmpty else {
                ready.removeLast()
                continue
            }
            let entry = nodes[Int(line.first)].entry
            if let shard = firstAwaited(entry, persisted, shardMessages) {
                ready.removeLast()
                blocked[shard].append(connection)
                continue
            }
            removeFirst(of: connection)
            return entry
        }
        return nil
    }

    private mutating func removeFirst(of connection: ConnectionID) {
        let slot = Int(connection.slot)
        let node = lines[slot].first
        lines[slot].first = nodes[Int(node)].next
        remove(node)
        if lines[slot].isEmpty { ready.removeLast() }
    }

    private mutating func wakeLines() {
        while awakened != 0 {
            let shard = awakened.trailingZeroBitCount
            awakened &= awakened &- 1
            ready += blocked[shard]
            blocked[shard].removeAll(keepingCapacity: true)
        }
    }

    private func firstAwaited(_ entry: Entry, _ persisted: UInt64, _ shardMessages: AwaitedShardMessages) -> Int? {
        entry.item.sequence > persisted ? shard : shardMessages.firstAwaited(entry.dependency)
    }

    private mutating func forgetQueue(_ slot: Int) {
        while !lines[slot].isEmpty {
            let node = lines[slot].first
            lines[slot].first = nodes[Int(node)].next
            let entry = nodes[Int(node)].entry
            if entry.item.kind.hasAnswer { forgotten.append(entry.number) }
            remove(node)
        }
    }

    private mutating func insert(_ entry: Entry) -> UInt32 {
        let node = Node(entry: entry, next: Line.none)
        if let index = free.popLast() {
            nodes[Int(index)] = node
            return index
        }
        nodes.append(node)
        return UInt32(nodes.count - 1)
    }

    private mutating func remove(_ node: UInt32) {
        free.append(node)
        guard free.count == nodes.count else { return }
        free.removeAll(keepingCapacity: nodes.count <= Limits.heldCapacityMax)
        nodes.removeAll(keepingCapacity: nodes.count <= Limits.heldCapacityMax)
    }

    /// All that is there, line by line. O(n).
    var entries: [Entry] { lines.indices.flatMap { entries(of: $0) } }
    var items: [HeldPacket] { entries.map(\.item) }

    private func entries(of slot: Int) -> [Entry] {
        var (entries, node): ([Entry], UInt32) = ([], lines[slot].first)
        while node != Line.none, entries.count <= nodes.count {
            entries.append(nodes[Int(node)].entry)
            node = nodes[Int(node)].next
        }
        return entries
    }

    func checkInvariants() {
        var listed: [ConnectionID: Int] = [:]
        for connection in blocked.joined() + ready { listed[connection, default: 0] += 1 }
        var total = 0
        for (slot, line) in lines.enumerated() where !line.isEmpty {
            let entries = entries(of: slot)
            total += entries.count
            let connection = ConnectionID(slot: UInt32(slot), generation: line.generation)
            precondition(entries.allSatisfy { $0.item.connection == connection }, "a lane is one connection's")
            precondition(listed[connection] == 1, "a lane with entries stands in one list")
        }
        precondition(total == count, "every entry is in a lane")
    }
}

/// Something that must not happen before the store has what it stands for: most often an acknowledgement to be sent. 24
/// bytes.
struct HeldPacket {
    enum Kind: UInt8 {
        case puback
        case pubrec
        case pubrel
        case pubcomp
        /// A QoS 2 PUBLISH, which waits for its packet identifier to be on the disk.
        case publish
        /// CONNACK and all behind it stand in the connection's output already, which is not flushed.
        case connack
        /// What share groups have chosen for a QoS 2 message of the client is durable: the members' shards may have it,
        /// and then, when it is durable there, the client its PUBREC.
        case dispatch
        /// The rest is a `HeldAnswer`.
        case answer

        /// Whether a `HeldAnswer` stands beside it.
        var hasAnswer: Bool { self == .answer || self == .dispatch }
    }

    /// The change of the journal that must be durable, it and all before.
    let sequence: UInt64
    let connection: ConnectionID
    let kind: Kind
    let reason: ReasonCode
    let packetIdentifier: UInt16
    /// When it was first held, in microseconds on the shard's clock: the lowest 32 bits, enough for an hour.
    let heldAt: UInt32

    init(
        _ kind: Kind, after sequence: UInt64, _ connection: ConnectionID, _ packetIdentifier: UInt16 = 0,
        _ reason: ReasonCode = .success, at heldAt: UInt32 = 0
    ) {
        self.sequence = sequence
        self.connection = connection
        self.kind = kind
        self.reason = reason
        self.packetIdentifier = packetIdentifier
        self.heldAt = heldAt
    }
}

/// An answer that is held and is no small packet.
enum HeldAnswer {
    /// SUBACK, and the retained messages that follow it.
    case suback(SubackPacket, [RetainedQuery])
    case unsuback(UnsubackPacket)
    /// PUBACK or PUBREC of a message that was not taken, with the reason in words.
    case refusal(AcknowledgementPacket)
    case endOfRetained(EndOfRetained)
    /// What share groups have chosen for a QoS 2 message is durable: now the members' shards may have it.
    case dispatch(HeldDispatch)
    /// All other shards know that the session with this key is in no share group any more.
    case export(UInt64)
}

/// A QoS 2 message that share groups have given to members on other shards.
struct HeldDispatch {
    let message: Message
    /// Names it.
    let receipt: UInt64
    let choices: [GroupChoice]
    /// What the rest of the message has caused on other shards, which its PUBREC promises too.
    let dependency: DurabilityDependency
}
