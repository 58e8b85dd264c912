/// Bytes in an arena chunk. 20 bytes, since every message being routed has room for four of them.
struct SharedFrame {
    let chunk: Unmanaged<ArenaChunk>
    private let start: UInt32
    private let count: UInt32
    private let identifierStart: UInt32

    /// - Parameter identifierOffset: where a packet identifier goes in each copy; 0 where there is none.
    @inline(__always)
    init(chunk: Unmanaged<ArenaChunk>, offset: Int, length: Int, identifierOffset: Int = 0) {
        self.chunk = chunk
        start = UInt32(truncatingIfNeeded: offset)
        count = UInt32(truncatingIfNeeded: length)
        identifierStart = UInt32(truncatingIfNeeded: identifierOffset)
    }

    var offset: Int { Int(start) }
    var length: Int { Int(count) }
    var identifierOffset: Int { Int(identifierStart) }
}
