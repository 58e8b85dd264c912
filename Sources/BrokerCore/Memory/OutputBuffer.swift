internal import Bytes

/// What one connection has still to send: a sequence of segments, each a run of bytes in an arena chunk or in the
/// buffer's own block.
///
///     earlier: [ chunk A 0..<840 ][ own 0..<12 ]   tail: [ chunk A 1008..<4032 ]
///
/// While the transport takes nothing, `settle` copies the segments that pin more memory than they are.
///
/// Invariant: `pendingBytes` is the sum of all segments' lengths; each segment in a chunk holds one pin of it; with
/// nothing pending the buffer holds no memory. Owned by a connection, used on its shard's thread only.
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

    /// Adds `length` bytes that lie in `chunk` at `offset`: extends the last segment if they follow on it, else pins
    /// the chunk.
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

    /// Makes room for `count` bytes of the buffer's own at the end and counts them as pending; the caller fills them in
    /// at once.
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
            // A power of two of the segment's 24 bytes would waste a third of a block; capacity is what fits the block
            // given.
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

/// What a connection keeps while its transport takes nothing: one that does not read must not hold much more memory
/// than what waits for it.
///
///     [ chunk A 9..<49 ][ own 0..<12 ][ chunk B 0..<90_000 ][ own 12..<24 ][ chunk C 7..<9 ]        C: frames are still appended to it
///     [ private 0..<52 ][ chunk B 0..<90_000 ][ private 52..<64 ]           [ chunk C 7..<9 ]        once settled
///
/// Of a chunk that many stalled connections wait for they all keep the one copy, as long as each waits for a good part
/// of it.
extension OutputBuffer {
    /// The bytes of memory that stand behind what is pending. A chunk that others wait for as well counts in full;
    /// O(segments).
    var heldBytes: Int {
        var sum = ownCapacity + Int(earlierCapacity) * MemoryLayout<Segment>.stride
        var last: Reference<ArenaChunk>?
        var index = earlierHead
        while index <= earlierEnd {
            let segment = index == earlierEnd ? tail : earlier.unsafelyUnwrapped[Int(index)]
            if let chunk = segment.chunk, chunk != last {
                sum += chunk.with { $0.capacity }
                last = chunk
            }
            index &+= 1
        }
        return sum
    }

    /// Copies what would pin much more memory than it is. Call when the transport has taken less than it was offered,
    /// and again at the end of each turn that has added to what it does not take.
    ///
    /// Afterwards `heldBytes` is at most sixteen times `pendingBytes`, and 4 KiB. Looks at each segment once, and
    /// copies each byte a bounded number of times, however often it is called.
    @inline(never)
    mutating func settle(arena: inout Arena, pool: inout BufferPool) {
        let isSmall = pendingBytes < Limits.copiedOutputBytesMax
        var isFromHead = false
        if isSmall {
            isFromHead = heldBytes > Limits.keptChunkShare * pendingBytes + Limits.bufferBytesMin
        } else {
            shrinkHead(&arena)
            let isDue = hasUnsettledChunk(from: max(settledEnd, earlierHead), arena)
            guard isDue || ownCapacity > Limits.keptChunkShare * pendingBytes else { return }
        }
        // Moves the list where it is full: only now do places in it stay what they are.
        pushTail(&pool)
        tail = Segment(chunk: nil, offset: 0, length: 0)
        let first = isFromHead ? earlierHead : max(settledEnd, earlierHead)
        var (next, end) = (first, first)
        while next < earlierEnd {
            let group = group(at: next)
            if !isSmall, group.end == earlierEnd, let chunk = group.chunk, arena.isCurrent(chunk) { break }
            let keeps = !isSmall && isWorthKeeping(group)
            while next < group.end {
                let segment = earlier.unsafelyUnwrapped[Int(next)]
                next &+= 1
                if keeps, segment.chunk != nil {
                    put(segment, at: &end, &arena)
                } else {
                    copy(segment, to: &end, &arena)
                }
            }
        }
        settledEnd = end
        if next == earlierEnd { dropOwn(&pool) }
        while next < earlierEnd {
            earlier.unsafelyUnwrapped[Int(end)] = earlier.unsafelyUnwrapped[Int(next)]
            next &+= 1
            end &+= 1
        }
        earlierEnd = end
        shrinkEarlier(&pool)
    }

    /// Consecutive segments of one chunk, and those of the buffer's own between them and behind them.
    private struct Group {
        var chunk: Reference<ArenaChunk>?
        var end: Int32
        /// Of the segments in the chunk.
        var byteCount = 0
        var count = 0
    }

    private func group(at start: Int32) -> Group {
        var group = Group(chunk: nil, end: start)
        while group.end < earlierEnd {
            let segment = earlier.unsafelyUnwrapped[Int(group.end)]
            if let chunk = segment.chunk {
                if let known = group.chunk, known != chunk { break }
                group.chunk = chunk
                group.byteCount &+= segment.length
                group.count &+= 1
            }
            group.end &+= 1
        }
        return group
    }

