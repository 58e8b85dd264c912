internal import CLinux

/// The process's memory.
public enum ProcessMemory {
    /// The bytes that the allocator has given away and not got back.
    public static func heapBytes() -> Int { Int(linux_heap_bytes()) }
}
