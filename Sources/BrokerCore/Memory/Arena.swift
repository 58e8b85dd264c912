/// Where a shard encodes the frames that it shares among connections.
///
/// A frame is written once; each receiver's output then points at it. Consecutive frames lie side by side, so a
/// receiver of all of them sends one run of bytes. When nobody points into the current chunk any more it is rewound,
/// and stays in the cache.
///
///     chunk  [ frame 1 | frame 2 | frame 3 |            free              ]
///              ▲─────── one segment of a fast receiver ───▲ used
struct Arena: ~Copyable {
    private var current: ArenaChunk
    private var idle: [ArenaChunk] = []
    /// The bytes of all chunks that there are, idle ones too.
    private(set) var byteCount = Limits.arenaChunkBytes

    init() {
        current = ArenaChunk(capacity: Limits.arenaChunkBytes)
        current.pins = 1
        _ = Reference(retaining: current)
    }

    deinit { Reference(current).release() }

    /// Room for `count` bytes, to be written at once: the chunk, pinned for the caller until `release`, and the offset.
    ///
    /// More than half a chunk gets a chunk of its own, which goes when its last receiver has it.
    mutating func allocate(_ count: Int) -> (chunk: Reference<ArenaChunk>, offset: Int) {
        if count > Limits.arenaChunkBytes / 2 {
            let own = ArenaChunk(capacity: count)
            byteCount &+= count
            own.pins = 1
            return (Reference(retaining: own), 0)
        }
        if current.capacity &- current.used < count { renew() }
        let offset = current.used
        current.used &+= count
        current.pins &+= 1
        return (Reference(current), offset)
    }

    /// The bytes of the chunks that output points into, and of those that are made for one connection.
    var pinnedBytes: Int { byteCount - (idle.count + (current.pins == 1 ? 1 : 0)) * Limits.arenaChunkBytes }

    /// Any chunk, for a frame that is not made yet.
    var placeholder: ArenaChunk { current }

    /// A chunk of `capacity` bytes for copies that one connection keeps, without a pin: the first segment that points
    /// into it must pin it.
    mutating func makePrivate(_ capacity: Int) -> Reference<ArenaChunk> {
        byteCount &+= capacity
        return Reference(retaining: ArenaChunk(capacity: capacity, isPrivate: true))
    }

    /// Whether frames are still appended to `chunk`.
    func isCurrent(_ chunk: Reference<ArenaChunk>) -> Bool { chunk == Reference(current) }

    /// Takes back one pin of `chunk`.
    mutating func release(_ chunk: Reference<ArenaChunk>) {
        let last = chunk.with { pinned in
            pinned.pins &-= 1
            return pinned.pins == 0
        }
        if last { recycle(chunk.take()) }
    }

    /// Starts over at the front of the chunk when no output points into it. Call at the end of a turn.
    mutating func rewind() {
        if current.pins == 1 { current.used = 0 }
    }

    private mutating func renew() {
        if current.pins == 1 {
            current.used = 0
            return
        }
        let full = Reference(current)
        let next = idle.popLast() ?? makeChunk()
        next.used = 0
        next.pins = 1
        current = next
        _ = Reference(retaining: next)
        release(full)
    }

    private mutating func makeChunk() -> ArenaChunk {
        byteCount &+= Limits.arenaChunkBytes
        return ArenaChunk(capacity: Limits.arenaChunkBytes)
    }

    private mutating func recycle(_ chunk: ArenaChunk) {
        guard !chunk.isPrivate, chunk.capacity == Limits.arenaChunkBytes, idle.count < Limits.idleChunksMax else {
            byteCount &-= chunk.capacity
            return
        }
        idle.append(chunk)
    }
}

/// A block of memory that holds encoded frames which many connections send.
///
/// Invariant: `pins` is the number of output segments that point into the chunk, plus one while the arena appends to
/// it; the memory is given back when it falls to zero. The count is not atomic: a chunk belongs to one shard and never
/// leaves its thread.
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

extension Limits {
    /// Blocks that wait for their next use. Bytes: `arenaChunkBytes` each.
    static let idleChunksMax = 16
}
