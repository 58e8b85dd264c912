internal import CLinux

/// What a thread has had of the processors since it began.
public struct ThreadTimes: Sendable {
    /// The kernel's number of the thread.
    public let thread: Int32
    /// How long it has run, in nanoseconds.
    public let running: UInt64
    /// How long it could have run but waited for a processor, in nanoseconds.
    public let waiting: UInt64

    public init(thread: Int32, running: UInt64, waiting: UInt64) {
        (self.thread, self.running, self.waiting) = (thread, running, waiting)
    }

    /// The calling thread's; nil where `/proc` does not tell.
    public static func current() -> ThreadTimes? {
        guard let waiting = SystemCall.threadWaitingNanoseconds() else { return nil }
        return ThreadTimes(thread: linux_thread_id(), running: SystemCall.threadRunningNanoseconds(), waiting: waiting)
    }
}
