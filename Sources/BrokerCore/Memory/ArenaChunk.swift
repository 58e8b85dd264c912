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

    init(capacity: Int) {
        self.base = .allocate(byteCount: capacity, alignment: 64)
        self.capacity = capacity
    }

    deinit { base.deallocate() }
}
