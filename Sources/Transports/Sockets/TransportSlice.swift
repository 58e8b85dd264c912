internal import Glibc

/// A run of bytes to be sent. It borrows: whoever makes it keeps the bytes where they are until the write returns.
///
/// Laid out as `struct iovec` (base, then count), so that an array of slices goes to the kernel as it is.
public struct TransportSlice {
    public var base: UnsafeRawPointer
    public var count: Int

    public init(base: UnsafeRawPointer, count: Int) {
        self.base = base
        self.count = count
    }
}

extension UnsafeBufferPointer<TransportSlice> {
    /// The same memory, as the kernel reads it; nil when there is none. The checks are constants that the compiler folds.
    var inputOutputVectors: UnsafePointer<iovec>? {
        precondition(
            MemoryLayout<TransportSlice>.stride == MemoryLayout<iovec>.stride
                && MemoryLayout<TransportSlice>.alignment == MemoryLayout<iovec>.alignment
                && MemoryLayout<TransportSlice>.offset(of: \.base) == MemoryLayout<iovec>.offset(of: \.iov_base)
                && MemoryLayout<TransportSlice>.offset(of: \.count) == MemoryLayout<iovec>.offset(of: \.iov_len))
        guard let baseAddress else { return nil }
        return UnsafeRawPointer(baseAddress).assumingMemoryBound(to: iovec.self)
    }
}
