import BrokerModel
import MQTTCodec

/// The retained messages that are on their way to new subscriptions, as one shard sees them.
///
/// - For each session that has asked, of this shard or of another one: what it waits for, and the scans of this shard's
///   messages for it.
/// - The topics that have changed live meanwhile, so that an older message that comes later is known for what it is.
/// - Whose the retained message is that comes next among the shard messages.
/// - What the publisher of the message that was handed out last may do: messages of one topic tree mostly come from one
///   publisher.
///
/// Finding, adding and removing a session's are O(1), whatever others have; a turn looks at each session once. The
/// shard asks, delivers and tells the other shards; this type decides whose turn it is.
///
/// Invariant, between two turns: `slots` has exactly the keys of `sessions`, each with its index there; a session
/// without anything left to do is there only if the next turn comes at once; `next` is at most `sessions.count`. Owned
/// by a shard, used on its thread only.
struct RetainedScans {
    /// A shard's turn at the scans: which session is looked at, how many are left to be, and how many steps may still
    /// be taken.
    struct Turn {
        fileprivate(set) var slot: Int
        fileprivate var left: Int
        fileprivate var hasBegun = false
        var steps = Limits.scanStepsPerTurn
    }

    /// A session all of whose scans have come to their end.
    struct Ended {
        let shard: Int
        let index: UInt32
        let key: UInt64
    }

    private(set) var sessions: [SessionScans] = []
    private var ended: [Ended] = []
    /// The sessions whose rows of subscriptions are to be written anew.
    var unsettled = UnsettledRows()
    private var slots: [UInt64: Int] = [:]
    private var lastNumber: UInt64 = 0
    /// The slot of the session whose turn is next.
    private var next = 0
    /// Whether a scan has room for more, so that the next turn must come at once.
    private(set) var hasReadyScan = false
    /// How many sessions, scans and queries were looked at so far: tests see by it how the work grows.
    var visitCount = 0

    /// The topics whose retained message has just changed.
    var arrivals = RetainedArrivals()
    private var arrivingSource: RetainedSource?
    private var lastPolicies: (source: RetainedSource, policies: [AccessPolicy])?

    var isEmpty: Bool { sessions.isEmpty }

    subscript(slot: Int) -> SessionScans {
        _read { yield sessions[slot] }
        _modify { yield &sessions[slot] }
    }

    // MARK: Sessions

    /// Where a session stands, or nil.
    func slot(of sessionKey: UInt64) -> Int? { slots.isEmpty ? nil : slots[sessionKey] }

    /// Where the session of a query stands; makes room for it.
    mutating func makeSlot(for query: RetainedQuery) -> Int {
        if let known = slots[query.sessionKey] { return known }
        sessions.append(SessionScans(of: query))
        slots[query.sessionKey] = sessions.count - 1
        return sessions.count - 1
    }

    /// Adds a scan for the session at `slot`.
    mutating func open(_ query: RetainedQuery, _ scan: RetainedScan, at slot: Int) {
        lastNumber += 1
        sessions[slot].scans.append(OpenScan(number: lastNumber, query: query, scan: scan))
        sessions[slot].isStuck = false
        hasReadyScan = true
    }

    /// The session of a scan has taken messages, so that the scan may send `count` more.
    mutating func grant(_ number: UInt64, of sessionKey: UInt64, _ count: Int) {
        guard let slot = slot(of: sessionKey),
            let position = sessions[slot].scans.firstIndex(where: { $0.number == number })
        else { return }
        sessions[slot].scans[position].grant(count)
        sessions[slot].isStuck = false
        hasReadyScan = true
    }

    /// Another shard's scan wants to send more to a session here: it is granted once the session has room. A session
    /// that has ended cancelled its scans.
    mutating func receivedRequest(of sessionKey: UInt64, _ grant: ScanGrant) {
        if let slot = slot(of: sessionKey) { sessions[slot].due.append(grant) }
    }

    /// Takes the grants to other shards' scans for the session at `slot`, each once.
    mutating func takeDue(at slot: Int) -> [ScanGrant] {
        guard !sessions[slot].due.isEmpty else { return [] }
        defer { sessions[slot].due = [] }
        return sessions[slot].due
    }

