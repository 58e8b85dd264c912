import BrokerModel

/// The distinct texts of topic levels, each known by a small number, so that trees of topics compare numbers.
///
/// Open addressing with linear probing; a text lives as long as a node refers to it. Identifiers of dropped texts are
/// used again.
struct LevelTable: ~Copyable {
    /// The identifier of no level.
    static let none: UInt32 = .max

    /// 24 bytes. A text of up to twelve bytes, as most are, stands in the first twelve; a longer one is allocated and
    /// its address stands in the first eight.
    private struct Level: BitwiseCopyable {
        private var start: UInt64 = 0
        private var more: UInt32 = 0
        let length: UInt32
        var references: UInt32 = 1
        let hash: UInt32

        static let inlineBytesMax = 12

        init(_ text: UnsafeRawBufferPointer, hash: UInt32) {
            length = UInt32(text.count)
            self.hash = hash
            guard text.count > Self.inlineBytesMax else {
                withUnsafeMutableBytes(of: &self) { $0.copyMemory(from: text) }
                return
            }
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: text.count, alignment: 1)
            copy.copyMemory(from: text)
            start = UInt64(UInt(bitPattern: copy.baseAddress))
        }

        private var allocated: UnsafeMutableRawPointer? {
            length > Self.inlineBytesMax ? UnsafeMutableRawPointer(bitPattern: UInt(start)) : nil
        }

        /// Valid as long as the level stays where it is.
        @inline(__always)
        static func text(_ level: UnsafePointer<Level>) -> UnsafeRawPointer {
            level.pointee.allocated.map { UnsafeRawPointer($0) } ?? UnsafeRawPointer(level)
        }

        /// Of its text, if that is allocated.
        var allocatedBytes: Int { length > Self.inlineBytesMax ? Int(length) : 0 }

