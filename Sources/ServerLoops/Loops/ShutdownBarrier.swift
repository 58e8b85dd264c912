import Synchronization

/// How the loops of a stopping broker end together: none returns before each has parted from its connections.
///
/// A loop that returned sooner would leave in its mailbox what another one has just sent it: a connection, whose client would hear nothing,
/// or the message of a will, which would be lost.
package final class ShutdownBarrier: Sendable {
    private let missing: Atomic<Int>

    package init(loops: Int) { missing = Atomic(loops) }

    /// One more loop has no connection left and nothing for the store. Once from each; for any thread.
    ///
    /// - Returns: whether it was the last one; the others have to be woken then.
    package func part() -> Bool { missing.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 }

    /// Whether all have parted. What a loop has sent before it parted has been sent when this is true.
    package var isComplete: Bool { missing.load(ordering: .acquiring) == 0 }
}
