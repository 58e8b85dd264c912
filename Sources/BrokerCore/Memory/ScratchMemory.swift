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

/// Memory that is used again for each PUBLISH that needs it.
struct PublishScratch: ~Copyable {
    /// For properties that lose some before they travel on.
    var property = ScratchMemory()
    /// For the topic that an alias stands for.
    var topic = ScratchMemory()
    /// For a topic behind its mount point.
    var mount = ScratchMemory()
}