        func deallocate() { allocated?.deallocate() }
    }

    private let hashing: TopicHash
    private var levels: UnsafeMutablePointer<Level>
    private var levelsEnd = 0
    private var levelsCapacity = 64
    private var free: [UInt32] = []
    private var slots: UnsafeMutablePointer<UInt32>
    private var slotMask = 127
    private(set) var count = 0
    /// Of the texts that are allocated.
    private var textBytes = 0

    /// The bytes of memory that so many texts take.
    var heldBytes: Int { count * (MemoryLayout<Level>.stride + 2 * MemoryLayout<UInt32>.stride) + textBytes }

    init(hashing: TopicHash) {
        assert(MemoryLayout<Level>.size == 24 && MemoryLayout<Level>.offset(of: \.length) == Level.inlineBytesMax)
        self.hashing = hashing
        levels = .allocate(capacity: 64)
        slots = .allocate(capacity: 128)
        slots.initialize(repeating: Self.none, count: 128)
    }

    deinit {
        // Of those that were released nobody holds a reference, and their text is gone.
        for index in 0..<levelsEnd where levels[index].references > 0 { levels[index].deallocate() }
        levels.deallocate()
        slots.deallocate()
    }

    /// The identifier of `text`, or `none` if no node uses it.
    @inline(__always)
    func find(_ text: UnsafeRawBufferPointer) -> UInt32 {
        let hash = UInt32(truncatingIfNeeded: hashing.hash(text))
        var slot = Int(hash) & slotMask
        while true {
            let level = slots[slot]
            if level == Self.none { return level }
            let candidate = levels + Int(level)
            if candidate.pointee.hash == hash, Self.equal(candidate, text) { return level }
            slot = (slot &+ 1) & slotMask
        }
    }

    /// The identifier of `text`, which gains a reference.
    mutating func retain(_ text: UnsafeRawBufferPointer) -> UInt32 {
        let known = find(text)
        if known != Self.none {
            levels[Int(known)].references &+= 1
            return known
        }
        if count &* 2 >= slotMask { growSlots() }
        let hash = UInt32(truncatingIfNeeded: hashing.hash(text))
        let level = Level(text, hash: hash)
        let identifier = newIdentifier()
        (levels + Int(identifier)).initialize(to: level)
        insert(identifier, hash: hash)
        textBytes &+= level.allocatedBytes
        count &+= 1
        return identifier
    }

    /// Drops a reference to the level; the last one drops its text.
    mutating func release(_ identifier: UInt32) {
        let level = levels + Int(identifier)
        level.pointee.references &-= 1
        guard level.pointee.references == 0 else { return }
        remove(identifier)
        textBytes &-= level.pointee.allocatedBytes
        level.pointee.deallocate()
        free.append(identifier)
        count &-= 1
    }

    /// The text of a level in use; valid until the next change of the table.
    func text(of identifier: UInt32) -> UnsafeRawBufferPointer {
        let level = levels + Int(identifier)
        return UnsafeRawBufferPointer(start: Level.text(level), count: Int(level.pointee.length))
    }

    @inline(__always)
    private static func equal(_ level: UnsafePointer<Level>, _ text: UnsafeRawBufferPointer) -> Bool {
        guard Int(level.pointee.length) == text.count else { return false }
        guard let right = text.baseAddress else { return true }
        return MemoryComparison.equal(Level.text(level), right, count: text.count)
    }

    private mutating func newIdentifier() -> UInt32 {
        if let recycled = free.popLast() { return recycled }
        if levelsEnd == levelsCapacity {
            let larger = UnsafeMutablePointer<Level>.allocate(capacity: levelsCapacity * 2)
            larger.moveInitialize(from: levels, count: levelsEnd)
            levels.deallocate()
            levels = larger
            levelsCapacity *= 2
        }
        levelsEnd += 1
        return UInt32(levelsEnd - 1)
    }

    private mutating func insert(_ identifier: UInt32, hash: UInt32) {
        var slot = Int(hash) & slotMask
        while slots[slot] != Self.none { slot = (slot &+ 1) & slotMask }
        slots[slot] = identifier
    }

    /// Takes the identifier out of its slot and closes the gap, so that no probe is cut short.
    private mutating func remove(_ identifier: UInt32) {
        var gap = Int(levels[Int(identifier)].hash) & slotMask
        while slots[gap] != identifier { gap = (gap &+ 1) & slotMask }
        var next = (gap &+ 1) & slotMask
        while slots[next] != Self.none {
            let home = Int(levels[Int(slots[next])].hash) & slotMask
            if (next &- home) & slotMask >= (next &- gap) & slotMask {
                slots[gap] = slots[next]
                gap = next
            }
            next = (next &+ 1) & slotMask
        }
        slots[gap] = Self.none
    }

    private mutating func growSlots() {
        let old = slots
        let oldCount = slotMask + 1
        slots = .allocate(capacity: oldCount * 2)
        slots.initialize(repeating: Self.none, count: oldCount * 2)
        slotMask = oldCount * 2 - 1
        for index in 0..<oldCount where old[index] != Self.none { insert(old[index], hash: levels[Int(old[index])].hash) }
        old.deallocate()
    }
}

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
        put(Edge(parent: parent, level: level, child: child))
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

    private mutating func put(_ edge: Edge) {
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
        for index in 0..<oldCount where old[index].child != Self.none { put(old[index]) }
        old.deallocate()
    }
}

/// The levels of a topic name or filter, one after the other, in place.
///
/// `a//b` has three levels, the second of them empty; `/` has two empty ones.
struct LevelSequence {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// The next level, or nil after the last one.
    @inline(__always)
    mutating func next() -> UnsafeRawBufferPointer? {
        guard offset <= bytes.count, let base = bytes.baseAddress else { return nil }
        var end = offset
        while end < bytes.count, (base + end).load(as: UInt8.self) != UInt8(ascii: "/") { end &+= 1 }
        let level = UnsafeRawBufferPointer(start: base + offset, count: end &- offset)
        offset = end &+ 1
        return level
    }

    static func isSingleLevelWildcard(_ level: UnsafeRawBufferPointer) -> Bool {
        level.count == 1 && level[0] == UInt8(ascii: "+")
    }

    static func isMultiLevelWildcard(_ level: UnsafeRawBufferPointer) -> Bool {
        level.count == 1 && level[0] == UInt8(ascii: "#")
    }
}