    private func isWorthKeeping(_ group: Group) -> Bool {
        guard let chunk = group.chunk else { return false }
        return group.byteCount >= chunk.with { $0.capacity } / Limits.keptChunkShare
            && group.byteCount >= group.count * Limits.keptSessionChunkBytesMin
    }

    /// Whether a segment that was not looked at lies in a chunk that is full.
    private func hasUnsettledChunk(from first: Int32, _ arena: borrowing Arena) -> Bool {
        var index = first
        while index < earlierEnd {
            // Frames never return to a chunk that they have left: if the first is in the current one, the others are.
            if let chunk = earlier.unsafelyUnwrapped[Int(index)].chunk { return !arena.isCurrent(chunk) }
            index &+= 1
        }
        return tail.chunk.map { !arena.isCurrent($0) } ?? false
    }

    /// Adds a segment that keeps its pin, or extends the one before it.
    private mutating func put(_ segment: Segment, at end: inout Int32, _ arena: inout Arena) {
        if end > earlierHead {
            let last = earlier.unsafelyUnwrapped + Int(end &- 1)
            if let chunk = segment.chunk, let before = last.pointee.chunk, before == chunk,
                last.pointee.offset &+ last.pointee.length == segment.offset
            {
                last.pointee.length &+= segment.length
                arena.release(chunk)
                return
            }
        }
        earlier.unsafelyUnwrapped[Int(end)] = segment
        end &+= 1
    }

    /// Copies a segment behind what is settled, and gives up its pin.
    private mutating func copy(_ segment: Segment, to end: inout Int32, _ arena: inout Arena) {
        let chunk = privateChunk(before: end, room: segment.length, &arena)
        let source = slice(of: segment)
        let offset = chunk.with { target in
            (target.base + target.used).copyMemory(from: source.base, byteCount: source.count)
            target.used &+= source.count
            target.pins &+= 1
            return target.used &- source.count
        }
        if let old = segment.chunk { arena.release(old) }
        put(Segment(chunk: chunk, offset: offset, length: segment.length), at: &end, &arena)
    }

    /// The chunk of the segment before `end`, if it is this connection's and has room, or another one. They grow with
    /// what is pending.
    private func privateChunk(before end: Int32, room count: Int, _ arena: inout Arena) -> Reference<ArenaChunk> {
        if end > earlierHead, let last = earlier.unsafelyUnwrapped[Int(end &- 1)].chunk {
            let fits = last.with { $0.isPrivate && $0.capacity &- $0.used >= count }
            if fits { return last }
        }
        return arena.makePrivate(max(count, min(max(pendingBytes, Limits.bufferBytesMin), Limits.copiedOutputBytesMax)))
    }

    /// Copies the rest of a large frame of which most was sent.
    private mutating func shrinkHead(_ arena: inout Arena) {
        guard earlierHead < earlierEnd, let chunk = earlier.unsafelyUnwrapped[Int(earlierHead)].chunk else { return }
        let segment = earlier.unsafelyUnwrapped[Int(earlierHead)]
        let capacity = chunk.with { $0.capacity }
        guard capacity > Limits.arenaChunkBytes, segment.length < capacity / Limits.keptChunkShare else { return }
        let copy = arena.makePrivate(segment.length)
        copy.with {
            $0.base.copyMemory(from: slice(of: segment).base, byteCount: segment.length)
            $0.used = segment.length
            $0.pins = 1
        }
        arena.release(chunk)
        earlier.unsafelyUnwrapped[Int(earlierHead)] = Segment(chunk: copy, offset: 0, length: segment.length)
    }

    /// No segment lies in the buffer's own block any more.
    private mutating func dropOwn(_ pool: inout BufferPool) {
        if let own { pool.giveBack(own, size: ownCapacity) }
        (own, ownCapacity, ownUsed) = (nil, 0, 0)
    }

    /// Moves few segments out of a list for many.
    private mutating func shrinkEarlier(_ pool: inout BufferPool) {
        let (count, stride) = (Int(earlierEnd &- earlierHead), MemoryLayout<Segment>.stride)
        guard let old = earlier, Int(earlierCapacity) * stride > max(Limits.bufferBytesMin, 4 * count * stride) else { return }
        let (block, size) = pool.take(atLeast: max(Limits.bufferBytesMin, 2 * count * stride))
        let smaller = block.bindMemory(to: Segment.self, capacity: size / stride)
        smaller.initialize(from: old + Int(earlierHead), count: count)
        pool.giveBack(UnsafeMutableRawPointer(old), size: Int(earlierCapacity) * stride)
        earlier = smaller
        earlierCapacity = Int32(size / stride)
        settledEnd = max(0, settledEnd &- earlierHead)
        (earlierHead, earlierEnd) = (0, Int32(count))
    }
}

extension Limits {
    /// A connection that takes no more copies its part of a shared block if that is smaller than one in this many.
    static let keptChunkShare = 4

    /// Bytes of each piece of such a part, on average, below which it is copied too: a piece takes 24 bytes to be
    /// listed.
    static let keptSessionChunkBytesMin = 64
}
