/// What a node's clients want of the cluster, and what the node asks the engine for: each filter once, counted, those left out that another
/// one covers, and beyond a bound cut to prefixes.
///
/// Invariant: what is asked for matches every topic that a wanted filter matches, after each change; while a change is carried out in its
/// order as well, because what is new comes first.
public struct InterestTable {
    /// A step to be carried out, in order. Filters are what is matched, without `$share/NAME/`.
    public enum Change: Equatable, Sendable {
        case add([UInt8])
        case drop([UInt8])
    }

    private let filtersMax: Int
    /// How often each filter is wanted.
    private var wanted: [[UInt8]: Int] = [:]
    private var tree = CoverTree()
    /// To how many levels filters are cut, a last `#` not counted; nil while they are not.
    private(set) var levelsMax: Int?

    /// - Parameter filtersMax: beyond so many filters they are cut.
    public init(filtersMax: Int) { self.filtersMax = filtersMax }

    /// What the engine is asked for, sorted.
    public var asked: [[UInt8]] { tree.tops }
    public var askedCount: Int { tree.topCount }
    public var wantedCount: Int { wanted.count }
    /// Whether more comes than is wanted, because there are too many filters.
    public var isCut: Bool { levelsMax != nil }

    /// One more wants what a filter matches.
    public mutating func insert(_ filter: [UInt8]) -> [Change] {
        wanted[filter, default: 0] += 1
        guard wanted[filter] == 1 else { return [] }
        var (rising, sinking): ([[UInt8]], [[UInt8]]) = ([], [])
        tree.insert(cut(filter, to: levelsMax), rising: &rising, sinking: &sinking)
        // Where no level is left, another cut would change nothing.
        if tree.topCount > filtersMax, levelsMax != 0 {
            return rebuild(levelsMax: fittingLevels(), before: rising, sinking)
        }
        return rising.map(Change.add) + sinking.map(Change.drop)
    }

    /// One less wants it; nothing happens if nobody did.
    public mutating func remove(_ filter: [UInt8]) -> [Change] {
        guard let count = wanted[filter] else { return [] }
        wanted[filter] = count > 1 ? count - 1 : nil
        guard count == 1 else { return [] }
        var (rising, sinking): ([[UInt8]], [[UInt8]]) = ([], [])
        tree.remove(cut(filter, to: levelsMax), rising: &rising, sinking: &sinking)
        // Not at the bound itself, where one more and one less would cut and mend in turns.
        if levelsMax != nil, wanted.count <= filtersMax / 2 { return rebuild(levelsMax: nil, before: rising, sinking) }
        return rising.map(Change.add) + sinking.map(Change.drop)
    }

    // MARK: Cutting

    /// Makes the tree anew. `rising` and `sinking` are what has happened in the old one and was not told.
    private mutating func rebuild(levelsMax: Int?, before rising: [[UInt8]], _ sinking: [[UInt8]]) -> [Change] {
        let old = Set(tree.tops).subtracting(rising).union(sinking)
        self.levelsMax = levelsMax
        tree = CoverTree()
        for filter in wanted.keys {
            var (rising, sinking): ([[UInt8]], [[UInt8]]) = ([], [])
            tree.insert(cut(filter, to: levelsMax), rising: &rising, sinking: &sinking)
        }
        let new = tree.tops
        let gone = old.subtracting(new).sorted(by: CoverTree.precedes)
        return new.filter { !old.contains($0) }.map(Change.add) + gone.map(Change.drop)
    }

    /// The most levels with which half as many filters are left as there may be; 0 if none has few enough.
    private func fittingLevels() -> Int {
        var levels = wanted.keys.reduce(0) { max($0, $1.count(where: { $0 == UInt8(ascii: "/") })) }
        if let levelsMax { levels = min(levels, levelsMax - 1) }
        // With more levels there are never fewer filters.
        var (low, high) = (0, max(0, levels))
        while low < high {
            let middle = (low + high + 1) / 2
            if Set(wanted.keys.map { cut($0, to: middle) }).count > filtersMax / 2 { high = middle - 1 } else { low = middle }
        }
        return low
    }

    /// The filter, or its first levels and `#`, which matches more. Where no level is left, what begins with `$` keeps its first one,
    /// because a bare `#` does not match it.
    private func cut(_ filter: [UInt8], to levelsMax: Int?) -> [UInt8] {
        guard let levelsMax else { return filter }
        let levels = filter.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        let kept = filter.first == UInt8(ascii: "$") ? max(1, levelsMax) : levelsMax
        guard levels.count > kept, !(levels.count == kept + 1 && levels[kept].elementsEqual([UInt8(ascii: "#")])) else {
            return filter
        }
        return Array((levels.prefix(kept) + [[UInt8(ascii: "#")][...]]).joined(separator: [UInt8(ascii: "/")]))
    }

    func checkInvariants() {
        tree.checkInvariants()
        precondition(wanted.values.allSatisfy { $0 > 0 }, "what nobody wants is forgotten")
    }
}
