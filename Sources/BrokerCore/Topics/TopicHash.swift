/// The hash of topics and levels: seeded, so that nobody outside can choose names that collide.
///
/// Eight bytes at a time through a full 128-bit multiplication, whose halves are folded. A weaker mix made the same last level under
/// ten thousand parents collide and a match cost five times as much.
struct TopicHash {
    let seed: UInt64

    @inline(__always)
    func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var state = seed ^ UInt64(truncatingIfNeeded: bytes.count)
        // No bytes hash alike, whether their memory has an address or none.
        guard let base = bytes.baseAddress else { return Self.mix(state, Self.multiplier &+ state) }
        var offset = 0
        while bytes.count &- offset >= 8 {
            state = Self.mix(state ^ (base + offset).loadUnaligned(as: UInt64.self), Self.multiplier)
            offset &+= 8
        }
        var rest: UInt64 = 0
        while offset < bytes.count {
            rest = rest << 8 | UInt64((base + offset).load(as: UInt8.self))
            offset &+= 1
        }
        return Self.mix(state ^ rest, Self.multiplier &+ state)
    }

    /// The hash of a pair of 32-bit keys.
    @inline(__always)
    func hash(_ first: UInt32, _ second: UInt32) -> UInt64 {
        Self.mix(seed ^ (UInt64(first) << 32 | UInt64(second)), Self.multiplier)
    }

    @inline(__always)
    static func mix(_ first: UInt64, _ second: UInt64) -> UInt64 {
        let product = first.multipliedFullWidth(by: second)
        return product.high ^ product.low
    }

    private static let multiplier: UInt64 = 0x9e37_79b9_7f4a_7c15
}
