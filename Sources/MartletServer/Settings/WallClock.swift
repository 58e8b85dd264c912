import Glibc
import Platform

/// The time of day, for a core that knows only a clock that never jumps.
enum WallClock {
    /// The seconds since 1970.
    static func seconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec)
    }

    /// What the monotonic clock lacks of the milliseconds since 1970, now.
    static func offsetMilliseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000 - MonotonicClock.milliseconds()
    }
}
