import BrokerModel
import MQTTCodec

/// The questions that a shard has been asked and has not answered, oldest first.
///
/// Invariant: at most `Limits.queriesMax` wait besides the shard's own; each has fewer rows than it asks for. Owned by
/// a shard, used on its thread only.
struct QueryScheduler {
    /// The party that gets an answer.
    enum Asker {
        case shell
        /// The log: the next page is asked for at once.
        case log
    }

    /// A question on its way to a full page.
    struct OpenQuery {
        let query: ShardQuery
        let asker: Asker
        var cursor: ShardCursor
        var rows = Rows()
        /// Of sessions in an order: the best ones so far, and at the end whether there are more than the page has.
        var best: BestClients?
        var hasMore: Bool?
        /// Of a topic tree: the levels found so far.
        var levels: TopicLevels?
        /// How many there are in all; nil where that is not counted.
        var count: Int?

        init(_ query: ShardQuery, _ asker: Asker) {
            (self.query, self.asker) = (query, asker)
            cursor = query.cursor ?? ShardCursor(index: 0)
            switch query.subject {
            case .clients(let selection) where selection.order != nil:
                best = BestClients(selection, max: max(query.rowsMax, Limits.clientsListedMax))
                // All are looked at.
                cursor = ShardCursor(index: 0)
            case .topicTree(let prefix, let name):
                levels = TopicLevels(under: prefix, after: name)
                cursor = ShardCursor(index: 0)
            default: break
            }
        }

        var isFull: Bool {
            rows.count >= query.rowsMax || rows.payloadBytes >= Limits.queryPayloadBytesMax
                || rows.textBytes >= Limits.queryTextBytesMax
        }
    }

    /// Rows of one kind.
    struct Rows {
        var clients: [ClientRow] = []
        var queue: [QueueRow] = []
        var subscriptions: [SubscriptionRow] = []
        var retained: [RetainedRow] = []
        /// Bytes of content in them.
        var payloadBytes = 0
        /// Bytes of topics and filters in them, and of the clients' names with these.
        var textBytes = 0

        var count: Int { clients.count + queue.count + subscriptions.count + retained.count }
    }

    private(set) var open: [OpenQuery] = []
    /// The sorted lists of sessions that were made for earlier pages.
    var clientLists = ClientLists()
    /// How many slots were looked at so far: tests see by it how much a turn does.
    var stepCount = 0

    var isEmpty: Bool { open.isEmpty }

    /// Takes a question; false if too many wait.
    mutating func add(_ query: ShardQuery, for asker: Asker) -> Bool {
        guard asker == .log || open.count < Limits.queriesMax else { return false }
        open.append(OpenQuery(query, asker))
        return true
    }

    /// Takes the question out whose turn it is.
    mutating func takeFirst() -> OpenQuery { open.removeFirst() }

    /// Puts one back that needs another turn, behind the others.
    mutating func putBack(_ query: OpenQuery) { open.append(query) }

    /// Traps where the invariant does not hold.
    func checkInvariants() {
        precondition(open.count(where: { $0.asker == .shell }) <= Limits.queriesMax, "too many questions wait")
        precondition(open.allSatisfy { !$0.isFull }, "a page is full and not sent")
    }
}

/// The levels below some others that were found so far, while the trees of topics are looked through.
///
/// Invariant: at most `Limits.topicLevelsMax` levels, of `Limits.topicLevelBytesMax` bytes or one; those that are
/// remembered stand before all others by name, so that a page of them is right, and the next one begins behind it.
struct TopicLevels {
    /// The levels above.
    let prefix: [[UInt8]]
    private let name: [UInt8]?
    private var rows: [[UInt8]: TopicLevelRow] = [:]
    private var byteCount = 0
    /// The last one that is kept, where there were more: those behind it are left out.
    private var end: [UInt8]?

    init(under prefix: [UInt8]?, after name: [UInt8]?) {
        self.prefix =
            prefix.map { $0.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { Array($0) } } ?? []
        self.name = name
    }

    /// There are `subscriptions` and `retained` messages at a level, or below it.
    mutating func add(_ level: UnsafeRawBufferPointer, subscriptions: Int, retained: Int, isBelow: Bool) {
        let level = Array(level)
        if let name, !name.lexicographicallyPrecedes(level) { return }
        if let end, end.lexicographicallyPrecedes(level) { return }
        if rows[level] == nil { byteCount += level.count }
        rows[level, default: TopicLevelRow(name: level)].add(subscriptions, retained, isBelow)
        if rows.count > Limits.topicLevelsMax || (byteCount > Limits.topicLevelBytesMax && rows.count > 1) { forgetHalf() }
    }

