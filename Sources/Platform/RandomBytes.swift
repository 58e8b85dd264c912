/// The kernel's random bytes, for seeds and identifiers. The pure targets get theirs from here, as arguments.
public enum RandomBytes {
    /// Fills the buffer.
    public static func fill(_ buffer: UnsafeMutableRawBufferPointer) {
        SystemCall.fillRandom(buffer)
    }

    /// 64 random bits.
    public static func seed() -> UInt64 {
        var seed: UInt64 = 0
        withUnsafeMutableBytes(of: &seed) { fill($0) }
        return seed
    }
}
