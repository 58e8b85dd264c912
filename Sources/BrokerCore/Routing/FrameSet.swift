/// The encodings of one message that receivers have in common, by kind 0 to 3; each is made when the first receiver needs it.
///
/// Each frame's chunk is pinned until `release`. Four properties: an inline array would be taken apart, element by element, with every
/// message that is routed.
struct FrameSet {
    private var isEmpty = true
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
            isEmpty = false
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
        guard !isEmpty else { return }
        if let first { arena.release(first.chunk) }
        if let second { arena.release(second.chunk) }
        if let third { arena.release(third.chunk) }
        if let fourth { arena.release(fourth.chunk) }
        self = FrameSet()
    }
}
