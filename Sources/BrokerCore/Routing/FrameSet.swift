/// The encodings of one message that receivers have in common, by kind 0 to 3; each is made when the first receiver needs it.
///
/// Each frame's chunk is pinned until `release`. Four properties: an inline array would be taken apart, element by element, with every
/// message that is routed.
struct FrameSet {
    private var first: SharedFrame?
    private var second: SharedFrame?
    private var third: SharedFrame?
    private var fourth: SharedFrame?

    subscript(kind: Int) -> SharedFrame? {
        @inline(__always) get {
            switch kind {
            case 0: first
            case 1: second
            case 2: third
            default: fourth
            }
        }
        set {
            switch kind {
            case 0: first = newValue
            case 1: second = newValue
            case 2: third = newValue
            default: fourth = newValue
            }
        }
    }

    @inline(__always)
    mutating func release(to arena: inout Arena) {
        for kind in 0..<4 {
            guard let frame = self[kind] else { continue }
            arena.release(frame.chunk)
            self[kind] = nil
        }
    }
}