    /// Removes those scans of the session at `slot` that have come to their end, all at once; returns them, oldest
    /// first.
    mutating func takeFinished(at slot: Int) -> [OpenScan] {
        guard sessions[slot].scans.contains(where: \.isFinished) else { return [] }
        let finished = sessions[slot].scans.filter(\.isFinished)
        sessions[slot].scans.removeAll(where: \.isFinished)
        return finished
    }

    /// Forgets a session and ends its scans of `store`.
    mutating func remove(_ sessionKey: UInt64, in store: inout RetainedStore) {
        guard let slot = slot(of: sessionKey) else { return }
        for var open in remove(at: slot).scans { open.scan.end(in: &store) }
    }

    /// Forgets the session at `slot` if nothing is left to be done for it; the last one takes its place.
    mutating func removeIfEmpty(at slot: Int) {
        if sessions[slot].isEmpty { finish(at: slot) }
    }

    /// A session has nothing to wait for.
    mutating func recordEnd(of query: RetainedQuery) {
        ended.append(Ended(shard: query.shard, index: query.sessionIndex, key: query.sessionKey))
    }

    var hasEnded: Bool { !ended.isEmpty }
    mutating func takeEnded() -> [Ended] {
        defer { ended = [] }
        return ended
    }

    private mutating func finish(at slot: Int) {
        let finished = remove(at: slot)
        ended.append(Ended(shard: finished.shard, index: finished.sessionIndex, key: finished.sessionKey))
    }

    private mutating func remove(at slot: Int) -> SessionScans {
        let removed = sessions[slot]
        slots[removed.sessionKey] = nil
        let last = sessions.removeLast()
        if slot < sessions.count {
            sessions[slot] = last
            slots[last.sessionKey] = slot
        }
        next = min(next, sessions.count)
        return removed
    }

    // MARK: Turns

    /// Begins a turn, in which each session is looked at once as long as there are steps left.
    mutating func beginTurn() -> Turn {
        hasReadyScan = false
        return Turn(slot: sessions.isEmpty ? 0 : next % sessions.count, left: sessions.count)
    }

    /// The session that is looked at next, or nil when the turn is over. Those that were looked at in vain and have
    /// nothing left to do go.
    mutating func nextSlot(in turn: inout Turn) -> Int? {
        if turn.hasBegun {
            // Where one is removed, the last takes its place.
            if sessions[turn.slot].isEmpty { finish(at: turn.slot) } else { turn.slot += 1 }
            if turn.slot >= sessions.count { turn.slot = 0 }
            next = turn.slot
            if turn.steps == 0 { hasReadyScan = true }
        }
        guard turn.left > 0, turn.steps > 0 else { return nil }
        turn.left -= 1
        turn.hasBegun = true
        visitCount += 1
        return turn.slot
    }

    /// A scan has room that it had not before.
    mutating func markReady() { hasReadyScan = true }

    // MARK: Sources

    /// Says whose the retained message is that comes next among the shard messages.
    mutating func announce(_ source: RetainedSource) { arrivingSource = source }

    /// Takes the source that was announced; nil for the broker's own. For that message only.
    mutating func takeAnnounced() -> RetainedSource? { arrivingSource.take() }

    /// What `source` may do, if it was asked for last.
    func knownPolicies(of source: RetainedSource) -> [AccessPolicy]? {
        lastPolicies.flatMap { $0.source === source ? $0.policies : nil }
    }

    mutating func remember(_ policies: [AccessPolicy], of source: RetainedSource) { lastPolicies = (source, policies) }

    /// The rules have changed.
    mutating func forgetPolicies() { lastPolicies = nil }

    // MARK: Check

    /// Traps where the invariant does not hold; between two turns. O(sessions · shards).
    func checkInvariants() {
        precondition(slots.count == sessions.count, "\(slots.count) slots for \(sessions.count) sessions")
        for (slot, session) in sessions.enumerated() {
            precondition(slots[session.sessionKey] == slot, "session \(session.sessionKey) stands elsewhere")
            precondition(!session.isEmpty || hasReadyScan, "session \(session.sessionKey) has nothing left to do")
            session.checkInvariants()
        }
        precondition(next <= sessions.count, "the next turn is nobody's")
    }
}

