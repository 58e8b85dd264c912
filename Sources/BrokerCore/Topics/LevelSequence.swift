/// The levels of a topic name or filter, one after the other, in place.
///
/// `a//b` has three levels, the second of them empty; `/` has two empty ones.
struct LevelSequence {
    private let bytes: UnsafeRawBufferPointer
    private var offset = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// The next level, or nil after the last one.
    @inline(__always)
    mutating func next() -> UnsafeRawBufferPointer? {
        guard offset <= bytes.count, let base = bytes.baseAddress else { return nil }
        var end = offset
        while end < bytes.count, (base + end).load(as: UInt8.self) != UInt8(ascii: "/") { end &+= 1 }
        let level = UnsafeRawBufferPointer(start: base + offset, count: end &- offset)
        offset = end &+ 1
        return level
    }

    static func isSingleLevelWildcard(_ level: UnsafeRawBufferPointer) -> Bool {
        level.count == 1 && level[0] == UInt8(ascii: "+")
    }

    static func isMultiLevelWildcard(_ level: UnsafeRawBufferPointer) -> Bool {
        level.count == 1 && level[0] == UInt8(ascii: "#")
    }
}
