internal import EpollLoop
internal import Glibc

/// A few threads for work that must not run on a loop, and a queue before them that is bounded: whoever finds it full is told so at once.
///
/// Threads start when there is work for them, so a broker without passwords has none, and run with less priority than the loops. They keep
/// the signal mask of whoever submits the first work. For any thread.
public final class WorkerPool: @unchecked Sendable {
    public typealias Work = @Sendable () -> Void

    private let name: String
    private let threadsMax: Int
    private let queueMax: Int
    private let lock = Lock()
    private let pending = Semaphore()
    // All below only under the lock.
    private var queue: [Work] = []
    private var taken = 0
    private var idle = 0
    private var threads: [LoopThread] = []
    private var isStopping = false

    /// - Parameters:
    ///   - name: what `ps` and `top` show of its threads.
    ///   - threads: how many works run at the same time, at least one.
    ///   - queue: how many works wait at most.
    public init(name: String, threads: Int, queue: Int) {
        self.name = name
        threadsMax = max(1, threads)
        queueMax = queue
    }

    /// Has the work done later, in turn; false when the queue is full, when no thread can be started, or after `stop`.
    public func submit(_ work: @escaping Work) -> Bool {
        lock.withLock {
            guard !isStopping, queue.count - taken < queueMax else { return false }
            if idle <= queue.count - taken, threads.count < threadsMax {
                do throws(SystemError) {
                    threads.append(try LoopThread.start(name: name) { [self] in run() })
                    idle += 1
                } catch {
                    guard !threads.isEmpty else { return false }
                }
            }
            queue.append(work)
            pending.signal()
            return true
        }
    }

    /// Ends the threads; what runs is waited for, what waits is dropped. To be called before the last reference goes.
    public func stop() {
        let ending = lock.withLock {
            isStopping = true
            queue = []
            taken = 0
            defer { threads = [] }
            return threads
        }
        for _ in ending { pending.signal() }
        for thread in ending { thread.join() }
    }

    private func run() {
        // Linux takes this for the calling thread alone.
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, Self.niceness)
        while true {
            pending.wait()
            let (work, isEnd): (Work?, Bool) = lock.withLock {
                if isStopping { return (nil, true) }
                guard taken < queue.count else { return (nil, false) }
                idle -= 1
                return (takeFirst(), false)
            }
            if isEnd { return }
            guard let work else { continue }
            work()
            lock.withLock { idle += 1 }
        }
    }

    /// The oldest work; the queue's front is cut off once it is half of it, so that taking costs constant time.
    private func takeFirst() -> Work {
        let work = queue[taken]
        taken += 1
        if taken * 2 >= queue.count {
            queue.removeFirst(taken)
            taken = 0
        }
        return work
    }

    private static let niceness: Int32 = 5
}