/// Rows of subscriptions that say yet that retained messages are owed for them, which were found or acknowledged: some
/// are written in each turn.
///
/// A crash before finds the older row, and what it says is owed is looked for once more.
struct UnsettledRows {
    /// The unsettled rows of a session.
    struct Rows {
        let sessionIndex: UInt32
        let sessionKey: UInt64
        fileprivate let filters: [[UInt8]]
    }

    private var rows: [Rows] = []
    /// How many at the front of the first one's filters are done with.
    private var position = 0

    var isEmpty: Bool { rows.isEmpty }

    mutating func add(_ filters: [[UInt8]], sessionIndex: UInt32, sessionKey: UInt64) {
        guard !filters.isEmpty else { return }
        rows.append(Rows(sessionIndex: sessionIndex, sessionKey: sessionKey, filters: filters))
    }

    /// The filter whose row is next; nil if there is none.
    mutating func next() -> (rows: Rows, filter: [UInt8])? {
        guard let first = rows.first else { return nil }
        let filter = first.filters[position]
        position += 1
        if position == first.filters.count {
            rows.removeFirst()
            position = 0
        }
        return (first, filter)
    }
}

/// The topics whose retained message has just changed, as this shard heard it live.
///
/// A live message comes straight from its publisher's shard, a retained one from the shard that keeps the topic, so
/// that the older of two may be the later to arrive. The shard that keeps the topic skips what changed after its scan
/// began; what it had sent before it heard of the change is recognised here. That takes no longer than a message
/// between shards, so topics are remembered for some seconds only, and only while other shards are being asked, and of
/// the topics that changed last only.
struct RetainedArrivals {
    private var sequence: UInt64 = 0
    private var recent: [UInt64: UInt64] = [:]
    private var older: [UInt64: UInt64] = [:]
    private var turnedAt: UInt64 = 0
    private var activeUntil: UInt64 = 0

    /// A subscription begins that will ask other shards; returns what to compare its retained messages with.
    mutating func stamp(now: UInt64) -> UInt64 {
        stayActive(now: now)
        sequence += 1
        return sequence
    }

    /// Retained messages of other shards are still arriving.
    mutating func stayActive(now: UInt64) { activeUntil = now + Limits.arrivalsActiveMilliseconds }

    /// A live message with RETAIN was routed here; `topic` is its hash.
    mutating func record(topic: UInt64, now: UInt64) {
        guard now < activeUntil else { return }
        if now - turnedAt >= Limits.arrivalsKeptMilliseconds || recent.count >= Limits.arrivalsRememberedMax {
            older = now - turnedAt >= 2 * Limits.arrivalsKeptMilliseconds ? [:] : recent
            recent = [:]
            turnedAt = now
        }
        sequence += 1
        recent[topic] = sequence
    }

    /// How many topics are remembered.
    var rememberedCount: Int { recent.count + older.count }

    /// Whether a newer message of the topic came live after the subscription with this stamp began.
    func isOutdated(topic: UInt64, stamp: UInt64) -> Bool {
        (recent[topic] ?? older[topic] ?? 0) > stamp
    }
}

/// The login that has published a retained message: its right to be handed out follows from that. Immutable; all
/// messages of one login share it.
final class RetainedSource: Sendable {
    let clientIdentifier: EncodedString
    let userName: EncodedString?
    /// The index of the listener that its client came in by; nil if that one is no more.
    let listener: Int?
    /// As it stands in the store, behind each of its messages.
    let row: [UInt8]

    /// - Parameter listenerName: what the configuration calls the listener, or called it.
    init(clientIdentifier: EncodedString, userName: EncodedString?, listener: Int?, listenerName: String) {
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.listener = listener
        row = StoredOrigin(clientIdentifier: clientIdentifier, userName: userName, listener: .name(listenerName)).encoded()
    }
}

extension Limits {
    /// Topics of which it is remembered that their retained message has just changed; beyond it the older half is
    /// forgotten. 4 MiB with both. Bytes: 32 each, topics are hashed.
    static let arrivalsRememberedMax = 65_536

    /// How long it is remembered that a retained message changed, in milliseconds: longer than any message between
    /// shards takes.
    static let arrivalsKeptMilliseconds: UInt64 = 5_000

    /// How long after the last query of another shard changes are remembered at all, in milliseconds.
    static let arrivalsActiveMilliseconds: UInt64 = 60_000
}
