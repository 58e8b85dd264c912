/// A block of memory that holds encoded frames which many connections send.
///
/// Invariant: `pins` is the number of output segments that point into the chunk, plus one while the arena appends to it; the memory
/// is given back when it falls to zero. The count is not atomic: a chunk belongs to one shard and never leaves its thread.
final class ArenaChunk {
    let base: UnsafeMutableRawPointer
    let capacity: Int
    /// Bytes written so far. What lies below never changes while a segment points at it.
    var used = 0
    var pins = 0
    /// Whether it holds copies for one connection, which does not read.
    let isPrivate: Bool

    init(capacity: Int, isPrivate: Bool = false) {
        self.base = .allocate(byteCount: capacity, alignment: 64)
        self.capacity = capacity
        self.isPrivate = isPrivate
    }

    deinit { base.deallocate() }
}
