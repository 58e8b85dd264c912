public import BrokerModel
import MQTTCodec

/// What one shard has to tell another at the end of a turn, in order.
///
/// Messages travel as bytes, each behind a `ShardMessageHeader`: no object and no reference count crosses threads with
/// them. The rest, rare, are `ShardMessage` values; a header of kind `.shardMessage` marks their place in the order.
///
/// Filled by one shard, then given to another and never touched again: hence unchecked.
public final class ShardMessageBatch: @unchecked Sendable {
    private var block: UnsafeMutableRawPointer
    private var capacity: Int
    public private(set) var byteCount = 0
    private(set) var shardMessages: [ShardMessage] = []
    /// The number under which the receiver is to confirm that what it made of the batch is durable; 0 for no need.
    var serial: UInt64 = 0
    /// Of a batch for the cluster: what the log is to have.
    public internal(set) var logged = LogBatch()
    /// When the turn began in which it was filled, in microseconds on the shards' clock.
    var readAt: UInt64 = 0

    /// - Parameter expected: how many bytes there will be, as far as anybody can tell.
    init(expected: Int = 0) {
        capacity = max(Self.capacityMin, expected + expected / 8)
        block = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { block.deallocate() }

    var isEmpty: Bool { byteCount == 0 }
    /// How many bytes are on the way with it.
    public var cost: Int { byteCount + logged.byteCount }
    private static let capacityMin = 4096

    func append(_ shardMessage: ShardMessage) {
        shardMessages.append(shardMessage)
        append(ShardMessageHeader.shardMessage)
    }

    /// Adds a message.
    func append(_ publication: borrowing Publication, as kind: ShardMessageHeader.Kind, _ detail: ShardMessageDetail? = nil) {
        reserve(MemoryLayout<ShardMessageHeader>.size + MemoryLayout<ShardMessageDetail>.size + publication.byteCount)
        append(ShardMessageHeader(kind: kind, publication, hasDetail: detail != nil))
        if let detail { append(detail) }
        append(publication.topic)
        append(publication.properties)
        append(publication.payload)
    }

    /// Adds what there is room for.
    @inline(__always)
    private func append(_ part: UnsafeRawBufferPointer) {
        guard let source = part.baseAddress else { return }
        (block + byteCount).copyMemory(from: source, byteCount: part.count)
        byteCount &+= part.count
    }

    /// Calls `body` with each header, what it has of details, and the bytes behind them, in order.
    func forEach(_ body: (ShardMessageHeader, ShardMessageDetail, UnsafeRawPointer) -> Void) {
        var offset = 0
        while offset < byteCount {
            let header = (block + offset).loadUnaligned(as: ShardMessageHeader.self)
            offset += MemoryLayout<ShardMessageHeader>.size
            var detail = ShardMessageDetail()
            if header.hasDetail {
                detail = (block + offset).loadUnaligned(as: ShardMessageDetail.self)
                offset += MemoryLayout<ShardMessageDetail>.size
            }
            body(header, detail, UnsafeRawPointer(block + offset))
            offset += Int(header.topicLength) + Int(header.propertiesLength) + Int(header.payloadLength)
        }
    }

    @inline(__always)
    private func append<Value: BitwiseCopyable>(_ value: Value) {
        reserve(MemoryLayout<Value>.size)
        (block + byteCount).storeBytes(of: value, as: Value.self)
        byteCount &+= MemoryLayout<Value>.size
    }

    @inline(__always)
    private func reserve(_ count: Int) {
        if capacity &- byteCount < count { grow(count) }
    }

    private func grow(_ count: Int) {
        while capacity - byteCount < count { capacity *= 2 }
        let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        larger.copyMemory(from: block, byteCount: byteCount)
        block.deallocate()
        block = larger
    }
}

/// What stands behind the `ShardMessageHeader` of a message that goes to one session, is retained, or must be taken
/// once.
struct ShardMessageDetail: BitwiseCopyable {
    /// For `.shared` and `.retained`: the session, the terms of its subscription, and the group. For `.retain` and
    /// `.settled`: the node of the change that the stamp numbers, 0 for this one.
    var sessionKey: UInt64 = 0
    var sessionIndex: UInt32 = 0
    var terms: UInt32 = 0
    var group: UInt32 = 0
    /// For `.retained`: how many more of its scan are to be granted once this one is taken; 0 for most. For `.shared`:
    /// in the highest byte `Publication.hops`, and of a message that was dispatched out of the cluster's log the shard
    /// that has dispatched to it, and one.
    var request: UInt32 = 0
    /// For `.retained`: the stamp of the query. For `.shared`: stands for the group's name and filter. For `.retain`
    /// and `.settled`: the change's number among its node's, 0 for one that the cluster does not hear of.
    var stamp: UInt64 = 0
    /// For `.retain`: the shards that have the message already, a bit each. For `.retained`: the scan it came from. For
    /// `.shared`: where a message that was dispatched stands in the log, the partition in the highest byte.
    var shards: UInt64 = 0
    /// For `.publish`, `.shared` and `.retain`: names a QoS 2 message that must be taken once; 0 for any other.
    var receipt: UInt64 = 0
    /// For `.shared`: what the cluster's log calls a message that was dispatched out of it.
    var name = MessageName.none

