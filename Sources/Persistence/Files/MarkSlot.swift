internal import CXXHash

/// What a store's mark says: which store it belongs to, and up to which commit this one has synced.
///
///     magic 8 | seed 8 | commit number 8 | zero 32 | checksum of all that 8
struct MarkSlot: Equatable, Sendable {
    let seed: UInt64
    let commitNumber: UInt64

    static let size = 64
    private static let magic: UInt64 = 0x6b72_614d_746c_724d

    init(seed: UInt64, commitNumber: UInt64) {
        self.seed = seed
        self.commitNumber = commitNumber
    }

    /// Nil if the bytes are not a slot, or not all of one.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == Self.size, let start = bytes.baseAddress else { return nil }
        func read(_ offset: Int) -> UInt64 { UInt64(littleEndian: start.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
        guard read(0) == Self.magic, read(Self.size - 8) == xxhash_checksum(start, Self.size - 8, Self.magic) else { return nil }
        seed = read(8)
        commitNumber = read(16)
    }

    /// `target` has room for `size` bytes.
    func write(to target: UnsafeMutableRawPointer) {
        target.initializeMemory(as: UInt8.self, repeating: 0, count: Self.size)
        for (index, value) in [Self.magic, seed, commitNumber].enumerated() {
            target.storeBytes(of: value.littleEndian, toByteOffset: 8 * index, as: UInt64.self)
        }
        let checksum = xxhash_checksum(target, Self.size - 8, Self.magic)
        target.storeBytes(of: checksum.littleEndian, toByteOffset: Self.size - 8, as: UInt64.self)
    }
}
