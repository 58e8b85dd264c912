/// A reference that is not counted: following it costs nothing, and whoever stores it knows that the object lives.
///
/// Counting is what a message for many receivers would pay most for. An object that is reached by such references is
/// kept by one owner: a table keeps sessions and connections, a pin keeps a chunk of memory, a hold keeps a message.
/// Where the owner is itself such a reference, it is made with ``init(retaining:)`` and given up with ``release()``,
/// once each.
struct Reference<Object: AnyObject>: Equatable, BitwiseCopyable {
    private let unmanaged: Unmanaged<Object>

    /// Somebody else keeps the object for as long as the reference is used.
    @inline(__always)
    init(_ object: Object) { unmanaged = .passUnretained(object) }

    /// The reference keeps the object until ``release()``.
    @inline(__always)
    init(retaining object: Object) { unmanaged = .passRetained(object) }

    /// The reference whose ``address`` has been stored.
    @inline(__always)
    init(at address: UnsafeRawPointer) { unmanaged = .fromOpaque(address) }

    /// What stands for the reference where only an address can.
    @inline(__always)
    var address: UnsafeMutableRawPointer { unmanaged.toOpaque() }

    /// Calls `body` with the object, without counting. The object must outlive the call, whatever `body` causes.
    @inline(__always)
    func with<Result>(_ body: (Object) -> Result) -> Result { unmanaged._withUnsafeGuaranteedRef(body) }

    /// The object, counted from here on: for what is rare.
    @inline(__always)
    var object: Object { unmanaged.takeUnretainedValue() }

    /// The object, counted from here on in place of the reference, which is given up.
    @inline(__always)
    func take() -> Object { unmanaged.takeRetainedValue() }

    /// Gives up what ``init(retaining:)`` keeps. The reference may be the last thing that keeps the object.
    @inline(__always)
    func release() { unmanaged.release() }

    @inline(__always)
    static func == (one: Self, other: Self) -> Bool { one.address == other.address }
}

/// A reused list of 32-bit indices: cleared, it keeps its memory.
struct IndexList: ~Copyable {
    private var base: UnsafeMutablePointer<UInt32>
    private var capacity: Int
    private(set) var count = 0

    init(capacity: Int = 64) {
        self.capacity = capacity
        base = .allocate(capacity: capacity)
    }

    deinit { base.deallocate() }

    subscript(position: Int) -> UInt32 {
        @inline(__always) get { base[position] }
    }

    @inline(__always)
    mutating func append(_ index: UInt32) {
        if count == capacity { grow() }
        (base + count).initialize(to: index)
        count &+= 1
    }

    mutating func removeAll() { count = 0 }

    mutating func popLast() -> UInt32? {
        guard count > 0 else { return nil }
        count &-= 1
        return base[count]
    }

    private mutating func grow() {
        let larger = UnsafeMutablePointer<UInt32>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: base, count: count)
        base.deallocate()
        base = larger
        capacity *= 2
    }
}
