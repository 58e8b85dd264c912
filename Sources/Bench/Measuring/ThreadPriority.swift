internal import Glibc

/// How the calling thread stands to others when all cores are busy.
enum ThreadPriority {
    /// Lets every thread of ordinary priority go first, from now on.
    static func lower() {
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness)
    }

    /// Runs `body` ahead of every thread of ordinary priority, and with it the threads that it starts, if the system grants it: root has the
    /// right. `body` is told.
    static func first<Answer, Failure>(_ body: (_ isGranted: Bool) throws(Failure) -> Answer) throws(Failure) -> Answer {
        var realTime = sched_param(sched_priority: 1)
        guard sched_setscheduler(0, SCHED_FIFO, &realTime) == 0 else { return try body(false) }
        defer {
            var ordinary = sched_param(sched_priority: 0)
            sched_setscheduler(0, SCHED_OTHER, &ordinary)
        }
        return try body(true)
    }

    private static let niceness: Int32 = 10
}
