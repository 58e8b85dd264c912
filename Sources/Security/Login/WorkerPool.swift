internal import Glibc
internal import Platform

/// A few threads that check passwords, which must not be done on a loop, and the bounded queue before them.
///
/// Threads start when there is work for them, so a broker without passwords has none, and run with less priority than the loops. They keep
/// the signal mask of whoever submits the first check. For any thread.
public final class WorkerPool: @unchecked Sendable {
    /// The throttle, which knows those who log in.
    public let throttle: LoginThrottle
    private let name: String
    private let threadsMax: Int
    private let monitor = Monitor()
    // All below only inside the monitor.
    private var queue: CheckQueue
    private var busy = 0
    private var threads: [NamedThread] = []
    private var isStopping = false

    /// - Parameters:
    ///   - name: what `ps` and `top` show of its threads.
    ///   - threads: how many checks run at the same time, at least one.
    ///   - queue: how many checks wait at most.
    ///   - queueOfNetwork: how many of one network; nil for half of that.
    ///   - throttle: tells whose check is first.
    public init(name: String, threads: Int, queue: Int, queueOfNetwork: Int? = nil, throttle: LoginThrottle = LoginThrottle()) {
        self.name = name
        self.throttle = throttle
        threadsMax = max(1, threads)
        self.queue = CheckQueue(
            throttle: throttle, countMax: queue,
            countOfNetworkMax: queueOfNetwork ?? max(1, queue / Limits.pendingLoginsPerNetworkDivisor))
    }

    /// Has the check made when its turn comes. It is refused, now or later, when too many wait, when no thread can be started, and after `stop`.
    public func submit(_ check: PasswordCheck) {
        let refused: PasswordCheck? = monitor.withLock {
            guard !isStopping, startThread() else { return check }
            let dueBefore = queue.nextDue
            let refused = queue.add(check, now: MonotonicClock.milliseconds())
            // Who waits knows of those that may not begin sooner.
            if queue.nextDue != dueBefore { monitor.signal() }
            return refused
        }
        refused?.giveWay()
    }

    /// Ends the threads; what runs is waited for, what waits is dropped. To be called before the last reference goes.
    public func stop() {
        let ending = monitor.withLock {
            isStopping = true
            queue.removeAll()
            monitor.signal()
            defer { threads = [] }
            return threads
        }
        for thread in ending { thread.join() }
    }

    /// One more thread, if those that have nothing to do are not more than the checks that wait. False when there is none at all.
    private func startThread() -> Bool {
        guard threads.count < threadsMax, threads.count - busy <= queue.count else { return true }
        do throws(SystemError) {
            threads.append(try NamedThread.start(name: name) { [self] in run() })
            return true
        } catch {
            return !threads.isEmpty
        }
    }

    private func run() {
        // Linux takes this for the calling thread alone.
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, Self.niceness)
        while let check = next() {
            check.run()
            monitor.withLock { busy -= 1 }
        }
    }

    /// Waits for a check whose turn it is; nil at the end.
    private func next() -> PasswordCheck? {
        monitor.withLock {
            while !isStopping {
                let now = MonotonicClock.milliseconds()
                if let check = queue.takeNext(now: now) {
                    busy += 1
                    return check
                }
                if let due = queue.nextDue {
                    monitor.wait(milliseconds: Int(clamping: due > now ? due - now : 1))
                } else {
                    monitor.wait()
                }
            }
            return nil
        }
    }

    private static let niceness: Int32 = 5
}
