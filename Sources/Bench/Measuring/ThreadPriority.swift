internal import Glibc
internal import Platform

/// How the calling thread stands to others when all cores are busy.
enum ThreadPriority {
    /// Lets every thread of ordinary priority go first, from now on.
    static func lower() {
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness)
    }

    /// Runs `body` ahead of every thread of ordinary priority, and with it the threads that it starts, if the system grants it (root has
    /// the right) and they leave a core to others. `body` is told.
    static func first<Answer, Failure>(
        threads: Int, _ body: (_ isGranted: Bool) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        let policy = sched_getscheduler(0)
        var parameters = sched_param()
        var realTime = sched_param(sched_priority: 1)
        guard threads < ProcessorCount.usable(), sched_getparam(0, &parameters) == 0,
            sched_setscheduler(0, SCHED_FIFO, &realTime) == 0
        else { return try body(false) }
        defer {
            let isBack = sched_setscheduler(0, policy, &parameters) == 0
            precondition(isBack, "a thread may always take back its priority")
        }
        return try body(true)
    }

    private static let niceness: Int32 = 10
}
