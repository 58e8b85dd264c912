internal import Synchronization

/// The right to run a loop, which one of two threads has at a time. The thread in the owner slot may leave it for a
/// blocking task, and comes back. When the task takes long, the other thread has taken the slot meanwhile and goes on,
/// and the one that comes back is the stand-in from then on.
///
/// Leaving and coming back cost an exchange each and wake nobody: while blocking tasks are run, the stand-in looks
/// after the owner slot every millisecond. When there have been none for a while it sleeps.
final class OwnerSlot: Sendable {
    /// Even while somebody sits, odd while the owner slot is empty; each change adds one.
    private let changes = Atomic<UInt64>(0)
    private let isWatched = Atomic<Bool>(false)
    private let isClosed = Atomic<Bool>(false)
    private let monitor = Monitor()

    /// For the thread that begins; nobody else may be about.
    func open() {
        isClosed.store(false, ordering: .relaxed)
        changes.store(2, ordering: .releasing)
    }

    /// For the one in the owner slot. Returns what `comeBack` wants to know.
    func leave() -> UInt64 {
        let number = changes.add(1, ordering: .sequentiallyConsistent).newValue
        if !isWatched.load(ordering: .sequentiallyConsistent) { monitor.withLock { monitor.signal() } }
        return number
    }

    /// Whether the owner slot was still empty.
    func comeBack(_ number: UInt64) -> Bool {
        changes.compareExchange(expected: number, desired: number &+ 1, ordering: .acquiringAndReleasing).exchanged
    }

    /// Ends the stand-in's waiting for good. For the one in the owner slot.
    func close() {
        isClosed.store(true, ordering: .releasing)
        monitor.withLock { monitor.signal() }
    }

    /// Waits until the owner slot has been empty for a while and takes it; false when the loop has ended.
    func standIn() -> Bool {
        isWatched.store(true, ordering: .sequentiallyConsistent)
        defer { isWatched.store(false, ordering: .sequentiallyConsistent) }
        var seen = changes.load(ordering: .sequentiallyConsistent)
        var quietTicks = 0
        while !isClosed.load(ordering: .acquiring) {
            monitor.withLock { monitor.wait(milliseconds: Self.tickMilliseconds) }
            let found = changes.load(ordering: .sequentiallyConsistent)
            if found != seen {
                (seen, quietTicks) = (found, 0)
            } else if found % 2 == 1 {
                if comeBack(found) { return true }
            } else {
                quietTicks += 1
                if quietTicks == Self.quietTicksMax {
                    sleep(while: seen)
                    quietTicks = 0
                }
            }
        }
        return false
    }

    private func sleep(while seen: UInt64) {
        isWatched.store(false, ordering: .sequentiallyConsistent)
        monitor.withLock {
            while changes.load(ordering: .sequentiallyConsistent) == seen, !isClosed.load(ordering: .acquiring) { monitor.wait() }
        }
        isWatched.store(true, ordering: .sequentiallyConsistent)
    }

    private static let tickMilliseconds = 1
    private static let quietTicksMax = 50
}
