internal import Glibc

/// A value that threads read and one replaces now and then. A mutex of the system's, because the thread sanitizer sees no other.
final class Exchangeable<Value: Sendable>: @unchecked Sendable {
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private var stored: Value

    init(_ value: Value) {
        stored = value
        lock = .allocate(capacity: 1)
        lock.initialize(to: pthread_mutex_t())
        pthread_mutex_init(lock, nil)
    }

    deinit {
        pthread_mutex_destroy(lock)
        lock.deallocate()
    }

    var value: Value {
        get {
            pthread_mutex_lock(lock)
            defer { pthread_mutex_unlock(lock) }
            return stored
        }
        set {
            pthread_mutex_lock(lock)
            let old = stored
            stored = newValue
            pthread_mutex_unlock(lock)
            // The last reference may be this one, and its end may take a while.
            withExtendedLifetime(old) {}
        }
    }
}
