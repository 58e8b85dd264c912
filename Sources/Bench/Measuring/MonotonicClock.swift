internal import Glibc

/// The clock that is never set: for intervals.
enum MonotonicClock {
    /// Nanoseconds since a moment that does not matter.
    static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Seconds between two moments.
    static func seconds(from start: UInt64, to end: UInt64) -> Double { Double(end &- start) / 1e9 }

    /// Lets the calling thread wait.
    static func sleep(milliseconds: Int) { usleep(UInt32(milliseconds) * 1000) }
}
