import Synchronization

/// How much mail waits for a loop, in all and by the loop that sent it. The senders add to it, the loop takes from it.
///
/// A sender that has more than `bytesAheadMax` on its way here is ahead: it lets clients wait that bring much mail, for a moment. What they
/// send meanwhile comes with one read, and goes to each receiver with one write. While more than `bytesMax` wait in all, the other loops
/// read nothing from any client, so that memory stays bounded:
///
///     waiting ≤ bytesMax + what each of the other loops makes of one turn
struct MailBacklog: ~Copyable, Sendable {
    /// One sender's part.
    private struct Part: ~Copyable {
        let waiting = Atomic<Int>(0)
        /// Whether the sender wants to hear when it is no longer ahead.
        let isAwaited = Atomic<Bool>(false)
    }

    private let waiting = Atomic<Int>(0)
    nonisolated(unsafe) private let parts: UnsafeMutableBufferPointer<Part>
    private let bytesMax: Int
    private let bytesAheadMax: Int

    init(senders: Int, bytesMax: Int = Limits.mailBytesMax, bytesAheadMax: Int = Limits.mailBytesAheadMax) {
        parts = .allocate(capacity: senders)
        for index in parts.indices { parts.initializeElement(at: index, to: Part()) }
        self.bytesMax = bytesMax
        self.bytesAheadMax = bytesAheadMax
    }

    deinit {
        parts.deinitialize().deallocate()
    }

    /// Mail is on its way. For the sender.
    borrowing func add(_ byteCount: Int, from sender: Int) {
        waiting.wrappingAdd(byteCount, ordering: .relaxed)
        parts[sender].waiting.wrappingAdd(byteCount, ordering: .relaxed)
    }

    /// Mail is worked off. Returns whether the sender is to be woken: it has asked, and is no longer ahead.
    borrowing func remove(_ byteCount: Int, from sender: Int) -> Bool {
        waiting.wrappingSubtract(byteCount, ordering: .relaxed)
        let left = parts[sender].waiting.wrappingSubtract(byteCount, ordering: .sequentiallyConsistent).newValue
        guard left <= bytesAheadMax else { return false }
        return parts[sender].isAwaited.exchange(false, ordering: .sequentiallyConsistent)
    }

    /// Whether no more should come. For any thread.
    var isFull: Bool { borrowing get { waiting.load(ordering: .relaxed) > bytesMax } }

    /// Whether the sender should wait with what is not urgent. For the sender.
    borrowing func isAhead(_ sender: Int) -> Bool {
        parts[sender].waiting.load(ordering: .relaxed) > bytesAheadMax
    }

    /// Asks that `remove` tells when the sender is no longer ahead. False when that is so already. For the sender.
    borrowing func askToHear(_ sender: Int) -> Bool {
        guard isAhead(sender) else { return false }
        // Looked at again once the loop can see the question: what it has removed in between it does not tell.
        parts[sender].isAwaited.store(true, ordering: .sequentiallyConsistent)
        return parts[sender].waiting.load(ordering: .sequentiallyConsistent) > bytesAheadMax
    }
}
