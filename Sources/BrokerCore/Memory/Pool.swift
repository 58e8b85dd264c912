/// A growing array of small trivial values that are known by 32-bit indices; indices of removed values are used again.
struct Pool<Element: BitwiseCopyable>: ~Copyable {
    private(set) var base: UnsafeMutablePointer<Element>
    /// Above every index in use.
    private(set) var end = 0
    private var capacity: Int
    private var free: [UInt32] = []

    init(capacity: Int = 64) {
        self.capacity = capacity
        base = .allocate(capacity: capacity)
    }

    deinit { base.deallocate() }

    /// How many values the pool holds.
    var count: Int { end - free.count }

    subscript(index: UInt32) -> Element {
        @inline(__always) get { base[Int(index)] }
        @inline(__always) nonmutating _modify { yield &base[Int(index)] }
    }

    mutating func insert(_ element: Element) -> UInt32 {
        if let index = free.popLast() {
            (base + Int(index)).initialize(to: element)
            return index
        }
        if end == capacity {
            let larger = UnsafeMutablePointer<Element>.allocate(capacity: capacity + capacity / 2 + 1)
            larger.moveInitialize(from: base, count: end)
            base.deallocate()
            base = larger
            capacity += capacity / 2 + 1
        }
        (base + end).initialize(to: element)
        end += 1
        return UInt32(end - 1)
    }

    mutating func remove(_ index: UInt32) { free.append(index) }
}
