internal import Bytes

/// What a connection keeps while its transport takes nothing: one that does not read must not hold much more memory than what waits for it.
///
///     [ chunk A 9..<49 ][ own 0..<12 ][ chunk B 0..<90_000 ][ own 12..<24 ][ chunk C 7..<9 ]        C: frames are still appended to it
///     [ private 0..<52 ][ chunk B 0..<90_000 ][ private 52..<64 ]           [ chunk C 7..<9 ]        once settled
///
/// Of a chunk that many stalled connections wait for they all keep the one copy, as long as each waits for a good part of it.
extension OutputBuffer {
    /// The bytes of memory that stand behind what is pending. A chunk that others wait for as well counts in full; O(segments).
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

    /// Copies what would pin much more memory than it is. Call when the transport has taken less than it was offered, and again at the end of
    /// each turn that has added to what it does not take.
    ///
    /// Afterwards `heldBytes` is at most sixteen times `pendingBytes`, and 4 KiB. Looks at each segment once, and copies each byte a
    /// bounded number of times, however often it is called.
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
            && group.byteCount >= group.count * Limits.keptPieceBytesMin
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

    /// The chunk of the segment before `end`, if it is this connection's and has room, or another one. They grow with what is pending.
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
