/// The encodings of one message that receivers have in common, by kind 0 to 3; each is made when the first receiver needs it.
///
/// Each frame's chunk is pinned until `release`.
struct FrameSet {
    private var frames = InlineArray<4, SharedFrame?>(repeating: nil)
    private var isEmpty = true

    subscript(kind: Int) -> SharedFrame? {
        @inline(__always) get { frames[kind] }
        set {
            frames[kind] = newValue
            isEmpty = false
        }
    }

    @inline(__always)
    mutating func release(to arena: inout Arena) {
        if isEmpty { return }
        for kind in 0..<4 {
            guard let frame = frames[kind] else { continue }
            arena.release(frame.chunk)
            frames[kind] = nil
        }
        isEmpty = true
    }
}
