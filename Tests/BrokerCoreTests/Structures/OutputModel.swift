import Bytes
import TestBasics
import Testing

@testable import BrokerCore

/// An arena, a pool and some connections' outputs, beside arrays of the bytes that each has still to send.
struct OutputModel: ~Copyable {
    private var arena = Arena()
    private var pool = BufferPool()
    private(set) var outputs: [OutputBuffer]
    private(set) var expected: [[UInt8]]
    /// Frames of which the maker still holds a pin.
    private var frames: [(frame: SharedFrame, bytes: [UInt8])] = []
    private var patternOffset = 0
    /// The chunks that were ever used, to look at their pins in the end.
    private var chunks: [ObjectIdentifier: ArenaChunk] = [:]

    init(outputs count: Int) {
        outputs = Array(repeating: OutputBuffer(), count: count)
        expected = Array(repeating: [], count: count)
    }

    var frameCount: Int { frames.count }
    var chunkCount: Int { chunks.count }

    /// A frame in the arena, pinned by its maker.
    mutating func makeFrame(_ count: Int) {
        let bytes = fresh(count)
        let (chunk, offset) = arena.allocate(count)
        let held = chunk.object
        chunks[ObjectIdentifier(held)] = held
        bytes.withUnsafeBytes {
            held.base.advanced(by: offset).copyMemory(from: $0.baseAddress.unsafelyUnwrapped, byteCount: count)
        }
        frames.append((SharedFrame(chunk: chunk, offset: offset, length: count), bytes))
    }

    /// Appends the frame at `index` to an output.
    mutating func appendShared(_ index: Int, to output: Int) {
        let (frame, bytes) = frames[index]
        outputs[output].appendShared(frame.chunk, offset: frame.offset, length: frame.length, pool: &pool)
        expected[output] += bytes
    }

    mutating func appendOwn(_ count: Int, to output: Int) {
        let bytes = fresh(count)
        let target = outputs[output].appendOwn(count, pool: &pool)
        bytes.withUnsafeBytes { target.copyMemory(from: $0.baseAddress.unsafelyUnwrapped, byteCount: count) }
        expected[output] += bytes
    }

    /// The makers are done with their frames.
    mutating func releaseFrames() {
        for (frame, _) in frames { arena.release(frame.chunk) }
        frames = []
    }

    /// The end of a turn.
    mutating func rewind() { arena.rewind() }

    mutating func consume(_ count: Int, of output: Int) {
        outputs[output].consume(count, arena: &arena, pool: &pool)
        expected[output].removeFirst(count)
    }

    /// The transport has taken less than it was offered.
    mutating func settle(_ output: Int, sourceLocation: SourceLocation = #_sourceLocation) {
        outputs[output].settle(arena: &arena, pool: &pool)
        let (held, pending) = (outputs[output].heldBytes, outputs[output].pendingBytes)
        #expect(held <= 16 * pending + 4096, "\(pending) bytes hold \(held)", sourceLocation: sourceLocation)
    }

    /// The bytes of all chunks of the arena.
    var arenaBytes: Int { arena.byteCount }

    mutating func reset(_ output: Int) {
        outputs[output].reset(arena: &arena, pool: &pool)
        expected[output] = []
    }

    /// Checks what an output would send, gathered a few segments at a time.
    func check(_ output: Int, sourceLocation: SourceLocation = #_sourceLocation) {
        let all = gathered(output, segmentsMax: 4096)
        #expect(all == expected[output], sourceLocation: sourceLocation)
        #expect(outputs[output].pendingBytes == expected[output].count, sourceLocation: sourceLocation)
        #expect(outputs[output].isEmpty == expected[output].isEmpty, sourceLocation: sourceLocation)
        let few = gathered(output, segmentsMax: 3)
        #expect(few == Array(expected[output].prefix(few.count)), sourceLocation: sourceLocation)
        #expect(few.isEmpty == expected[output].isEmpty, sourceLocation: sourceLocation)
    }

    func segmentCount(of output: Int) -> Int {
        let slices = UnsafeMutableBufferPointer<ByteSlice>.allocate(capacity: 4096)
        defer { slices.deallocate() }
        return outputs[output].gather(into: slices)
    }

    /// Checks that nobody pins anything: the arena holds its current chunk, the others are free.
    func checkPins(sourceLocation: SourceLocation = #_sourceLocation) {
        let current = ObjectIdentifier(arena.placeholder)
        for (identifier, chunk) in chunks {
            #expect(chunk.pins == (identifier == current ? 1 : 0), sourceLocation: sourceLocation)
        }
    }

    private func gathered(_ output: Int, segmentsMax: Int) -> [UInt8] {
        let slices = UnsafeMutableBufferPointer<ByteSlice>.allocate(capacity: segmentsMax)
        defer { slices.deallocate() }
        let count = outputs[output].gather(into: slices)
        return slices[0..<count].reduce(into: []) { $0 += UnsafeRawBufferPointer(start: $1.base, count: $1.count) }
    }

    /// Bytes that were not sent just before: a piece of a pattern, each time from another place.
    private mutating func fresh(_ count: Int) -> [UInt8] {
        patternOffset = (patternOffset + 7919) % 65_521
        return Array(Self.pattern[patternOffset..<patternOffset + count])
    }

    private static let pattern: [UInt8] = {
        var random = SeededGenerator(seed: 60)
        return (0..<65_521 + Limits.arenaChunkBytes).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }()
}
