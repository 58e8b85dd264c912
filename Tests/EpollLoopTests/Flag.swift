import Platform
import Synchronization

/// Something that happened, told from one thread to another.
final class Flag: Sendable {
    private let raised = Atomic<Bool>(false)
    private let monitor = Monitor()

    func raise() {
        raised.store(true, ordering: .releasing)
        monitor.withLock { monitor.signal() }
    }

    var isRaised: Bool { raised.load(ordering: .acquiring) }

    /// Returns when it is raised.
    func wait() {
        monitor.withLock {
            while !isRaised { monitor.wait() }
        }
    }
}
