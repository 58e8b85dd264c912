/// The front part of a packet whose rest has not arrived.
///
/// Grows with the bytes that arrive, never with the length that a packet promises: 4 GiB announced cost nothing. Holds no memory
/// while no packet is cut.
struct InboundBuffer {
    private var used: UInt32 = 0
    private var room: UInt32 = 0
    private var block: UnsafeMutableRawPointer?

    /// No packet, and no buffer for one, is larger than 32 bits can say.
    private(set) var count: Int {
        get { Int(used) }
        set { used = UInt32(newValue) }
    }
    /// The bytes of memory that it takes.
    private(set) var capacity: Int {
        get { Int(room) }
        set { room = UInt32(newValue) }
    }

    var isEmpty: Bool { count == 0 }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: block, count: count) }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        if capacity &- count < bytes.count {
            var grown = max(capacity &* 2, 64)
            while grown < count &+ bytes.count { grown &*= 2 }
            let larger = UnsafeMutableRawPointer.allocate(byteCount: grown, alignment: 16)
            if let block {
                larger.copyMemory(from: block, byteCount: count)
                block.deallocate()
            }
            block = larger
            capacity = grown
        }
        (block.unsafelyUnwrapped + count).copyMemory(from: source, byteCount: bytes.count)
        count &+= bytes.count
    }

    /// Forgets the bytes and gives the memory back.
    mutating func reset() {
        block?.deallocate()
        (block, count, capacity) = (nil, 0, 0)
    }
}
