/// Byte-wise comparison of memory, eight bytes at a time.
public enum MemoryComparison {
    /// Whether so many bytes are the same.
    @inlinable @inline(__always)
    public static func equal(_ left: UnsafeRawPointer, _ right: UnsafeRawPointer, count: Int) -> Bool {
        var offset = 0
        while count &- offset >= 8 {
            if (left + offset).loadUnaligned(as: UInt64.self) != (right + offset).loadUnaligned(as: UInt64.self) { return false }
            offset &+= 8
        }
        // The last load reaches back over bytes that are known to be equal.
        if count >= 8 {
            return (left + (count &- 8)).loadUnaligned(as: UInt64.self) == (right + (count &- 8)).loadUnaligned(as: UInt64.self)
        }
        while offset < count {
            if (left + offset).load(as: UInt8.self) != (right + offset).load(as: UInt8.self) { return false }
            offset &+= 1
        }
        return true
    }

    /// Whether both have the same bytes.
    @inlinable @inline(__always)
    public static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count else { return false }
        guard let first = left.baseAddress, let second = right.baseAddress else { return true }
        return equal(first, second, count: left.count)
    }

    /// Whether `left` stands before `right` in the order of their bytes, a beginning before what begins with it.
    package static func precedes(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        let count = min(left.count, right.count)
        var offset = 0
        func word(_ bytes: UnsafeRawBufferPointer) -> UInt64 { bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
        while count &- offset >= 8, word(left) == word(right) { offset &+= 8 }
        while offset < count, left[offset] == right[offset] { offset &+= 1 }
        return offset < count ? left[offset] < right[offset] : left.count < right.count
    }
}
