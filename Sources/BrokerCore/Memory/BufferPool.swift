/// Memory blocks in sizes of 1 KiB, 2 KiB, 4 KiB … that connections borrow while they have something to send.
///
/// Last in, first out: the block given back last is the one still in the cache. Larger blocks than `pooledSizeMax` are not kept.
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
