/// Byte-wise comparison of memory, eight bytes at a time.
enum MemoryComparison {
    @inline(__always)
    static func equal(_ left: UnsafeRawPointer, _ right: UnsafeRawPointer, count: Int) -> Bool {
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

    @inline(__always)
    static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count else { return false }
        guard let first = left.baseAddress, let second = right.baseAddress else { return true }
        return equal(first, second, count: left.count)
    }
}