    /// Forgets the later half by name: of the slots or of the bytes, whichever comes first.
    private mutating func forgetHalf() {
        let sorted = rows.keys.sorted { $0.lexicographicallyPrecedes($1) }
        var bytes = 0
        let kept = sorted.prefix(Limits.topicLevelsMax / 2).prefix { name in
            bytes += name.count
            return bytes <= Limits.topicLevelBytesMax / 2
        }
        let count = max(1, kept.count)
        for name in sorted.dropFirst(count) { rows[name] = nil }
        end = sorted[count - 1]
        byteCount = rows.keys.reduce(0) { $0 + $1.count }
    }

    /// The first of them by name, and whether there are more.
    func first(_ count: Int) -> (rows: [TopicLevelRow], hasMore: Bool) {
        let sorted = rows.values.sorted { $0.name.lexicographicallyPrecedes($1.name) }
        return (Array(sorted.prefix(count)), end != nil || sorted.count > count)
    }

    /// How many there are; nil if they were not counted.
    var count: Int? { end == nil ? rows.count : nil }
}

extension TopicLevelRow {
    fileprivate mutating func add(_ subscriptions: Int, _ retained: Int, _ isBelow: Bool) {
        self.subscriptions += subscriptions
        retainedMessages += retained
        hasMoreLevels = hasMoreLevels || isBelow
    }
}

extension SubscriptionTree {
    /// Calls `body` with the text of the level of a record's filter that stands right below `prefix`, and whether the
    /// filter goes on below it; not if the filter has no such level. O(levels).
    func withLevel(below prefix: [[UInt8]], of record: UInt32, _ body: (UnsafeRawBufferPointer, Bool) -> Void) {
        var path: [UInt32] = []
        var node = records[record].node
        while node != Self.root {
            path.append(nodes[node].level)
            node = nodes[node].parent
        }
        guard path.count > prefix.count else { return }
        path.reverse()
        for (place, wanted) in prefix.enumerated() {
            guard withText(of: path[place], { $0.elementsEqual(wanted) }) else { return }
        }
        withText(of: path[prefix.count]) { body($0, path.count > prefix.count + 1) }
    }

    private func withText<Result>(of level: UInt32, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        switch level {
        case Self.singleLevelWildcard: [UInt8(ascii: "+")].withUnsafeBytes(body)
        case Self.multiLevelWildcard: [UInt8(ascii: "#")].withUnsafeBytes(body)
        default: body(levels.text(of: level))
        }
    }
}

extension RetainedStore {
    /// Calls `body` with the level below a prefix of a node's topic. O(levels).
    func withLevel(below prefix: [[UInt8]], of start: UInt32, _ body: (UnsafeRawBufferPointer, Bool) -> Void) {
        var path: [UInt32] = []
        var node = start
        while node != Self.root {
            path.append(nodes[node].level)
            node = nodes[node].parent
        }
        guard path.count > prefix.count else { return }
        path.reverse()
        for (place, wanted) in prefix.enumerated() {
            guard levels.text(of: path[place]).elementsEqual(wanted) else { return }
        }
        body(levels.text(of: path[prefix.count]), path.count > prefix.count + 1)
    }
}

extension ClientSelection {
    /// Whether a session is meant.
    func takes(_ session: Session, now: UInt64) -> Bool {
        if let isConnected, (session.connection != nil) != isConnected { return false }
        if let version, session.version != version { return false }
        if let prefix, !session.clientIdentifier.bytes.starts(with: prefix.bytes) { return false }
        if let userName, session.owner.userName != userName { return false }
        if dropsMin > 0, session.drops.total < dropsMin { return false }
        if queuedMin > 0, session.queue.waiting < queuedMin { return false }
        if lagMillisecondsMin > 0, session.lagMilliseconds(now: now) < lagMillisecondsMin { return false }
        if listener != nil || network != nil {
            guard let info = session.connection?.with({ $0.client.isLocal ? nil : $0.info }) else { return false }
            if let listener, info.listener != listener { return false }
            if let network, !network.contains(info.address) { return false }
        }
        guard let text else { return true }
        return Self.has(text, in: session.clientIdentifier.bytes)
            || session.owner.userName.map { Self.has(text, in: $0.bytes) } ?? false
    }

    /// Where a session stands.
    func position(of session: Session, now: UInt64) -> ClientPosition {
        ClientPosition(value: value(of: session, now: now), clientIdentifier: session.clientIdentifier)
    }

    private func value(of session: Session, now: UInt64) -> UInt64 {
        switch order {
        case .clientIdentifier, nil: 0
        case .drops: session.drops.total
        case .queuedMessages: UInt64(session.queue.waiting)
        case .queuedBytes: UInt64(session.queue.waitingBytes)
        case .outputBytes: session.connection?.with { UInt64($0.output.pendingBytes) } ?? 0
        case .lag: session.lagMilliseconds(now: now)
        case .receivedRate: session.connection?.with { $0.rates(at: now).received } ?? 0
        case .sentRate: session.connection?.with { $0.rates(at: now).sent } ?? 0
        case .subscriptions: UInt64(session.heldSubscriptions)
        case .connectedAt: session.connection?.with { $0.connectedAt } ?? 0
        }
    }

