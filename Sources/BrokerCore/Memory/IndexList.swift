/// A reused list of 32-bit indices: cleared, it keeps its memory.
struct IndexList: ~Copyable {
    private var base: UnsafeMutablePointer<UInt32>
    private var capacity: Int
    private(set) var count = 0

    init(capacity: Int = 64) {
        self.capacity = capacity
        base = .allocate(capacity: capacity)
    }

    deinit { base.deallocate() }

    subscript(position: Int) -> UInt32 {
        @inline(__always) get { base[position] }
    }

    @inline(__always)
    mutating func append(_ index: UInt32) {
        if count == capacity { grow() }
        (base + count).initialize(to: index)
        count &+= 1
    }

    mutating func removeAll() { count = 0 }

    mutating func popLast() -> UInt32? {
        guard count > 0 else { return nil }
        count &-= 1
        return base[count]
    }

    private mutating func grow() {
        let larger = UnsafeMutablePointer<UInt32>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: base, count: count)
        base.deallocate()
        base = larger
        capacity *= 2
    }
}
