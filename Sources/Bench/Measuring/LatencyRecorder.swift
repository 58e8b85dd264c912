import Histogram

/// Records how long messages took, in nanoseconds. Belongs to one thread until that has ended.
///
/// What is read with one call arrived with it, so the clock is read once for each read. The messages of one burst are recorded together.
final class LatencyRecorder: DeliveryObserver {
    /// When the bytes that are being looked at were read.
    var now: UInt64 = 0
    var isRecording = false
    private(set) var histogram = LatencyRecorder.emptyHistogram()

    /// Messages are recorded only where they are what is timed.
    var recordsMessages = true

    func delivered(_ count: Int, stampedAt nanoseconds: UInt64) {
        if recordsMessages { record(count, since: nanoseconds) }
    }

    /// Records what began then and is over `now`.
    func record(_ count: Int = 1, since nanoseconds: UInt64) {
        guard isRecording else { return }
        let latency = now > nanoseconds ? now &- nanoseconds : 1
        histogram.record(min(latency, Self.nanosecondsMax), count: UInt64(truncatingIfNeeded: count))
    }

    /// Gives what was recorded for another histogram, in which recording goes on.
    func exchange(_ other: inout Histogram<UInt64>) { swap(&histogram, &other) }

    /// Microseconds to a minute, to three digits.
    static func emptyHistogram() -> Histogram<UInt64> {
        Histogram(lowestDiscernibleValue: 100, highestTrackableValue: nanosecondsMax, numberOfSignificantValueDigits: .three)
    }

    private static let nanosecondsMax: UInt64 = 60_000_000_000
}
