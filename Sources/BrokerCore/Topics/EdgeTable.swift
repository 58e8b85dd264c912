import BrokerModel

/// The edges of a tree of topics: (parent node, level) → child node, in one open-addressing table of 12 bytes an edge.
struct EdgeTable: ~Copyable {
    /// No child.
    static let none: UInt32 = .max

    private struct Edge {
        var parent: UInt32
        var level: UInt32
        var child: UInt32
    }

    private let hashing: TopicHash
    private var slots: UnsafeMutablePointer<Edge>
    private var mask: Int
    private(set) var count = 0

    init(hashing: TopicHash) {
        self.hashing = hashing
        mask = 127
        slots = .allocate(capacity: 128)
        slots.initialize(repeating: Edge(parent: 0, level: 0, child: Self.none), count: 128)
    }

    deinit { slots.deallocate() }

    /// The bytes of memory that so many edges take.
    var heldBytes: Int { count * MemoryLayout<Edge>.stride * 2 }

    @inline(__always)
    func child(of parent: UInt32, level: UInt32) -> UInt32 {
        var slot = home(parent, level)
        while true {
            let edge = slots[slot]
            if edge.child == Self.none || (edge.parent == parent && edge.level == level) { return edge.child }
            slot = (slot &+ 1) & mask
        }
    }

    /// Adds an edge that is not there yet.
    mutating func insert(parent: UInt32, level: UInt32, child: UInt32) {
        if count &* 4 >= mask &* 3 { grow() }
        place(Edge(parent: parent, level: level, child: child))
        count &+= 1
    }

    /// Removes an edge that is there, and closes the gap so that no probe is cut short.
    mutating func remove(parent: UInt32, level: UInt32) {
        var gap = home(parent, level)
        while slots[gap].parent != parent || slots[gap].level != level { gap = (gap &+ 1) & mask }
        var next = (gap &+ 1) & mask
        while slots[next].child != Self.none {
            let nextHome = home(slots[next].parent, slots[next].level)
            if (next &- nextHome) & mask >= (next &- gap) & mask {
                slots[gap] = slots[next]
                gap = next
            }
            next = (next &+ 1) & mask
        }
        slots[gap].child = Self.none
        count &-= 1
    }

    @inline(__always)
    private func home(_ parent: UInt32, _ level: UInt32) -> Int {
        Int(truncatingIfNeeded: hashing.hash(parent, level)) & mask
    }

    private mutating func place(_ edge: Edge) {
        var slot = home(edge.parent, edge.level)
        while slots[slot].child != Self.none { slot = (slot &+ 1) & mask }
        slots[slot] = edge
    }

    private mutating func grow() {
        let old = slots
        let oldCount = mask + 1
        mask = oldCount * 2 - 1
        slots = .allocate(capacity: oldCount * 2)
        slots.initialize(repeating: Edge(parent: 0, level: 0, child: Self.none), count: oldCount * 2)
        for index in 0..<oldCount where old[index].child != Self.none { place(old[index]) }
        old.deallocate()
    }
}
