import Synchronization

/// Does something once every loop has done its part.
package final class Countdown: Sendable {
    private let missing: Atomic<Int>
    private let finish: @Sendable () -> Void

    package init(loops: Int, finish: @escaping @Sendable () -> Void) {
        missing = Atomic(loops)
        self.finish = finish
    }

    /// One more loop has. For any thread, on the last of which the rest is done.
    package func count() {
        if missing.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 { finish() }
    }
}