    /// - Parameter text: folded, not empty.
    private static func has(_ text: [UInt8], in bytes: [UInt8]) -> Bool {
        guard bytes.count >= text.count else { return false }
        return bytes.withUnsafeBufferPointer { bytes in
            text.withUnsafeBufferPointer { text in
                (0...bytes.count - text.count).contains { start in
                    text.indices.allSatisfy { folded(bytes[start + $0]) == text[$0] }
                }
            }
        }
    }
}

extension SubscriptionRow {
    init(_ session: Session, _ filter: [UInt8], shareName: EncodedString?, _ terms: SubscriptionTerms) {
        // When retained messages go out is nothing that a subscription remembers.
        let options = SubscriptionOptions(
            maximumQoS: terms.maximumQoS, noLocal: terms.noLocal, retainAsPublished: terms.retainAsPublished)
        self.init(
            clientIdentifier: session.clientIdentifier, filter: filter, shareName: shareName, options: options,
            identifier: terms.identifier)
    }
}

extension RetainedRow {
    init(_ message: Message) {
        self.init(
            topic: Array(message.topic), qos: message.qos, payloadBytes: message.payload.count,
            expiresAt: message.expiresAt == Message.neverExpires ? nil : message.expiresAt,
            publisher: message.source?.clientIdentifier)
    }
}

extension ClientRow {
    init(_ session: Session, at now: UInt64, _ position: ClientPosition? = nil) {
        let connection = session.connection?.with { ClientConnectionRow($0, at: now) }
        self.init(
            clientIdentifier: session.clientIdentifier, userName: session.owner.userName, version: session.version,
            connection: connection, createdAt: session.times.createdAt == 0 ? nil : session.times.createdAt,
            disconnectedAt: connection != nil || session.times.disconnectedAt == 0 ? nil : session.times.disconnectedAt,
            sessionExpirySeconds: session.expiryIntervalSeconds, subscriptionCount: session.heldSubscriptions,
            queuedMessages: session.queue.waiting, queuedBytes: session.queue.waitingBytes,
            inFlightMessages: session.queue.inFlight, receivedMessages: session.receivedIdentifiers.count,
            lagMilliseconds: session.lagMilliseconds(now: now), drops: session.drops,
            position: position ?? ClientPosition(value: 0, clientIdentifier: session.clientIdentifier))
    }
}

extension ClientConnectionRow {
    init(_ connection: Connection, at now: UInt64) {
        self.init(
            id: connection.id, address: connection.info.address, port: connection.info.port,
            listener: connection.client.isLocal ? nil : connection.info.listener, isBridge: connection.client.isBridge,
            cleanStart: connection.client.isCleanStart, connectedAt: connection.connectedAt,
            keepAliveSeconds: Int(connection.keepAliveMilliseconds / 1500), outputBytes: connection.output.pendingBytes,
            traffic: connection.traffic, rates: connection.rates(at: now))
    }
}

extension ClientDetail {
    init(_ session: Session, at now: UInt64) {
        self.init(
            row: ClientRow(session, at: now), will: session.will.map { ClientWillRow($0) }, inFlightMax: session.inFlightMax,
            packetBytesMax: session.connection?.with { Int($0.maximumPacketSize) }, mountPoint: session.mountPoint,
            info: session.connection?.with { $0.info })
    }
}

extension ClientWillRow {
    init(_ will: Will) {
        self.init(
            topic: will.topic, qos: will.qos, retain: will.retain, payloadBytes: will.payload.count,
            delayInterval: will.properties.willDelayInterval ?? 0)
    }
}

extension Session {
    /// Its subscriptions, those in share groups included.
    var heldSubscriptions: Int { Int(subscriptionCount) + groups.count }

    /// How long the oldest message that a connected client has not been sent has waited, in milliseconds; 0 for none.
    func lagMilliseconds(now: UInt64) -> UInt64 {
        guard let connection else { return 0 }
        let unwritten = connection.with { $0.pace.isBlocked ? $0.extras?.outputLag.milliseconds(now: now) ?? 0 : 0 }
        guard let first = queue.firstWaiting, let message = queue[first].message else { return unwritten }
        return max(unwritten, message.with { now &- min(now, $0.madeAt / 1000) })
    }
}

extension Limits {
    /// Levels of topics below one that are remembered while they are looked for: beyond it the later half by name is
    /// forgotten, and left to the pages that follow; nothing is counted then. Bytes: `topicLevelBytesMax`.
    static let topicLevelsMax = 10_000

    /// Bytes of their names; the same beyond it.
    static let topicLevelBytesMax = 4 << 20

    /// Questions that wait for their turn; beyond it, more are not taken. Bytes: 131,070 each at most, of two names.
    static let queriesMax = 64
}
