import Synchronization

/// Numbers that different threads write to, each alone on a cache line: who writes to one does not slow down who reads another.
///
/// All operations are sequentially consistent.
struct SpreadAtomics: ~Copyable, Sendable {
    nonisolated(unsafe) private let memory: UnsafeMutableRawPointer
    private let count: Int

    /// As many numbers, all of them 0.
    init(count: Int) {
        self.count = count
        memory = .allocate(byteCount: count * Self.lineBytes, alignment: Self.lineBytes)
        for index in 0..<count { place(index).initialize(to: Atomic(0)) }
    }

    deinit {
        for index in 0..<count { place(index).deinitialize(count: 1) }
        memory.deallocate()
    }

    func load(_ index: Int) -> UInt64 { place(index).pointee.load(ordering: .sequentiallyConsistent) }

    /// Puts a value in place of the one that was there, which is returned.
    func exchange(_ index: Int, _ value: UInt64) -> UInt64 {
        place(index).pointee.exchange(value, ordering: .sequentiallyConsistent)
    }

    /// Returns the sum.
    func add(_ index: Int, _ summand: UInt64) -> UInt64 {
        place(index).pointee.wrappingAdd(summand, ordering: .sequentiallyConsistent).newValue
    }

    /// Returns the difference.
    func subtract(_ index: Int, _ subtrahend: UInt64) -> UInt64 {
        place(index).pointee.wrappingSubtract(subtrahend, ordering: .sequentiallyConsistent).newValue
    }

    func setBits(_ index: Int, _ bits: UInt64) { place(index).pointee.bitwiseOr(bits, ordering: .sequentiallyConsistent) }

    func clearBits(_ index: Int, _ bits: UInt64) { place(index).pointee.bitwiseAnd(~bits, ordering: .sequentiallyConsistent) }

    private func place(_ index: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
        assert((0..<count).contains(index))
        return (memory + index * Self.lineBytes).assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    /// Two lines of 64 bytes: processors fetch them in pairs.
    private static let lineBytes = 128
}