    /// For `.shared`: which shard has dispatched to it out of the cluster's log, and where it stands there; nil for
    /// what does not come from there.
    var dispatched: (by: Int, OpenDispatches.Place)? {
        get {
            guard request & Self.dispatcher != 0 else { return nil }
            let place = OpenDispatches.Place(partition: Int(shards >> 56), sequence: shards & (1 << 56 - 1))
            return (Int(request & Self.dispatcher) - 1, place)
        }
        set {
            request = request & ~Self.dispatcher | (newValue.map { UInt32($0.by) + 1 } ?? 0)
            shards = newValue.map { UInt64($0.1.partition) << 56 | $0.1.sequence } ?? 0
        }
    }

    /// For `.shared`: how often nodes have passed the message on.
    var hops: UInt8 {
        get { UInt8(truncatingIfNeeded: request >> 24) }
        set { request = request & Self.dispatcher | UInt32(newValue) << 24 }
    }

    private static let dispatcher: UInt32 = 1 << 24 - 1
}

/// What shards tell each other besides messages.
enum ShardMessage: Sendable {
    /// All of the cluster's stream of retained messages is about to be read.
    case retainedReading
    /// It was: see `BrokerShard.sweepRetained`.
    case retainedSweep(place: Int, offers: Bool, round: UInt64)
    /// The sending shard wants the messages that match `filter` from now on, or no more.
    case interest(filter: [UInt8], isWanted: Bool)
    /// A session of the sending shard has a full queue: publishers are refused meanwhile.
    case fullQueue(FullQueue)
    /// That session has subscribed to a filter, or does no more.
    case fullQueueFilter(sessionKey: UInt64, filter: [UInt8], isThere: Bool)
    /// The session's queue has room again, or it has ended.
    case queueHasRoom(sessionKey: UInt64)
    /// A share group's member on the sending shard has changed.
    case group(GroupName, GroupChange)
    /// For the cluster: which nodes dispatch the message that follows to their members of share groups.
    case dispatch(GroupDispatch)
    /// What the receiver has dispatched to members on the sending shard, out of the cluster's log, is done.
    case dispatched([OpenDispatches.Place])
    /// For the cluster's log: steps stand behind this one from now on.
    case stepIsKnown(number: UInt64)
    /// Answer with `barrierPassed` when everything before was worked off.
    case barrier(token: UInt64)
    case barrierPassed(token: UInt64)
    /// The source of the message that follows, which is to be retained.
    case retainedSource(RetainedSource)
    /// Send the retained messages that match to a session of the sending shard.
    case retainedQuery(RetainedQuery)
    /// The session has taken `count` messages of the scan: send as many more.
    case retainedMore(scan: UInt64, sessionKey: UInt64, count: Int)
    /// The query is answered, by the scan of that number, 0 for none; all that was found was sent before.
    case retainedFinished(RetainedQuery, scan: UInt64)
    /// The session that scans were opened for has ended.
    case retainedCancelled(sessionKey: UInt64)
    /// What the sending shard was sent, up to the batch with this serial, would survive a power cut.
    case durable(serial: UInt64)
    /// The client of the sending shard has released the QoS 2 message that this names, of which these share groups had
    /// a part.
    case released(receipt: UInt64, groups: [UInt64])
    case statisticsRequest
    case statistics(ShardStatistics)
}

/// A session that has a full queue, as its shard tells the others.
struct FullQueue: Sendable {
    let sessionKey: UInt64
    /// What its client may read; nil for everything.
    let access: AccessPolicy?
    /// The topics that it is for; nil for all.
    let part: TopicPart?
    /// What it subscribes to for itself, with a QoS that waits.
    let filters: [[UInt8]]
}

/// What stands before each message in a `ShardMessageBatch`: 32 bytes, for what goes from one core to another is paid
/// for by the line.
struct ShardMessageHeader: BitwiseCopyable {
    enum Kind: UInt8 {
        /// A shard message that is no publication stands in this place; no bytes follow.
        case shardMessage
        /// Route the message to this shard's subscribers.
        case publish
        /// Route the message to those of this shard's subscribers whose sessions end with their connection: the others
        /// get it out of the cluster's log. To the cluster: log it.
        case passing
        /// Deliver the message to the session that a share group chose.
        case shared
        /// Keep (or with an empty payload remove) the retained message, and route it to those that the publisher's
        /// shard did not know.
        case retain
        /// Route the message unless a newer one of its topic has come: it went by way of the shard that keeps the
        /// topic.
        case detoured
        /// Deliver a retained message to the session that subscribed.
        case retained
        /// The cluster's retained message of a topic, in the order of its stream: keep it, unless the topic has changed
        /// since.
        case settled
    }

