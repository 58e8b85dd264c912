import Bytes
internal import Glibc

extension UnsafeBufferPointer<ByteSlice> {
    /// The slices' memory as the kernel reads it; nil when there is none. The checks are constants that the compiler
    /// folds.
    var inputOutputVectors: UnsafePointer<iovec>? {
        precondition(
            MemoryLayout<ByteSlice>.stride == MemoryLayout<iovec>.stride
                && MemoryLayout<ByteSlice>.alignment == MemoryLayout<iovec>.alignment
                && MemoryLayout<ByteSlice>.offset(of: \.base) == MemoryLayout<iovec>.offset(of: \.iov_base)
                && MemoryLayout<ByteSlice>.offset(of: \.count) == MemoryLayout<iovec>.offset(of: \.iov_len))
        guard let baseAddress else { return nil }
        return UnsafeRawPointer(baseAddress).assumingMemoryBound(to: iovec.self)
    }
}
