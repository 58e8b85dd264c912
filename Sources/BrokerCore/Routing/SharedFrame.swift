/// Bytes in an arena chunk.
struct SharedFrame {
    let chunk: Unmanaged<ArenaChunk>
    let offset: Int
    let length: Int
    /// Where a packet identifier goes in each copy; 0 where there is none.
    var identifierOffset = 0
}
