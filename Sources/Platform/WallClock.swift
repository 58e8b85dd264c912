internal import Glibc

/// The time of day, for a core that knows only a clock that never jumps.
package enum WallClock {
    /// The seconds since 1970.
    package static func seconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec)
    }

    /// The milliseconds since 1970.
    package static func milliseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000
    }

    /// What the monotonic clock lacks of the milliseconds since 1970, now.
    package static func offsetMilliseconds() -> UInt64 {
        milliseconds() - MonotonicClock.milliseconds()
    }
}
