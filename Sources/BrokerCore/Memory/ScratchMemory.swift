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

/// What a shard holds for its clients and counts as it comes and goes, in bytes. What its structures know of themselves is not in it.
struct MemoryTally {
    /// Packets that have come in part, CONNECT packets that are not answered, and the topics of clients' aliases.
    var inbound = 0
    /// Of these, what connections hold that are not logged in.
    var ofNewcomers = 0
    /// Sessions and their queues, without the messages in them.
    var sessions = 0
    /// What the other shards hold, all of it, as the shell has told last.
    var elsewhere = 0
    /// What the shell remembers for administrators, as it was last told.
    var remembered = 0
}
