internal import Bytes

/// What one connection has still to send: a sequence of segments, each a run of bytes in an arena chunk or in the buffer's own block.
///
///     earlier: [ chunk A 0..<840 ][ own 0..<12 ]   tail: [ chunk A 1008..<4032 ]
///
/// While the transport takes nothing, `settle` copies the segments that pin more memory than they are.
///
/// Invariant: `pendingBytes` is the sum of all segments' lengths; each segment in a chunk holds one pin of it; with nothing pending
/// the buffer holds no memory. Owned by a connection, used on its shard's thread only.
struct OutputBuffer {
    struct Segment {
        /// The chunk that holds the bytes, or nil for the buffer's own block.
        var chunk: Reference<ArenaChunk>?
        var offset: Int
        var length: Int
    }

    private(set) var pendingBytes = 0
    var tail = Segment(chunk: nil, offset: 0, length: 0)
    var earlier: UnsafeMutablePointer<Segment>?
    var earlierHead: Int32 = 0
    var earlierEnd: Int32 = 0
    var earlierCapacity: Int32 = 0
    /// In units of the pool's smallest block, of which every block is a multiple: so four bytes are enough for any.
    private var ownUnits: UInt32 = 0
    /// Earlier segments below this index were looked at by `settle`.
    var settledEnd: Int32 = 0
    var ownUsed = 0
    var own: UnsafeMutableRawPointer?

    var isEmpty: Bool { pendingBytes == 0 }
    /// Bytes of the buffer's own block.
    var ownCapacity: Int {
        @inline(__always) get { Int(ownUnits) &* Limits.bufferBytesMin }
        set { ownUnits = UInt32(newValue / Limits.bufferBytesMin) }
    }

    /// Adds `length` bytes that lie in `chunk` at `offset`: extends the last segment if they follow on it, else pins the chunk.
    @inline(__always)
    mutating func appendShared(_ chunk: Reference<ArenaChunk>, offset: Int, length: Int, pool: inout BufferPool) {
        pendingBytes &+= length
        if let last = tail.chunk, last == chunk, tail.offset &+ tail.length == offset {
            tail.length &+= length
        } else {
            pushTail(&pool)
            tail = Segment(chunk: chunk, offset: offset, length: length)
            chunk.with { $0.pins &+= 1 }
        }
    }

    /// Makes room for `count` bytes of the buffer's own at the end and counts them as pending; the caller fills them in at once.
    @inline(__always)
    mutating func appendOwn(_ count: Int, pool: inout BufferPool) -> UnsafeMutableRawPointer {
        if ownCapacity &- ownUsed < count { growOwn(count, &pool) }
        if tail.chunk != nil || tail.length == 0 {
            pushTail(&pool)
            tail = Segment(chunk: nil, offset: ownUsed, length: 0)
        }
        tail.length &+= count
        pendingBytes &+= count
        ownUsed &+= count
        return own.unsafelyUnwrapped + (ownUsed &- count)
    }