    let kind: Kind
    let qos: UInt8
    let retain: Bool
    /// Whether a `ShardMessageDetail` follows.
    let hasDetail: Bool
    let topicLength: UInt16
    /// `Publication.mustArrive`
    let mustArrive: Bool
    /// Whether it is in a cluster's log.
    let isLogged: Bool
    let propertiesLength: UInt32
    let payloadLength: UInt32
    let expiresAt: UInt64
    let publisher: UInt64

    /// The place of a shard message.
    static let shardMessage = ShardMessageHeader()

    private init() {
        (kind, qos, retain, hasDetail) = (.shardMessage, 0, false, false)
        (topicLength, mustArrive, isLogged, propertiesLength) = (0, false, false, 0)
        (payloadLength, expiresAt, publisher) = (0, .max, 0)
    }

    init(kind: Kind, _ publication: borrowing Publication, hasDetail: Bool) {
        self.kind = kind
        qos = publication.qos.rawValue
        retain = publication.retain
        self.hasDetail = hasDetail
        topicLength = UInt16(publication.topic.count)
        mustArrive = publication.mustArrive
        isLogged = publication.path != .all
        propertiesLength = UInt32(publication.properties.count)
        payloadLength = UInt32(publication.payload.count)
        expiresAt = publication.expiresAt
        publisher = publication.publisher
    }
}

/// What a shard has for the others at the end of its turn, a batch for each, and what it awaits of them before it
/// answers SUBACK.
///
/// ```
///     append, hold ─► batches[shard], filled in order ─► post, twice a turn
/// ```
/// A batch is there if something is in it; the shard has none for itself.
struct OutgoingShardMessages {
    private let shard: Int
    private var batches: [ShardMessageBatch?]
    /// The shards that there are batches for, a bit each.
    private var waiting: UInt64 = 0
    /// How many bytes each shard is likely to get in a turn.
    private var expectedBytes: [Int]
    private var barriers = BarrierTable()

    /// - Parameter shard: the one that sends it.
    init(from shard: Int, shardCount: Int) {
        self.shard = shard
        batches = Array(repeating: nil, count: shardCount)
        expectedBytes = Array(repeating: 0, count: shardCount)
    }

    /// Bytes that wait for the end of the turn.
    var byteCount: Int {
        var (bytes, left) = (0, waiting)
        while left != 0 {
            bytes += batches[left.trailingZeroBitCount]?.byteCount ?? 0
            left &= left &- 1
        }
        return bytes
    }

    /// Whether nothing waits for the end of the turn.
    var isEmpty: Bool { waiting == 0 }

    /// Whether something waits for a shard.
    func isThere(for shard: Int) -> Bool { batches[shard] != nil }

    // MARK: Filling

    mutating func append(_ shardMessage: ShardMessage, to shard: Int) {
        batch(for: shard).with { $0.append(shardMessage) }
    }

