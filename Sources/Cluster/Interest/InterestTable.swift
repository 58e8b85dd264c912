/// What a node's clients want of the cluster, and what the node asks the servers for: each filter once, counted, those
/// left out that another one covers, and beyond a bound cut to prefixes.
///
/// Invariant: what is asked for matches every topic that a wanted filter matches, after each change; while a change is
/// carried out in its order as well, because what is new comes first.
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
    /// To how many levels filters are cut, a last `#` not counted, because there are too many of them; nil while they
    /// are not.
    private(set) var levelsMax: Int?

    /// - Parameter filtersMax: beyond so many filters they are cut.
    public init(filtersMax: Int) { self.filtersMax = filtersMax }

    /// The filters that the servers are asked for, sorted.
    public var asked: [[UInt8]] { tree.tops }

    /// Counts one more subscription to a filter.
    public mutating func insert(_ filter: [UInt8]) -> [Change] {
        wanted[filter, default: 0] += 1
        guard wanted[filter] == 1 else { return [] }
        let (rising, sinking) = tree.insert(cut(filter, to: levelsMax))
        // Where no level is left, another cut would change nothing.
        if tree.topCount > filtersMax, levelsMax != 0 {
            return rebuild(levelsMax: fittingLevels(), before: rising, sinking)
        }
        return rising.map(Change.add) + sinking.map(Change.drop)
    }

    /// Counts one subscription to a filter less; nothing happens if there was none.
    public mutating func remove(_ filter: [UInt8]) -> [Change] {
        guard let count = wanted[filter] else { return [] }
        wanted[filter] = count > 1 ? count - 1 : nil
        guard count == 1 else { return [] }
        let (rising, sinking) = tree.remove(cut(filter, to: levelsMax))
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
        for filter in wanted.keys { _ = tree.insert(cut(filter, to: levelsMax)) }
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

    /// The filter, or its first levels and `#`, which matches more. Where no level is left, what begins with `$` keeps
    /// its first one, because a bare `#` does not match it.
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

/// Filters that are wanted, in a tree of their levels, and which of them no other one covers.
///
///     a ─┬─ #      wanted, at the top: nothing else covers it
///        ├─ b      wanted, covered by a/#
///        └─ + ─ c  wanted, covered by a/#
///
/// Invariant: a filter is at the top ⇔ it is wanted and no other wanted filter covers it. To cover is to match all
/// topics that the other matches, decided by their levels; it is a strict order, so that of two filters never both go
/// because of the other.
struct CoverTree {
    private struct Node {
        let level: [UInt8]
        let parent: Int
        var children: [[UInt8]: Int] = [:]
        /// How many want the filter that ends here.
        var count = 0
        var isTop = false
    }

    private var nodes: [Node] = [Node(level: [], parent: 0)]
    private var unused: [Int] = []
    private(set) var topCount = 0

    private static let one = [UInt8(ascii: "+")]
    private static let many = [UInt8(ascii: "#")]

    /// All filters at the top, sorted.
    var tops: [[UInt8]] { nodes.indices.filter { nodes[$0].isTop }.map(filter).sorted(by: Self.precedes) }

    /// Counts a filter. Returns what goes to the top and what leaves it, sorted.
    mutating func insert(_ filter: [UInt8]) -> (rising: [[UInt8]], sinking: [[UInt8]]) {
        let levels = Self.levels(filter)
        let index = makeNode(levels)
        nodes[index].count += 1
        guard nodes[index].count == 1, !isCovered(levels, by: 0, depth: 0, except: index) else { return ([], []) }
        setTop(index, true)
        var covered: [Int] = []
        collect(levels, from: 0, depth: 0, into: &covered)
        let sunk = covered.filter { $0 != index && nodes[$0].isTop }
        for other in sunk { setTop(other, false) }
        return ([filter], sunk.map(self.filter).sorted(by: Self.precedes))
    }

    /// Counts a filter down; one that nobody wants is left alone.
    mutating func remove(_ filter: [UInt8]) -> (rising: [[UInt8]], sinking: [[UInt8]]) {
        let levels = Self.levels(filter)
        guard let index = findNode(levels), nodes[index].count > 0 else { return ([], []) }
        nodes[index].count -= 1
        guard nodes[index].count == 0 else { return ([], []) }
        defer { prune(index) }
        guard nodes[index].isTop else { return ([], []) }
        setTop(index, false)
        var covered: [Int] = []
        collect(levels, from: 0, depth: 0, into: &covered)
        let risen = covered.filter { other in
            other != index && nodes[other].count > 0
                && !isCovered(Self.levels(self.filter(other)), by: 0, depth: 0, except: other)
        }
        for other in risen { setTop(other, true) }
        return (risen.map(self.filter).sorted(by: Self.precedes), [filter])
    }

    // MARK: Covering

    /// Whether some wanted filter beneath `node`, other than `except`, covers the levels from `depth` on.
    private func isCovered(_ levels: [[UInt8]], by node: Int, depth: Int, except: Int) -> Bool {
        let isHidden = depth == 0 && levels.first?.first == UInt8(ascii: "$")
        if !isHidden, let many = nodes[node].children[Self.many], many != except, nodes[many].count > 0 { return true }
        guard depth < levels.count else { return node != except && nodes[node].count > 0 }
        let level = levels[depth]
        if level == Self.many { return false }
        if let child = nodes[node].children[level], isCovered(levels, by: child, depth: depth + 1, except: except) { return true }
        guard !isHidden, level != Self.one, let child = nodes[node].children[Self.one] else { return false }
        return isCovered(levels, by: child, depth: depth + 1, except: except)
    }

    /// All nodes beneath `node` whose filters the levels from `depth` on cover, the filter itself among them.
    private func collect(_ levels: [[UInt8]], from node: Int, depth: Int, into found: inout [Int]) {
        guard depth < levels.count else {
            found.append(node)
            return
        }
        let level = levels[depth]
        if level == Self.many {
            if depth > 0 { found.append(node) }
            for (name, child) in nodes[node].children where depth > 0 || name.first != UInt8(ascii: "$") {
                collectAll(from: child, into: &found)
            }
        } else if level == Self.one {
            for (name, child) in nodes[node].children where name != Self.many && (depth > 0 || name.first != UInt8(ascii: "$")) {
                collect(levels, from: child, depth: depth + 1, into: &found)
            }
        } else if let child = nodes[node].children[level] {
            collect(levels, from: child, depth: depth + 1, into: &found)
        }
    }

    private func collectAll(from node: Int, into found: inout [Int]) {
        found.append(node)
        for child in nodes[node].children.values { collectAll(from: child, into: &found) }
    }

    private mutating func setTop(_ index: Int, _ isTop: Bool) {
        nodes[index].isTop = isTop
        topCount += isTop ? 1 : -1
    }

    // MARK: Nodes

    private static func levels(_ filter: [UInt8]) -> [[UInt8]] {
        filter.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map(Array.init)
    }

    static func precedes(_ left: [UInt8], _ right: [UInt8]) -> Bool { left.lexicographicallyPrecedes(right) }

    private func filter(_ index: Int) -> [UInt8] {
        var levels: [[UInt8]] = []
        var index = index
        while index != 0 {
            levels.append(nodes[index].level)
            index = nodes[index].parent
        }
        return Array(levels.reversed().joined(separator: [UInt8(ascii: "/")]))
    }

    private func findNode(_ levels: [[UInt8]]) -> Int? {
        var index = 0
        for level in levels {
            guard let child = nodes[index].children[level] else { return nil }
            index = child
        }
        return index
    }

    private mutating func makeNode(_ levels: [[UInt8]]) -> Int {
        var index = 0
        for level in levels {
            if let child = nodes[index].children[level] {
                index = child
                continue
            }
            let made = Node(level: level, parent: index)
            let place = unused.popLast() ?? nodes.count
            if place == nodes.count { nodes.append(made) } else { nodes[place] = made }
            nodes[index].children[level] = place
            index = place
        }
        return index
    }

    /// Gives back the nodes that hold nothing any more, from this one upwards.
    private mutating func prune(_ index: Int) {
        var index = index
        while index != 0, nodes[index].count == 0, nodes[index].children.isEmpty {
            let parent = nodes[index].parent
            nodes[parent].children[nodes[index].level] = nil
            unused.append(index)
            index = parent
        }
    }

    func checkInvariants() {
        for index in nodes.indices where index != 0 && !unused.contains(index) {
            let isUncovered = !isCovered(Self.levels(filter(index)), by: 0, depth: 0, except: index)
            precondition(nodes[index].isTop == (nodes[index].count > 0 && isUncovered), "the top is what no other covers")
        }
        precondition(topCount == nodes.indices.filter { nodes[$0].isTop }.count, "the top is counted")
    }
}
