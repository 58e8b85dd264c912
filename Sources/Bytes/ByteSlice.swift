/// A run of bytes to be sent. It borrows: whoever makes it keeps the bytes where they are until they are sent.
///
/// Laid out as the kernel's `struct iovec` (address, then count), so that an array of slices goes to the kernel as it
/// is.
@frozen
public struct ByteSlice {
    public var base: UnsafeRawPointer
    /// In bytes.
    public var count: Int

    @inlinable
    public init(base: UnsafeRawPointer, count: Int) {
        self.base = base
        self.count = count
    }
}
