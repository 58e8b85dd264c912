/// Bytes in an arena chunk. 20 bytes, since every message being routed has room for four of them.
struct SharedFrame {
    let chunk: Reference<ArenaChunk>
    private let start: UInt32
    private let count: UInt32
    private let identifierStart: UInt32

    /// - Parameter identifierOffset: where a packet identifier goes in each copy; 0 where there is none.
    @inline(__always)
    init(chunk: Reference<ArenaChunk>, offset: Int, length: Int, identifierOffset: Int = 0) {
        self.chunk = chunk
        start = UInt32(truncatingIfNeeded: offset)
        count = UInt32(truncatingIfNeeded: length)
        identifierStart = UInt32(truncatingIfNeeded: identifierOffset)
    }

    var offset: Int { Int(start) }
    var length: Int { Int(count) }
    var identifierOffset: Int { Int(identifierStart) }
}

extension OutputBuffer {
    /// Adds a copy of a frame.
    @inline(__always)
    mutating func appendCopy(of frame: SharedFrame, pool: inout BufferPool) {
        copy(frame, to: appendOwn(frame.length, pool: &pool))
    }

    /// Adds a copy of a frame with this packet identifier in it.
    @inline(__always)
    mutating func appendCopy(of frame: SharedFrame, packetIdentifier: UInt16, pool: inout BufferPool) {
        assert(frame.identifierOffset > 0 && frame.identifierOffset + 2 <= frame.length, "the frame has room for one")
        let target = appendOwn(frame.length, pool: &pool)
        copy(frame, to: target)
        target.storeBytes(of: packetIdentifier.bigEndian, toByteOffset: frame.identifierOffset, as: UInt16.self)
    }

    /// Adds a frame itself, whose chunk it pins.
    @inline(__always)
    mutating func append(_ frame: SharedFrame, pool: inout BufferPool) {
        appendShared(frame.chunk, offset: frame.offset, length: frame.length, pool: &pool)
    }

    @inline(__always)
    private func copy(_ frame: SharedFrame, to target: UnsafeMutableRawPointer) {
        let source = frame.chunk.with { $0.base } + frame.offset
        target.copyMemory(from: source, byteCount: frame.length)
    }
}
