internal import Bytes

/// Bytes on their way between two layers: plain memory that grows, reused for every connection of a loop.
///
/// `count <= capacity`; the memory belongs to the block. Used on one thread at a time.
final class ByteBlock {
    private(set) var count = 0
    private var capacity: Int
    private var base: UnsafeMutableRawPointer

    init(capacity: Int) {
        self.capacity = capacity
        base = .allocate(byteCount: capacity, alignment: 64)
    }

    deinit {
        base.deallocate()
    }

    var isEmpty: Bool { count == 0 }

    /// The bytes that are in the block. Valid until it changes.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

    /// The bytes that are in the block, as one slice. Valid until it changes.
    var slice: ByteSlice { ByteSlice(base: UnsafeRawPointer(base), count: count) }

    /// The whole memory, for a read that replaces what is in it.
    var room: UnsafeMutableRawBufferPointer { UnsafeMutableRawBufferPointer(start: base, count: capacity) }

    func removeAll() {
        count = 0
    }

    func append(_ source: UnsafeRawPointer, count added: Int) {
        guard added > 0 else { return }
        extend(by: added).copyMemory(from: source, byteCount: added)
    }

    func append(_ bytes: some Collection<UInt8>) {
        let start = extend(by: bytes.count)
        UnsafeMutableRawBufferPointer(start: start, count: bytes.count).copyBytes(from: bytes)
    }

    /// Adds that many bytes, which the caller fills in at once.
    func extend(by added: Int) -> UnsafeMutableRawPointer {
        if capacity &- count < added { grow(to: count &+ added) }
        count &+= added
        return base + (count &- added)
    }

    private func grow(to needed: Int) {
        let larger = max(needed, capacity * 2)
        let grown = UnsafeMutableRawPointer.allocate(byteCount: larger, alignment: 64)
        grown.copyMemory(from: base, byteCount: count)
        base.deallocate()
        base = grown
        capacity = larger
    }
}
