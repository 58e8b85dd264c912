internal import Glibc

/// Mutual exclusion, for what is shared beside the way of a message.
///
/// A pthread mutex with an address of its own, and not `Synchronization.Mutex`: the thread sanitizer does not see that one and
/// reports races in correct code.
public final class Lock: Sendable {
    /// For a `Monitor`, which waits under it.
    nonisolated(unsafe) let mutex: UnsafeMutablePointer<pthread_mutex_t>

    public init() {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        let number = pthread_mutex_init(mutex, nil)
        precondition(number == 0, "pthread_mutex_init: \(number)")
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Runs the body while no other thread does so under this lock. Not reentrant.
    public func withLock<Answer: ~Copyable, Failure: Error>(
        _ body: () throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }
}