    /// Adds a copy of `bytes`.
    mutating func append(_ bytes: UnsafeRawBufferPointer, pool: inout BufferPool) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        appendOwn(bytes.count, pool: &pool).copyMemory(from: source, byteCount: bytes.count)
    }

    /// Writes the pending segments, oldest first, into `slices`; returns how many it wrote, at most `slices.count`.
    func gather(into slices: UnsafeMutableBufferPointer<ByteSlice>) -> Int {
        var count = 0
        var index = earlierHead
        while index < earlierEnd, count < slices.count {
            slices[count] = slice(of: earlier.unsafelyUnwrapped[Int(index)])
            count &+= 1
            index &+= 1
        }
        if count < slices.count, tail.length > 0 {
            slices[count] = slice(of: tail)
            count &+= 1
        }
        return count
    }

    /// Forgets the first `count` bytes, which were sent.
    mutating func consume(_ count: Int, arena: inout Arena, pool: inout BufferPool) {
        precondition(count <= pendingBytes)
        pendingBytes &-= count
        if pendingBytes == 0 {
            reset(arena: &arena, pool: &pool)
            return
        }
        var left = count
        while left > 0, earlierHead < earlierEnd {
            let position = earlier.unsafelyUnwrapped + Int(earlierHead)
            if position.pointee.length > left {
                position.pointee.offset &+= left
                position.pointee.length &-= left
                return
            }
            left &-= position.pointee.length
            if let chunk = position.pointee.chunk { arena.release(chunk) }
            earlierHead &+= 1
        }
        tail.offset &+= left
        tail.length &-= left
    }

    /// Drops everything that is pending and gives the memory back.
    mutating func reset(arena: inout Arena, pool: inout BufferPool) {
        while earlierHead < earlierEnd {
            if let chunk = earlier.unsafelyUnwrapped[Int(earlierHead)].chunk { arena.release(chunk) }
            earlierHead &+= 1
        }
        if let chunk = tail.chunk { arena.release(chunk) }
        tail = Segment(chunk: nil, offset: 0, length: 0)
        if let earlier {
            pool.giveBack(UnsafeMutableRawPointer(earlier), size: Int(earlierCapacity) * MemoryLayout<Segment>.stride)
        }
        if let own { pool.giveBack(own, size: ownCapacity) }
        (earlier, earlierHead, earlierEnd, earlierCapacity, settledEnd) = (nil, 0, 0, 0, 0)
        (own, ownCapacity, ownUsed, pendingBytes) = (nil, 0, 0, 0)
    }

    func slice(of segment: Segment) -> ByteSlice {
        let base = segment.chunk?.with { $0.base } ?? own.unsafelyUnwrapped
        return ByteSlice(base: UnsafeRawPointer(base + segment.offset), count: segment.length)
    }

    /// Moves the tail behind the earlier segments, if it holds anything.
    mutating func pushTail(_ pool: inout BufferPool) {
        guard tail.length > 0 else { return }
        if earlierEnd == earlierCapacity { growEarlier(&pool) }
        (earlier.unsafelyUnwrapped + Int(earlierEnd)).initialize(to: tail)
        earlierEnd &+= 1
    }

    private mutating func growEarlier(_ pool: inout BufferPool) {
        let live = Int(earlierEnd &- earlierHead)
        let stride = MemoryLayout<Segment>.stride
        if let earlier, earlierHead > earlierCapacity / 2 {
            earlier.update(from: earlier + Int(earlierHead), count: live)
        } else {
            // A power of two of the segment's 24 bytes would waste a third of a block; capacity is what fits the block given.
            let (block, size) = pool.take(atLeast: max(Limits.bufferBytesMin, Int(earlierCapacity) * stride * 2))
            let grown = block.bindMemory(to: Segment.self, capacity: size / stride)
            if let earlier {
                grown.initialize(from: earlier + Int(earlierHead), count: live)
                pool.giveBack(UnsafeMutableRawPointer(earlier), size: Int(earlierCapacity) * stride)
            }
            earlier = grown
            earlierCapacity = Int32(size / stride)
        }
        settledEnd = max(0, settledEnd &- earlierHead)
        earlierHead = 0
        earlierEnd = Int32(live)
    }

    /// Makes room behind the own bytes: drops what was sent already, and takes a larger block if that is not enough.
    private mutating func growOwn(_ count: Int, _ pool: inout BufferPool) {
        let front = frontOfOwn()
        let live = ownUsed &- front
        if let own, front >= live, live &+ count <= ownCapacity {
            own.copyMemory(from: own + front, byteCount: live)
        } else {
            let (block, size) = pool.take(atLeast: max(live &+ count, min(ownCapacity &* 2, live &* 2)))
            if let own {
                block.copyMemory(from: own + front, byteCount: live)
                pool.giveBack(own, size: ownCapacity)
            }
            own = block
            ownCapacity = size
        }
        ownUsed = live
        shiftOwn(by: front)
    }

    /// The offset of the first own byte that is still to be sent; `ownUsed` if there is none.
    private func frontOfOwn() -> Int {
        var index = earlierHead
        while index < earlierEnd {
            let segment = earlier.unsafelyUnwrapped[Int(index)]
            if segment.chunk == nil { return segment.offset }
            index &+= 1
        }
        return tail.chunk == nil && tail.length > 0 ? tail.offset : ownUsed
    }

    private mutating func shiftOwn(by front: Int) {
        guard front > 0 else { return }
        var index = earlierHead
        while index < earlierEnd {
            if earlier.unsafelyUnwrapped[Int(index)].chunk == nil { earlier.unsafelyUnwrapped[Int(index)].offset &-= front }
            index &+= 1
        }
        if tail.chunk == nil, tail.length > 0 { tail.offset &-= front }
    }
}
