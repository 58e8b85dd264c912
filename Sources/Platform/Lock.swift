internal import Glibc

/// Mutual exclusion, for `Locked` and `Monitor`.
///
/// A pthread mutex with an address of its own, and not `Synchronization.Mutex`: the thread sanitizer does not see that one and
/// reports races in correct code.
@usableFromInline
final class Lock: Sendable {
    nonisolated(unsafe) let mutex: UnsafeMutablePointer<pthread_mutex_t>

    @usableFromInline
    init() {
        mutex = .allocate(capacity: 1)
        mutex.initialize(to: pthread_mutex_t())
        let number = pthread_mutex_init(mutex, nil)
        precondition(number == 0, "pthread_mutex_init: \(number)")
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    @usableFromInline
    func lock() { pthread_mutex_lock(mutex) }

    @usableFromInline
    func unlock() { pthread_mutex_unlock(mutex) }
}
