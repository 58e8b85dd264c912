/// The kernel's random numbers, for what nobody may guess. Fetched in blocks: one system call for `blockCount` numbers.
///
/// A number that was given out is not kept. A copy must not be used beside the original, for both would give the same numbers: it has one
/// owner.
public struct KernelRandomNumbers: RandomNumberGenerator, Sendable {
    /// What `getrandom` gives at once without fail: 256 bytes.
    static let blockCount = 32

    private var block: [UInt64] = []

    public init() {}

    public mutating func next() -> UInt64 {
        if block.isEmpty {
            block = Array(repeating: 0, count: Self.blockCount)
            block.withUnsafeMutableBytes { RandomBytes.fill($0) }
        }
        return block.removeLast()
    }
}
