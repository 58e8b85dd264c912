/// Memory blocks in sizes of 1 KiB, 2 KiB, 4 KiB … that connections borrow while they have something to send.
///
/// Last in, first out: the block given back last is the one still in the cache. Larger blocks than `pooledSizeMax` are
/// not kept.
struct BufferPool: ~Copyable {
    static let pooledSizeMax = Limits.bufferBytesMin << (Limits.bufferSizes - 1)

    /// By size.
    private let idle: UnsafeMutablePointer<AddressStack>
    /// The bytes of the blocks that were taken and not given back.
    private(set) var takenBytes = 0

    init() {
        idle = .allocate(capacity: Limits.bufferSizes)
        for sizeClass in 0..<Limits.bufferSizes { (idle + sizeClass).initialize(to: AddressStack()) }
    }

    /// A block of at least `count` bytes, and its size.
    mutating func take(atLeast count: Int) -> (block: UnsafeMutableRawPointer, size: Int) {
        var size = Limits.bufferBytesMin
        var sizeClass = 0
        while size < count {
            size &*= 2
            sizeClass &+= 1
        }
        takenBytes &+= size
        if sizeClass < Limits.bufferSizes, let block = idle[sizeClass].pop() { return (block, size) }
        return (.allocate(byteCount: size, alignment: 16), size)
    }

    /// Gives back a block that `take` returned with `size`.
    mutating func giveBack(_ block: UnsafeMutableRawPointer, size: Int) {
        var sizeClass = 0
        while Limits.bufferBytesMin << sizeClass < size { sizeClass &+= 1 }
        takenBytes &-= Limits.bufferBytesMin << sizeClass
        guard sizeClass < Limits.bufferSizes, idle[sizeClass].count < Limits.idleBufferBytesMax / size else {
            block.deallocate()
            return
        }
        idle[sizeClass].push(block)
    }

    deinit {
        for sizeClass in 0..<Limits.bufferSizes {
            while let block = idle[sizeClass].pop() { block.deallocate() }
        }
        idle.deinitialize(count: Limits.bufferSizes)
        idle.deallocate()
    }
}

/// A stack of addresses: last in, first out. Empty, it keeps its memory.
///
/// An array would look, with each one put and taken, whether somebody else has it.
struct AddressStack: ~Copyable {
    private var base: UnsafeMutablePointer<UnsafeMutableRawPointer>?
    private var capacity = 0
    private(set) var count = 0

    deinit { base?.deallocate() }

    @inline(__always)
    mutating func push(_ address: UnsafeMutableRawPointer) {
        if count == capacity { grow() }
        (base.unsafelyUnwrapped + count).initialize(to: address)
        count &+= 1
    }

    @inline(__always)
    mutating func pop() -> UnsafeMutableRawPointer? {
        guard count > 0 else { return nil }
        count &-= 1
        return base.unsafelyUnwrapped[count]
    }

    private mutating func grow() {
        capacity = max(16, capacity * 2)
        let larger = UnsafeMutablePointer<UnsafeMutableRawPointer>.allocate(capacity: capacity)
        if let base {
            larger.moveInitialize(from: base, count: count)
            base.deallocate()
        }
        base = larger
    }
}

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

/// The front part of a packet whose rest has not arrived.
///
/// Grows with the bytes that arrive, never with the length that a packet promises: 4 GiB announced cost nothing. Holds
/// no memory while no packet is cut.
struct InboundBuffer {
    private var used: UInt32 = 0
    private var room: UInt32 = 0
    private var block: UnsafeMutableRawPointer?

    /// No packet, and no buffer for one, is larger than 32 bits can say.
    private(set) var count: Int {
        get { Int(used) }
        set { used = UInt32(newValue) }
    }
    /// The bytes of memory that it takes.
    private(set) var capacity: Int {
        get { Int(room) }
        set { room = UInt32(newValue) }
    }

    var isEmpty: Bool { count == 0 }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: block, count: count) }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        if capacity &- count < bytes.count {
            var grown = max(capacity &* 2, 64)
            while grown < count &+ bytes.count { grown &*= 2 }
            let larger = UnsafeMutableRawPointer.allocate(byteCount: grown, alignment: 16)
            if let block {
                larger.copyMemory(from: block, byteCount: count)
                block.deallocate()
            }
            block = larger
            capacity = grown
        }
        (block.unsafelyUnwrapped + count).copyMemory(from: source, byteCount: bytes.count)
        count &+= bytes.count
    }

    /// Forgets the bytes and gives the memory back.
    mutating func reset() {
        block?.deallocate()
        (block, count, capacity) = (nil, 0, 0)
    }
}

/// A block that grows to the largest size asked for and is used again and again. What it holds is valid until the next
/// use.
struct ScratchMemory: ~Copyable {
    private var block: UnsafeMutableRawPointer?
    private var capacity = 0

    deinit { block?.deallocate() }

    mutating func reserve(_ count: Int) -> UnsafeMutableRawPointer {
        if let block, capacity >= count { return block }
        block?.deallocate()
        capacity = max(256, count)
        let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        block = larger
        return larger
    }
}

/// Memory that is used again for each PUBLISH that needs it.
struct PublishScratch: ~Copyable {
    /// For properties that lose some before they travel on.
    var property = ScratchMemory()
    /// For the topic that an alias stands for.
    var topic = ScratchMemory()
    /// For a topic behind its mount point.
    var mount = ScratchMemory()
}

extension Limits {
    /// How many sizes there are; a larger block is not kept.
    static let bufferSizes = 8

    /// Bytes of blocks of one size that wait for their next use: each of a thousand receivers needs one in a turn, and
    /// gives it back.
    static let idleBufferBytesMax = 2 << 20
}
