/// A reference that is not counted: following it costs nothing, and whoever stores it knows that the object lives.
///
/// Counting is what a message for many receivers would pay most for. An object that is reached by such references is kept by one owner: a table
/// keeps sessions and connections, a pin keeps a chunk of memory, a hold keeps a message. Where the owner is itself such a reference,
/// it is made with ``init(retaining:)`` and given up with ``release()``, once each.
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
