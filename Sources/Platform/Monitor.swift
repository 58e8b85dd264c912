internal import Glibc

/// Mutual exclusion with a place to wait in, for threads that have no loop: whoever is inside may wait until another who was inside signals.
///
/// Waiting ends early now and then, so it stands in a loop that asks for the condition itself.
public final class Monitor: Sendable {
    private let lock = Locked(())
    nonisolated(unsafe) private let condition: UnsafeMutablePointer<pthread_cond_t>

    public init() {
        condition = .allocate(capacity: 1)
        condition.initialize(to: pthread_cond_t())
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        let number = pthread_cond_init(condition, &attributes)
        precondition(number == 0, "pthread_cond_init: \(number)")
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        condition.deallocate()
    }

    /// Runs the body while no other thread is inside. Not reentrant.
    public func withLock<Answer: ~Copyable, Failure: Error>(
        _ body: () throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        try lock.withLock { _ throws(Failure) in try body() }
    }

    /// Leaves, waits for a signal and enters again. Inside only.
    public func wait() {
        lock.memory.withUnsafeMutablePointerToElements { _ = pthread_cond_wait(condition, $0) }
    }

    /// The same, for that long at most.
    public func wait(milliseconds: Int) {
        var end = timespec()
        clock_gettime(CLOCK_MONOTONIC, &end)
        let nanoseconds = end.tv_nsec + (milliseconds % 1000) * 1_000_000
        end.tv_sec += milliseconds / 1000 + nanoseconds / 1_000_000_000
        end.tv_nsec = nanoseconds % 1_000_000_000
        lock.memory.withUnsafeMutablePointerToElements { _ = pthread_cond_timedwait(condition, $0, &end) }
    }

    /// Wakes every thread that waits.
    public func signal() {
        pthread_cond_broadcast(condition)
    }
}
