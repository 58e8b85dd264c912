internal import Histogram
internal import Platform
internal import Synchronization

/// Brings the latencies that a worker has recorded to the coordinator while both go on: once an interval, and not once a message.
///
///     coordinator: ask ─► (worker's turn ends: handOver) ─► take
///
/// The worker exchanges its histogram for an empty one, which costs it a lock and two words; adding up and clearing is the coordinator's.
/// Nothing is lost if the coordinator does not wait: what it does not take stays for the next time.
final class LatencyExchange: Sendable {
    private let isAsked = Atomic<Bool>(false)
    /// Empty, or what the worker has handed over.
    private let slot = Locked(LatencyRecorder.emptyHistogram())

    /// The coordinator wants what there is. The worker is to be woken after it.
    func ask() { isAsked.store(true, ordering: .releasing) }

    /// The worker gives what it has, if it was asked. Called once a turn: one load where it was not.
    @inline(__always)
    func handOverIfAsked(_ recorder: LatencyRecorder) {
        if isAsked.load(ordering: .relaxed) { handOver(recorder) }
    }

    @inline(never)
    private func handOver(_ recorder: LatencyRecorder) {
        slot.withLock { recorder.exchange(&$0) }
        isAsked.store(false, ordering: .releasing)
    }

    /// Adds to `histogram` what the worker has handed over; false, and nothing is added, if it has not yet.
    func take(into histogram: inout Histogram<UInt64>) -> Bool {
        guard !isAsked.load(ordering: .acquiring) else { return false }
        takeAll(into: &histogram)
        return true
    }

    /// Adds whatever lies there. When the worker's thread has ended.
    func takeAll(into histogram: inout Histogram<UInt64>) {
        slot.withLock { slot in
            guard slot.totalCount > 0 else { return }
            histogram.add(slot)
            slot.reset()
        }
    }
}
