internal import Glibc

/// The clock that nobody sets, and that goes on while the machine sleeps: for intervals and deadlines, leases among them.
public enum MonotonicClock {
    /// Milliseconds since a moment that does not matter.
    public static func milliseconds() -> UInt64 { nanoseconds() / 1_000_000 }

    /// The same in microseconds.
    public static func microseconds() -> UInt64 { nanoseconds() / 1000 }

    /// The same in nanoseconds.
    public static func nanoseconds() -> UInt64 {
        var time = timespec()
        SystemCall.certain("clock_gettime") { clock_gettime(CLOCK_BOOTTIME, &time) }
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Lets the calling thread wait.
    public static func sleep(milliseconds: Int) { usleep(UInt32(milliseconds) * 1000) }
}
