import Synchronization

/// How much mail waits for a loop. Others add to it, the loop takes from it; while it is above its bound they read nothing from their
/// clients, so that a publisher is slowed down when its subscribers' loop cannot follow, and memory stays bounded.
///
///     waiting ≤ bytesMax + what each of the other loops makes of one turn
struct MailBacklog: ~Copyable, Sendable {
    private let waiting = Atomic<Int>(0)
    private let bytesMax: Int

    init(bytesMax: Int = 8 << 20) { self.bytesMax = bytesMax }

    /// Mail is on its way. For any thread.
    borrowing func add(_ byteCount: Int) { waiting.wrappingAdd(byteCount, ordering: .relaxed) }

    /// Mail is worked off.
    borrowing func remove(_ byteCount: Int) { waiting.wrappingSubtract(byteCount, ordering: .relaxed) }

    /// Whether no more should come. For any thread.
    var isFull: Bool { borrowing get { waiting.load(ordering: .relaxed) > bytesMax } }
}
