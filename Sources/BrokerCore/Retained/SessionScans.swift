import Bytes

/// What a shard does for one session that has subscribed to retained messages, its own or another shard's.
///
///     wanted ──► asked of the shards that may hold some ──► scans here, parts elsewhere ──► nothing left
///
/// Invariant: `scans.count` and, of the session's own shard, `parts` of each shard are at most
/// `Limits.scansPerSessionMax`; `partCount` is the sum of `parts`; no more filters are wanted than queries wait.
struct SessionScans {
    /// A query that waits for its turn.
    private(set) var wanted = Deque<RetainedQuery>()
    /// The filters of those that wait: one that is not here was taken back, or has had its turn.
    private var wantedFilters: Set<FilterBytes> = []
    /// How many of those that wait are marks, which have no filter there.
    private var markCount = 0
    /// The scans of this shard's own messages, oldest first.
    var scans: [OpenScan] = []
    /// How many scans each other shard has not finished yet; empty while none has been asked.
    private(set) var parts: [Int] = []
    private(set) var partCount = 0
    /// What scans of other shards are to be granted.
    var due: [ScanGrant] = []
    /// For another shard's session: whether no scan may go on until more is granted.
    var isStuck = false

    /// The shard that the session lives on.
    let shard: Int
    let sessionIndex: UInt32
    let sessionKey: UInt64

    init(of query: RetainedQuery) {
        (shard, sessionIndex, sessionKey) = (query.shard, query.sessionIndex, query.sessionKey)
    }

    var isEmpty: Bool { scans.isEmpty && partCount == 0 && due.isEmpty && hasNothingWanted }

    /// How many queries wait.
    var wantedCount: Int { wantedFilters.count }

    /// How many more queries may be asked now.
    var askableCount: Int { Limits.scansPerSessionMax - max(scans.count, parts.max() ?? 0) }

    /// Whether anything that has begun goes on once the session has room.
    var hasWork: Bool { !scans.isEmpty || !due.isEmpty }

    /// Whether a query waits and the number of scans allows it.
    var mayAskMore: Bool {
        guard markCount > 0 else { return !wantedFilters.isEmpty && askableCount > 0 }
        let next = wanted.first { $0.mark != nil || wantedFilters.contains(FilterBytes($0.filter)) }
        return next.map { $0.mark == nil ? askableCount > 0 : isNothingUnderWay } ?? false
    }

    /// Whether everything has ended that has had its turn: then a mark may have it.
    private var isNothingUnderWay: Bool { scans.isEmpty && partCount == 0 }
    private var hasNothingWanted: Bool { wantedFilters.isEmpty && markCount == 0 }

    /// Takes in a query. One whose filter waits already is one with that: each message that matches is sent once.
    /// ![MQTT-3.8.4-5 v5] would have it sent for each of ten thousand equal filters in a packet.
    mutating func want(_ query: RetainedQuery) {
        if query.mark != nil {
            markCount += 1
            wanted.append(query)
            return
        }
        guard wantedFilters.insert(FilterBytes(query.filter)).inserted else { return }
        // A client that subscribes and unsubscribes in turn must not leave more here than it has subscriptions.
        if wanted.count >= 2 * wantedFilters.count + markCount + Limits.scansPerSessionMax { dropOutdated() }
        wanted.append(query)
    }

    /// The session has unsubscribed.
    mutating func unwant(_ filter: [UInt8]) {
        wantedFilters.remove(FilterBytes(filter))
        if hasNothingWanted { wanted.removeAll() }
    }

    /// The query whose turn it is, or nil. A mark's turn is when everything before it has ended; those behind it wait
    /// so long.
    mutating func nextWanted() -> RetainedQuery? {
        while let query = wanted.first {
            if query.mark != nil, !isNothingUnderWay { return nil }
            wanted.popFirst()
            if query.mark != nil { markCount -= 1 }
            let isWanted = query.mark != nil || wantedFilters.remove(FilterBytes(query.filter)) != nil
            if hasNothingWanted { wanted.removeAll() }
            if isWanted { return query }
        }
        return nil
    }

    /// A shard is asked for what it has.
    mutating func addPart(of shard: Int, shardCount: Int) {
        if parts.isEmpty { parts = Array(repeating: 0, count: shardCount) }
        parts[shard] += 1
        partCount += 1
    }

    /// A shard has come to the end of a scan.
    mutating func finishPart(of shard: Int, scan: UInt64) {
        guard !parts.isEmpty, parts[shard] > 0 else { return }
        parts[shard] -= 1
        partCount -= 1
        due.removeAll { $0.shard == shard && $0.scan == scan }
    }

    /// Traps where the invariant does not hold. O(scans and shards).
    func checkInvariants() {
        precondition(scans.count <= Limits.scansPerSessionMax, "too many scans for one session")
        precondition(parts.allSatisfy { (0...Limits.scansPerSessionMax).contains($0) }, "too many parts of one shard")
        precondition(partCount == parts.reduce(0, +), "parts are counted wrong")
        precondition(wantedFilters.count + markCount <= wanted.count, "a filter is wanted that no query has")
        precondition(markCount == wanted.count { $0.mark != nil }, "marks are counted wrong")
    }

    /// Keeps of the queries what still waits, in its order.
    private mutating func dropOutdated() {
        var left = wantedFilters
        wanted.removeAll { $0.mark == nil && left.remove(FilterBytes($0.filter)) == nil }
    }
}

/// That a scan of another shard is to go on, and by how many messages: told once its session has room.
struct ScanGrant {
    let shard: Int
    let scan: UInt64
    let count: Int
}

/// The bytes of a Topic Filter in a set: all of them are hashed at once, as an array hashes one by one.
struct FilterBytes: Hashable {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
}

extension Limits {
    /// Scans that a shard has under way for one session; what the session asks for beyond waits its turn.
    /// Bytes: 65,535 each at most, those of a filter that its client has subscribed to.
    static let scansPerSessionMax = 64
}
