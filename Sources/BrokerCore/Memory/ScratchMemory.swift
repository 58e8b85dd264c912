/// A block that grows to the largest size asked for and is used again and again. What it holds is valid until the next use.
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
