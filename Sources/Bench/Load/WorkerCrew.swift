import EpollLoop
import Histogram
import Platform

/// The workers of a run and their threads, as the coordinator's thread sees them.
///
///     init ─► start ─► awaitReady ─► enter(.warming) … ─► finish
final class WorkerCrew {
    let control: LoadControl
    private let workers: [Worker]
    private var threads: [NamedThread] = []

    /// - Parameter driver: makes what a worker's connections are to do.
    init(count: Int, driver: (Int, LoadControl) -> any LoadDriver) throws(BenchError) {
        let control = LoadControl(workerCount: count)
        self.control = control
        do throws(SystemError) {
            var workers: [Worker] = []
            for index in 0..<count {
                workers.append(try Worker(index: index, control: control, driver: driver(index, control)))
            }
            self.workers = workers
        } catch {
            throw .system(error)
        }
    }

    /// Starts the threads.
    func start() throws(BenchError) {
        for worker in workers {
            do throws(SystemError) {
                threads.append(try NamedThread.start(name: worker.events.name) { worker.run() })
            } catch {
                finish()
                throw .system(error)
            }
        }
    }

    /// Waits until so many connections are ready. Throws, with all threads ended, when one fails or it takes too long.
    ///
    /// - Parameter isWatched: whether the monitor is to gather how they come.
    func awaitReady(_ count: Int, monitor: RunMonitor, isWatched: Bool = false) throws(BenchError) {
        let start = MonotonicClock.nanoseconds()
        while true {
            let counts = control.total
            if counts.ready >= count { return }
            let seconds = MonotonicClock.seconds(from: start, to: MonotonicClock.nanoseconds())
            if counts.ended > 0 || seconds > Self.connectSecondsMax {
                finish()
                let reason = firstFailure ?? Self.noReason
                throw .connections("Only \(counts.ready) of \(count) connections came to stand with \(monitor.broker): \(reason).")
            }
            if isWatched { monitor.look(self) } else { monitor.tell("\(counts.ready) of \(count) connected") }
            // Short, for the connection rate is taken from here.
            MonotonicClock.sleep(milliseconds: 1)
        }
    }

    func enter(_ phase: LoadPhase) {
        control.phase = phase
        for worker in workers { worker.events.wake() }
    }

    /// Lets workers look again.
    func wake() {
        for worker in workers { worker.events.wake() }
    }

    /// Ends all threads and returns when they have.
    func finish() {
        enter(.over)
        for thread in threads { thread.join() }
        threads = []
    }

    /// The latencies that all workers have recorded since they were taken last. A worker that is busy for too long is not waited for: what
    /// it has comes the next time.
    func takeLatencies() -> Histogram<UInt64> {
        for worker in workers {
            worker.exchange.ask()
            worker.events.wake()
        }
        var taken = LatencyRecorder.emptyHistogram()
        var waiting = workers
        for _ in 0..<Self.exchangeMillisecondsMax {
            waiting.removeAll { $0.exchange.take(into: &taken) }
            if waiting.isEmpty { break }
            MonotonicClock.sleep(milliseconds: 1)
        }
        return taken
    }

    /// The latencies that nobody has taken. After `finish`.
    func remainingLatencies() -> Histogram<UInt64> {
        workers.reduce(into: LatencyRecorder.emptyHistogram()) { all, worker in
            worker.exchange.takeAll(into: &all)
            all.add(worker.recorder.histogram)
        }
    }

    /// Why the first connection that ended unasked did so, as far as it is known. After `finish`.
    var firstFailure: String? { workers.lazy.compactMap(\.firstFailure).first }

    private static let connectSecondsMax = 120.0
    private static let exchangeMillisecondsMax = 20
    private static let noReason = "the broker does not answer"
}

/// Which of a workload's clients are one worker's: every n-th.
struct WorkerShare {
    let publishers: [Int]
    let subscribers: [Int]

    init(_ workload: Workload, worker: Int, of count: Int) {
        publishers = stride(from: worker, to: workload.publisherCount, by: count).map { $0 }
        subscribers = stride(from: worker, to: workload.subscriberCount, by: count).map { $0 }
    }
}
