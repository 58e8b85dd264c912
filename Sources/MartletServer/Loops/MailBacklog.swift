import Synchronization

/// How much mail waits for a loop, in all and by the loop that sent it. The senders add to it, the loop takes from it.
///
/// A sender with more than `bytesAheadMax` on its way here reads nothing from clients that bring much: what they send meanwhile comes
/// with one read later, and goes to each receiver with one write. While more than `bytesMax` wait in all, the other loops read nothing
/// from any client, so that memory stays bounded:
///
///     waiting ≤ bytesMax + what each of the other loops makes of one turn
struct MailBacklog: ~Copyable, Sendable {
    private struct Share: ~Copyable {
        let waiting = Atomic<Int>(0)
        /// Whether the sender wants to hear when it is no longer ahead.
        let isAwaited = Atomic<Bool>(false)
    }

    private let waiting = Atomic<Int>(0)
    nonisolated(unsafe) private let shares: UnsafeMutableBufferPointer<Share>
    private let bytesMax: Int
    private let bytesAheadMax: Int

    init(senders: Int, bytesMax: Int = 8 << 20, bytesAheadMax: Int = 4 << 10) {
        shares = .allocate(capacity: senders)
        for index in shares.indices { shares.initializeElement(at: index, to: Share()) }
        self.bytesMax = bytesMax
        self.bytesAheadMax = bytesAheadMax
    }

    deinit {
        shares.deinitialize().deallocate()
    }

    /// Mail is on its way. For the sender.
    borrowing func add(_ byteCount: Int, from sender: Int) {
        waiting.wrappingAdd(byteCount, ordering: .relaxed)
        shares[sender].waiting.wrappingAdd(byteCount, ordering: .relaxed)
    }

    /// Mail is worked off. Returns whether the sender is to be woken: it has asked, and is no longer ahead.
    borrowing func remove(_ byteCount: Int, from sender: Int) -> Bool {
        waiting.wrappingSubtract(byteCount, ordering: .relaxed)
        let left = shares[sender].waiting.wrappingSubtract(byteCount, ordering: .sequentiallyConsistent).newValue
        guard left <= bytesAheadMax else { return false }
        return shares[sender].isAwaited.exchange(false, ordering: .sequentiallyConsistent)
    }

    /// Whether no more should come. For any thread.
    var isFull: Bool { borrowing get { waiting.load(ordering: .relaxed) > bytesMax } }

    /// Whether the sender should wait with what is not urgent; a `remove` will tell when no longer. For the sender.
    borrowing func isAhead(_ sender: Int) -> Bool {
        guard shares[sender].waiting.load(ordering: .relaxed) > bytesAheadMax else { return false }
        // Asked again once the loop can see that somebody waits: what it removes in between it does not tell.
        shares[sender].isAwaited.store(true, ordering: .sequentiallyConsistent)
        return shares[sender].waiting.load(ordering: .sequentiallyConsistent) > bytesAheadMax
    }
}
