/// A run of bytes to be sent. Laid out as the kernel's `iovec` (address, then count), so that a shell may pass an array of them on.
public struct LoadSlice {
    public let base: UnsafeRawPointer
    public let count: Int
}
