internal import CLinux
import EpollLoop
internal import Glibc
import Platform

/// A timer for sends that are microseconds apart, where the loop's own deadlines are a millisecond coarse.
///
/// A timerfd on the loop: it is exact to the kernel's high resolution timers, and the thread sleeps until then. Level-triggered: it
/// stays readable until it is set again, which is done in each turn, so nobody reads it.
final class PacingTimer: EventHandler {
    private let descriptor: FileDescriptor
    private var registration: Registration?

    init() throws(SystemError) {
        let number = linux_timer_create()
        guard number >= 0 else { throw SystemError(errno: errno, operation: "timerfd_create") }
        descriptor = FileDescriptor(rawValue: number)
    }

    deinit { descriptor.close() }

    func register(on events: EventLoop) throws(SystemError) {
        registration = try events.register(descriptor.rawValue, for: .readable, handler: self)
    }

    func deregister(from events: EventLoop) {
        if let registration { events.deregister(registration) }
        registration = nil
    }

    /// Lets a turn begin at that time of the monotonic clock, in nanoseconds.
    func set(at nanoseconds: UInt64) {
        _ = linux_timer_set(descriptor.rawValue, max(1, nanoseconds))
    }

    func ready(_ events: ReadyEvents) {}
}
