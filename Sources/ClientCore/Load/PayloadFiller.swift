/// Bytes that every payload of a size shares; templates send from it what they do not copy. Immutable.
public final class PayloadFiller: @unchecked Sendable {
    let base: UnsafeMutableRawPointer
    public let count: Int

    public init(count: Int) {
        self.count = count
        base = .allocate(byteCount: max(count, 1), alignment: 16)
        base.initializeMemory(as: UInt8.self, repeating: UInt8(ascii: "x"), count: count)
    }

    deinit { base.deallocate() }
}
