import TestBasics
import Testing

@testable import BrokerCore

@Suite struct OutputBufferTests {
    @Test(arguments: [UInt64(61), 62, 63, 64, 65])
    func `random appends and partial sends agree with plain bytes`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var model = OutputModel(outputs: 4)
        for step in 0..<3000 {
            let isSlow = (step / 600) % 2 == 0
            let output = random.below(4)
            switch random.below(20) {
            case 0...2: model.makeFrame(Self.size(&random))
            case 3...8 where model.frameCount > 0: model.appendShared(random.below(model.frameCount), to: output)
            case 9...12: model.appendOwn(1 + random.below(random.oneIn(10) ? 3000 : 40), to: output)
            case 13...(isSlow ? 14 : 18) where !model.expected[output].isEmpty:
                let all = model.expected[output].count
                model.consume(random.oneIn(3) ? all : random.below(min(all, 4000) + 1), of: output)
            case 19:
                model.releaseFrames()
                model.rewind()
                if random.oneIn(20) { model.reset(output) }
                // Outputs 2 and 3 are those of readers that are slow at times.
                if output > 1, !model.expected[output].isEmpty { model.settle(output) }
            default: continue
            }
            if random.oneIn(8) { model.check(output) }
        }
        model.releaseFrames()
        for output in 0..<4 {
            model.check(output)
            model.consume(model.expected[output].count, of: output)
            model.check(output)
        }
        model.checkPins()
        model.rewind()
    }

    @Test func `consecutive frames are one segment and one pin`() {
        var model = OutputModel(outputs: 2)
        for index in 0..<100 {
            model.makeFrame(30)
            model.appendShared(index, to: 0)
            if index % 2 == 0 { model.appendShared(index, to: 1) }
        }
        #expect(model.segmentCount(of: 0) == 1)
        #expect(model.segmentCount(of: 1) == 50)
        model.releaseFrames()
        model.check(0)
        model.check(1)
        model.consume(2999, of: 0)
        model.consume(1499, of: 1)
        model.check(0)
        model.check(1)
        model.consume(1, of: 0)
        model.consume(1, of: 1)
        model.checkPins()
    }

    @Test func `a run goes on behind what was sent of it`() {
        var model = OutputModel(outputs: 1)
        for index in 0..<10 {
            model.makeFrame(100)
            model.appendShared(index, to: 0)
            model.consume(60, of: 0)
            model.check(0)
        }
        #expect(model.segmentCount(of: 0) == 1)
        model.releaseFrames()
        model.consume(400, of: 0)
        model.checkPins()
    }

    @Test func `frames above half a chunk have a chunk of their own`() {
        var model = OutputModel(outputs: 2)
        model.makeFrame(10)
        for index in 1...3 {
            model.makeFrame(Limits.arenaChunkBytes / 2 + index)
            model.appendShared(index, to: 0)
            model.appendShared(0, to: 0)
        }
        model.appendShared(2, to: 1)
        #expect(model.chunkCount == 4)
        model.releaseFrames()
        model.check(0)
        model.check(1)
        model.consume(Limits.arenaChunkBytes, of: 0)
        model.check(0)
        model.reset(0)
        model.check(1)
        model.reset(1)
        model.checkPins()
    }

    @Test func `chunks are renewed while slow readers pin the old ones, and used again later`() {
        var model = OutputModel(outputs: 3)
        for round in 0..<60 {
            for index in 0..<10 {
                model.makeFrame(20_000)
                model.appendShared(index, to: round % 3)
            }
            model.releaseFrames()
            model.rewind()
            if round >= 6 { model.consume(200_000, of: round % 3) }
            if round % 10 == 0 { model.check(round % 3) }
        }
        #expect(model.chunkCount < 10, "a chunk is used again when its readers are done")
        for output in 0..<3 {
            model.check(output)
            model.reset(output)
        }
        model.checkPins()
    }

    @Test func `an arena that nobody points into starts over at its front`() {
        var arena = Arena()
        for _ in 0..<100 {
            let (first, offset) = arena.allocate(Limits.arenaChunkBytes / 2)
            #expect(offset == 0)
            arena.release(first)
            arena.rewind()
        }
        let (pinned, _) = arena.allocate(8)
        arena.rewind()
        let (next, offset) = arena.allocate(8)
        #expect(offset == 8, "what a receiver points at is not written over")
        arena.release(pinned)
        arena.release(next)
    }

    @Test func `a slow reader's own bytes are compacted and stay bounded`() {
        var arena = Arena()
        var pool = BufferPool()
        var output = OutputBuffer()
        for step in 0..<20_000 {
            output.appendOwn(40, pool: &pool).initializeMemory(
                as: UInt8.self, repeating: UInt8(truncatingIfNeeded: step), count: 40)
            if step >= 50 { output.consume(40, arena: &arena, pool: &pool) }
        }
        #expect(output.pendingBytes == 2000)
        #expect(output.ownCapacity <= 8192)
        output.reset(arena: &arena, pool: &pool)
        #expect(output.ownCapacity == 0)
    }

    /// The block is never touched, so that it takes addresses and no memory.
    @Test func `a block of two GiB is counted as what it is`() {
        var arena = Arena()
        var pool = BufferPool()
        var output = OutputBuffer()
        _ = output.appendOwn((1 << 30) + 1, pool: &pool)
        #expect(output.ownCapacity == 1 << 31)
        #expect(output.pendingBytes == (1 << 30) + 1)
        output.consume(1 << 30, arena: &arena, pool: &pool)
        #expect(output.pendingBytes == 1)
        output.reset(arena: &arena, pool: &pool)
        #expect(output.ownCapacity == 0)
    }

    @Test func `blocks go to the pool in sizes of powers of two, and the last one given back comes first`() {
        var pool = BufferPool()
        var wanted = 1
        while wanted <= BufferPool.pooledSizeMax * 4 {
            let (block, size) = pool.take(atLeast: wanted)
            #expect(size >= wanted)
            #expect(size >= Limits.bufferBytesMin)
            #expect(size & (size - 1) == 0)
            #expect(size == Limits.bufferBytesMin || size < wanted * 2)
            pool.giveBack(block, size: size)
            let again = pool.take(atLeast: wanted)
            #expect(again.size == size)
            #expect(size > BufferPool.pooledSizeMax || again.block == block)
            pool.giveBack(again.block, size: again.size)
            wanted = wanted * 3 / 2 + 1
        }
    }

    @Test func `the pool keeps no more blocks than its bound`() {
        var pool = BufferPool()
        var blocks: [UnsafeMutableRawPointer] = []
        let idleBlocksMax = Limits.idleBufferBytesMax / Limits.bufferBytesMin
        for _ in 0..<idleBlocksMax + 500 { blocks.append(pool.take(atLeast: 100).block) }
        for block in blocks { pool.giveBack(block, size: Limits.bufferBytesMin) }
        let kept = Set(blocks.prefix(idleBlocksMax))
        var taken: Set<UnsafeMutableRawPointer> = []
        for _ in 0..<idleBlocksMax { taken.insert(pool.take(atLeast: 100).block) }
        #expect(taken == kept)
        for block in taken { pool.giveBack(block, size: Limits.bufferBytesMin) }
    }

    @Test func `62 KB for a reader that does not read do not hold the chunks that they lie in`() {
        var model = OutputModel(outputs: 1)
        for _ in 0..<150 {
            // Much for others, and a little for the one that is stalled.
            for _ in 0..<3 { model.makeFrame(Limits.arenaChunkBytes / 3) }
            model.makeFrame(410)
            model.appendShared(3, to: 0)
            model.releaseFrames()
            model.settle(0)
        }
        #expect(model.outputs[0].pendingBytes == 61_500)
        #expect(model.outputs[0].heldBytes < 4 * 61_500)
        #expect(model.arenaBytes <= (Limits.idleChunksMax + 1) * Limits.arenaChunkBytes + 4 * 61_500)
        model.check(0)
        model.reset(0)
        model.checkPins()
        #expect(model.arenaBytes <= (Limits.idleChunksMax + 1) * Limits.arenaChunkBytes)
    }

    @Test func `stalled readers of the same stream keep one copy of it`() {
        var model = OutputModel(outputs: 20)
        for _ in 0..<30 {
            for index in 0..<10 {
                model.makeFrame(20_000)
                for output in 0..<20 { model.appendShared(index, to: output) }
            }
            model.releaseFrames()
            for output in 0..<20 { model.settle(output) }
        }
        #expect(model.outputs[0].pendingBytes == 6_000_000)
        #expect(model.arenaBytes < 2 * 6_000_000)
        for output in 0..<20 { model.check(output) }
        for output in 0..<20 { model.reset(output) }
        model.checkPins()
    }

    @Test func `the rest of what was large is all that a stalled reader holds`() {
        var model = OutputModel(outputs: 3)
        // A large frame, a run of frames, and bytes of its own: each sent but for the last ten bytes.
        model.makeFrame(250_000)
        model.appendShared(0, to: 0)
        for index in 1...20 {
            model.makeFrame(10_000)
            model.appendShared(index, to: 1)
        }
        for _ in 0..<100 { model.appendOwn(3000, to: 2) }
        model.releaseFrames()
        for output in 0..<3 {
            model.settle(output)
            while model.outputs[output].pendingBytes > 10 {
                model.consume(min(9000, model.outputs[output].pendingBytes - 10), of: output)
                model.settle(output)
            }
            #expect(model.outputs[output].heldBytes <= 4096)
            model.check(output)
            model.reset(output)
        }
        model.checkPins()
    }

    @Test func `a list of segments that is full when the last one joins it is settled where it has moved to`() {
        var model = OutputModel(outputs: 1)
        // Large frames, each in a chunk of its own: as many segments as the first list has places, and one more.
        let places = Limits.bufferBytesMin / MemoryLayout<OutputBuffer.Segment>.stride
        for index in 0...places {
            model.makeFrame(Limits.arenaChunkBytes / 2 + 1)
            model.appendShared(index, to: 0)
        }
        model.releaseFrames()
        // All but the last two, and a part of these, are sent.
        model.consume((places - 1) * (Limits.arenaChunkBytes / 2 + 1) + 1, of: 0)
        for _ in 0..<3 {
            model.settle(0)
            model.check(0)
            model.consume(1000, of: 0)
        }
        model.reset(0)
        model.checkPins()
    }

    @Test(arguments: [500, 5000]) func `small pieces between a stalled reader's own bytes are put together`(turns: Int) {
        var model = OutputModel(outputs: 1)
        for _ in 0..<turns {
            model.makeFrame(100)
            model.appendShared(0, to: 0)
            model.appendOwn(2, to: 0)
            model.makeFrame(2000)
            model.releaseFrames()
            model.settle(0)
        }
        #expect(model.outputs[0].heldBytes < 4 * 102 * turns + Limits.arenaChunkBytes)
        #expect(model.segmentCount(of: 0) < 20 + turns / 10)
        model.check(0)
        model.reset(0)
        model.checkPins()
    }

    private static func size(_ random: inout SeededGenerator) -> Int {
        switch random.below(30) {
        case 0: Limits.arenaChunkBytes / 2 + 1 + random.below(100)
        case 1: 20_000 + random.below(50_000)
        default: 2 + random.below(300)
        }
    }
}
