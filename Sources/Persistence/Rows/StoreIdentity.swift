/// What stays the same as long as a store lives.
///
///     seed 8 | created 8
struct StoreIdentity: Equatable, Sendable {
    /// Random: for the hashes that stand in rows, and to tell one store from another.
    let seed: UInt64
    /// Milliseconds since 1970.
    let createdAt: UInt64

    init(seed: UInt64, createdAt: UInt64) {
        self.seed = seed
        self.createdAt = createdAt
    }

    init?(decoding body: UnsafeRawBufferPointer) {
        guard body.count == 16 else { return nil }
        seed = UInt64(littleEndian: body.loadUnaligned(as: UInt64.self))
        createdAt = UInt64(littleEndian: body.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }

    func encoded() -> [UInt8] {
        [seed, createdAt].flatMap { value in withUnsafeBytes(of: value.littleEndian) { Array($0) } }
    }
}
