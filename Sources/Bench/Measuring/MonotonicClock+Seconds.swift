internal import Platform

extension MonotonicClock {
    /// Seconds between two moments in nanoseconds.
    static func seconds(from start: UInt64, to end: UInt64) -> Double { Double(end &- start) / 1e9 }
}