    mutating func appendToOthers(_ shardMessage: ShardMessage) {
        for other in batches.indices where other != shard { append(shardMessage, to: other) }
    }

    /// Adds a message.
    mutating func append(
        _ publication: borrowing Publication, as kind: ShardMessageHeader.Kind, _ detail: ShardMessageDetail?, to shard: Int
    ) {
        batch(for: shard).with { $0.append(publication, as: kind, detail) }
    }

    /// The batch for a shard, which is there, is to be confirmed under this serial when what came of it is durable.
    mutating func stamp(_ serial: UInt64, on shard: Int) {
        batch(for: shard).with { $0.serial = serial }
    }

    /// What gathers for a shard, not retained: valid until the batch is posted. To count a reference takes a locked
    /// instruction, which waits for all that was written before, into memory that is in no near cache.
    @inline(__always)
    private mutating func batch(for shard: Int) -> Reference<ShardMessageBatch> {
        if let batch = batches[shard].map({ Reference($0) }) { return batch }
        assert(shard != self.shard, "nobody writes to himself")
        let batch = ShardMessageBatch(expected: expectedBytes[shard])
        batches[shard] = batch
        waiting |= 1 << UInt64(shard)
        return Reference(batch)
    }

    // MARK: Barriers

    /// Whether an answer waits until every other shard has passed a barrier: a later one must not overtake it.
    var isBarred: Bool { barriers.isWaiting }

    /// Keeps an answer until every other shard, and the cluster if it has to, has passed what was sent before it.
    ///
    /// - Returns: the token that they send back.
    mutating func hold(_ answer: HeldAnswer, _ connection: ConnectionID, forCluster: Bool) -> UInt64 {
        let missing = batches.count - 1 + (forCluster ? 1 : 0)
        let token = barriers.hold(BarrierTable.Waiting(connection: connection, answer: answer, missing: missing))
        appendToOthers(.barrier(token: token))
        return token
    }

    /// A shard has passed a barrier; returns what waited for it if it was the last.
    mutating func passed(_ token: UInt64) -> BarrierTable.Waiting? { barriers.passed(token) }

    // MARK: Leaving

    /// Hands out the batches, in the order of their shards.
    mutating func post(_ post: (_ shard: Int, ShardMessageBatch) -> Void) {
        while waiting != 0 {
            let shard = waiting.trailingZeroBitCount
            waiting &= waiting &- 1
            guard let batch = batches[shard] else { continue }
            batches[shard] = nil
            // A turn's second batch is small: it must not make the next turn's first one small.
            expectedBytes[shard] = min(Limits.expectedShardMessageBytesMax, max(batch.byteCount, expectedBytes[shard] / 8 * 7))
            post(shard, batch)
        }
    }

    func checkInvariants() {
        precondition(batches[shard] == nil, "nobody writes to himself")
        precondition(
            batches.indices.allSatisfy { (batches[$0] != nil) == (waiting >> UInt64($0) & 1 == 1) }, "a bit for each batch")
        precondition(batches.allSatisfy { $0.map { !$0.isEmpty } ?? true }, "a batch has something in it")
        precondition(expectedBytes.allSatisfy { $0 <= Limits.expectedShardMessageBytesMax }, "what is expected has a bound")
    }
}

/// The SUBACKs that wait until every other shard routes to the new subscriptions, and the end marks that wait for what
/// those have sent.
struct BarrierTable {
    struct Waiting {
        let connection: ConnectionID
        let answer: HeldAnswer
        /// How many shards have not answered yet.
        var missing: Int
    }

    private var waiting: [UInt64: Waiting] = [:]
    private var lastToken: UInt64 = 0

    var isWaiting: Bool { !waiting.isEmpty }

    /// Takes an answer in; returns the token that the other shards are to send back.
    mutating func hold(_ entry: Waiting) -> UInt64 {
        lastToken += 1
        waiting[lastToken] = entry
        return lastToken
    }

    /// A shard has passed the barrier; returns what waited for it if it was the last.
    mutating func passed(_ token: UInt64) -> Waiting? {
        guard var entry = waiting[token] else { return nil }
        entry.missing -= 1
        if entry.missing == 0 {
            waiting[token] = nil
            return entry
        }
        waiting[token] = entry
        return nil
    }
}
