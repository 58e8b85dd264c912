internal import EpollLoop

/// Runs tasks on a loop's thread, at the end of its turns.
///
/// ```
///   job ──enqueue──► mailbox ──run──► the task goes on ──CommandBox──► its client writes in the same turn
/// ```
final class LoopExecutor: TaskExecutor {
    private let jobs: Mailbox<UnownedJob>

    init(_ events: EventLoop) { jobs = Mailbox(loop: events) }

    func enqueue(_ job: consuming ExecutorJob) { jobs.post(UnownedJob(job)) }

    /// For the loop's thread.
    var isEmpty: Bool { jobs.isEmpty }

    /// Runs what is there. For the loop's thread.
    func run() {
        let executor = asUnownedTaskExecutor()
        jobs.drain { $0.runSynchronously(on: executor) }
    }
}
