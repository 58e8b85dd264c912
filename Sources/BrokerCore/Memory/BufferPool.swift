/// Memory blocks in sizes of 1 KiB, 2 KiB, 4 KiB … that connections borrow while they have something to send.
///
/// Last in, first out: the block given back last is the one still in the cache. Larger blocks than `pooledSizeMax` are not kept.
struct BufferPool: ~Copyable {
    static let smallestSize = 1024
    static let pooledSizeMax = smallestSize << (classCount - 1)
    /// How many bytes of idle blocks of one size are kept: with a thousand receivers in a turn each needs one, and gives it back.
    static let idleBytesMax = 2 << 20
    private static let classCount = 8

    /// By size.
    private let idle: UnsafeMutablePointer<AddressStack>

    init() {
        idle = .allocate(capacity: Self.classCount)
        for sizeClass in 0..<Self.classCount { (idle + sizeClass).initialize(to: AddressStack()) }
    }

    /// A block of at least `count` bytes, and its size.
    mutating func take(atLeast count: Int) -> (block: UnsafeMutableRawPointer, size: Int) {
        var size = Self.smallestSize
        var sizeClass = 0
        while size < count {
            size &*= 2
            sizeClass &+= 1
        }
        if sizeClass < Self.classCount, let block = idle[sizeClass].pop() { return (block, size) }
        return (.allocate(byteCount: size, alignment: 16), size)
    }

    /// Gives back a block that `take` returned with `size`.
    mutating func giveBack(_ block: UnsafeMutableRawPointer, size: Int) {
        var sizeClass = 0
        while Self.smallestSize << sizeClass < size { sizeClass &+= 1 }
        guard sizeClass < Self.classCount, idle[sizeClass].count < Self.idleBytesMax / size else {
            block.deallocate()
            return
        }
        idle[sizeClass].push(block)
    }

    deinit {
        for sizeClass in 0..<Self.classCount {
            while let block = idle[sizeClass].pop() { block.deallocate() }
        }
        idle.deinitialize(count: Self.classCount)
        idle.deallocate()
    }
}
