internal import Platform

/// An entry that is remembered for one key of a `ThrottleTable`.
protocol ThrottleEntry {
    /// Of a key that nothing is known of.
    init()
    /// The entry with the lowest is the first to be forgotten.
    var lastUsedAt: UInt64 { get }
}

/// A table of addresses and clients that come too often.
///
/// Bounded: 8,192 places in sets of four; what is older gives way, so that an attacker with many addresses can make it forget but not
/// grow. Keys are hashed with a seed of the table's own, so that nobody outside knows who shares a set.
struct ThrottleTable<Entry: ThrottleEntry> {
    /// None before the first one is kept, as most brokers throttle nobody.
    private var keys: [UInt64] = []
    private var entries: [Entry] = []
    private let seed: UInt64

    init() { seed = RandomBytes.seed() }

    /// - Parameter position: of `find` or `place`.
    subscript(position: Int) -> Entry {
        get { entries[position] }
        set { entries[position] = newValue }
    }

    /// The key of a subject; two kinds of subjects do not meet.
    func key(of subject: some Hashable, kind: Int = 0) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(seed)
        hasher.combine(kind)
        hasher.combine(subject)
        // 0 is a free place.
        return UInt64(bitPattern: Int64(hasher.finalize())) | 1
    }

    /// Where a key stands, nil for nowhere.
    func find(_ key: UInt64) -> Int? { keys.isEmpty ? nil : set(of: key).first { keys[$0] == key } }

    /// Where a key stands, after having made a place for it if there was none.
    mutating func place(of key: UInt64) -> Int {
        if let known = find(key) { return known }
        if keys.isEmpty { makePlaces() }
        let set = set(of: key)
        let free = set.first { keys[$0] == 0 }
        let place = free ?? set.min { entries[$0].lastUsedAt < entries[$1].lastUsedAt } ?? set.lowerBound
        keys[place] = key
        entries[place] = Entry()
        return place
    }

    private mutating func makePlaces() {
        keys = Array(repeating: 0, count: Limits.throttledSets * Limits.throttledNetworksPerSet)
        entries = Array(repeating: Entry(), count: Limits.throttledSets * Limits.throttledNetworksPerSet)
    }

    private func set(of key: UInt64) -> Range<Int> {
        let first = Int((key >> 1) % UInt64(Limits.throttledSets)) * Limits.throttledNetworksPerSet
        return first..<(first + Limits.throttledNetworksPerSet)
    }
}
