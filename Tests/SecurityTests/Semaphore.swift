import Glibc

/// A counter that threads wait for.
final class Semaphore: Sendable {
    nonisolated(unsafe) private let semaphore: UnsafeMutablePointer<sem_t>

    init() {
        semaphore = .allocate(capacity: 1)
        semaphore.initialize(to: sem_t())
        let result = sem_init(semaphore, 0, 0)
        precondition(result == 0, "sem_init: \(errno)")
    }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    /// Lets one thread go on, now or when it comes to wait.
    func signal() { sem_post(semaphore) }

    /// Returns once for each signal.
    func wait() {
        while sem_wait(semaphore) != 0 { precondition(errno == EINTR, "sem_wait: \(errno)") }
    }
}
