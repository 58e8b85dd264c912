/// A stack of addresses: last in, first out. Empty, it keeps its memory.
///
/// An array would look, with each one put and taken, whether somebody else has it.
struct AddressStack: ~Copyable {
    private var base: UnsafeMutablePointer<UnsafeMutableRawPointer>?
    private var capacity = 0
    private(set) var count = 0

    deinit { base?.deallocate() }

    @inline(__always)
    mutating func push(_ address: UnsafeMutableRawPointer) {
        if count == capacity { grow() }
        (base.unsafelyUnwrapped + count).initialize(to: address)
        count &+= 1
    }

    @inline(__always)
    mutating func pop() -> UnsafeMutableRawPointer? {
        guard count > 0 else { return nil }
        count &-= 1
        return base.unsafelyUnwrapped[count]
    }

    private mutating func grow() {
        capacity = max(16, capacity * 2)
        let larger = UnsafeMutablePointer<UnsafeMutableRawPointer>.allocate(capacity: capacity)
        if let base {
            larger.moveInitialize(from: base, count: count)
            base.deallocate()
        }
        base = larger
    }
}
