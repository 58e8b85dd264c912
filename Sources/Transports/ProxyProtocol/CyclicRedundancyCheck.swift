/// The checksum that the PROXY protocol names CRC32c, bit by bit: a header has few bytes, and a connection one header.
enum CyclicRedundancyCheck {
    /// Castagnoli's polynomial, reflected, as RFC 3720 has it.
    static func castagnoli(_ bytes: some Sequence<UInt8>) -> UInt32 {
        var remainder: UInt32 = .max
        for byte in bytes {
            remainder ^= UInt32(byte)
            for _ in 0..<8 { remainder = remainder & 1 == 0 ? remainder >> 1 : remainder >> 1 ^ 0x82F6_3B78 }
        }
        return ~remainder
    }
}
