import Bytes
import Platform
import Synchronization
import Transports

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
            if isWatched { monitor.look(self) } else { monitor.show("\(counts.ready) of \(count) connected") }
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

    /// The latencies that all workers have recorded since they were taken last. A worker that is busy for too long is
    /// not waited for: what it has comes the next time.
    func takeLatencies() -> LatencyHistogram {
        for worker in workers {
            worker.exchange.ask()
            worker.events.wake()
        }
        var taken = LatencyHistogram()
        var waiting = workers
        for _ in 0..<Self.exchangeMillisecondsMax {
            waiting.removeAll { $0.exchange.take(into: &taken) }
            if waiting.isEmpty { break }
            MonotonicClock.sleep(milliseconds: 1)
        }
        return taken
    }

    /// The latencies that nobody has taken. After `finish`.
    func remainingLatencies() -> LatencyHistogram {
        workers.reduce(into: LatencyHistogram()) { all, worker in
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

/// One thread of the load: a loop, the clients on it, and what they are to do.
///
/// Made by the coordinator; from `run` until it returns it belongs to its thread.
final class Worker: LoopTurn, @unchecked Sendable {
    let index: Int
    let events: EventLoop
    let control: LoadControl
    let tally = LoadTally()
    let recorder = LatencyRecorder()
    /// On which its latencies reach the coordinator.
    let exchange = LatencyExchange()
    /// For channels with layers.
    let workspace = FilterWorkspace()
    /// For one write at a time.
    let slices = UnsafeMutableBufferPointer<ByteSlice>.allocate(capacity: 256)
    /// Completed rounds, where the scenario has rounds.
    var rounds: UInt64 = 0
    /// Connections that ended unasked.
    var endedCount = 0
    /// Why the first connection that ended unasked did so, as far as it is known.
    private(set) var firstFailure: String?
    private let driver: any LoadDriver

    init(index: Int, control: LoadControl, driver: any LoadDriver) throws(SystemError) {
        self.index = index
        self.control = control
        self.driver = driver
        events = try EventLoop(name: "load \(index)")
    }

    deinit { slices.deallocate() }

    /// Works until the phase is `over`.
    func run() { events.run(self) }

    func beginTurn(now: UInt64) {
        recorder.isRecording = control.phase == .measuring
    }

    func endOfTurn(now: UInt64) -> UInt64? {
        let deadline = driver.turnEnded(self, now: now)
        control.progress[index].report(tally, ended: endedCount, rounds: rounds)
        exchange.handOverIfAsked(recorder)
        if control.phase == .over { events.stop() }
        return deadline
    }

    func received(_ client: LoadClient) { driver.received(client, self) }

    func ended(_ client: LoadClient) {
        record(failure: client.failure)
        driver.ended(client, self)
    }

    /// Keeps the reason if it is the first.
    func record(failure: String?) {
        if firstFailure == nil { firstFailure = failure }
    }
}

/// What a worker's connections are to do: the scenario's part of a worker. Called on the worker's thread.
protocol LoadDriver: AnyObject {
    /// Handlers have run: opens connections, publishes. Returns when the next turn must begin at the latest, in
    /// milliseconds.
    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64?

    /// The client has read; perhaps a message has come, perhaps it is ready now.
    func received(_ client: LoadClient, _ worker: Worker)

    /// The client's connection has ended.
    func ended(_ client: LoadClient, _ worker: Worker)
}

/// What the coordinator tells the workers, and what they tell it. For all threads.
final class LoadControl: Sendable {
    private let currentPhase = Atomic<LoadPhase>(.connecting)
    private let forgivenMessages = Atomic<UInt64>(0)
    /// One for each worker.
    let progress: [WorkerProgress]

    init(workerCount: Int) {
        progress = (0..<workerCount).map { _ in WorkerProgress() }
    }

    var phase: LoadPhase {
        get { currentPhase.load(ordering: .acquiring) }
        set { currentPhase.store(newValue, ordering: .releasing) }
    }

    /// Messages that a closed loop no longer waits for, because nothing came for a second.
    var forgiven: UInt64 { forgivenMessages.load(ordering: .relaxed) }

    func forgive(_ count: UInt64) { forgivenMessages.add(count, ordering: .relaxed) }

    /// What all workers have told last.
    var total: LoadCounts { progress.reduce(into: LoadCounts()) { $0.add($1.counts) } }
}

/// What a run is at. The coordinator moves it on; workers look at it in each turn.
enum LoadPhase: UInt8, AtomicRepresentable {
    /// Connections are made; nothing is published.
    case connecting
    /// Messages flow, and nobody measures.
    case warming
    case measuring
    /// Nothing more is published; what is on its way may arrive.
    case draining
    /// Loops end.
    case over
}

/// What a worker tells other threads at the end of each turn.
final class WorkerProgress: Sendable {
    private let published = Atomic<UInt64>(0)
    private let delivered = Atomic<UInt64>(0)
    private let acknowledged = Atomic<UInt64>(0)
    private let rejected = Atomic<UInt64>(0)
    private let duplicates = Atomic<UInt64>(0)
    private let skipped = Atomic<UInt64>(0)
    private let ready = Atomic<Int>(0)
    private let ended = Atomic<Int>(0)
    private let rounds = Atomic<UInt64>(0)

    func report(_ tally: LoadTally, ended endedCount: Int, rounds roundCount: UInt64) {
        published.store(tally.publishedCount, ordering: .relaxed)
        delivered.store(tally.deliveredCount, ordering: .relaxed)
        acknowledged.store(tally.acknowledgedCount, ordering: .relaxed)
        rejected.store(tally.rejectedCount, ordering: .relaxed)
        duplicates.store(tally.duplicateCount, ordering: .relaxed)
        skipped.store(tally.skippedCount, ordering: .relaxed)
        ready.store(tally.readyCount, ordering: .relaxed)
        ended.store(endedCount, ordering: .relaxed)
        rounds.store(roundCount, ordering: .relaxed)
    }

    var counts: LoadCounts {
        LoadCounts(
            published: published.load(ordering: .relaxed), delivered: delivered.load(ordering: .relaxed),
            acknowledged: acknowledged.load(ordering: .relaxed), rejected: rejected.load(ordering: .relaxed),
            duplicates: duplicates.load(ordering: .relaxed), skipped: skipped.load(ordering: .relaxed),
            ready: ready.load(ordering: .relaxed), ended: ended.load(ordering: .relaxed),
            rounds: rounds.load(ordering: .relaxed))
    }
}

/// Counts of a run at one moment.
struct LoadCounts {
    var published: UInt64 = 0
    var delivered: UInt64 = 0
    var acknowledged: UInt64 = 0
    var rejected: UInt64 = 0
    var duplicates: UInt64 = 0
    var skipped: UInt64 = 0
    /// Connections that are connected and subscribed now.
    var ready = 0
    /// Connections that ended before they were asked to.
    var ended = 0
    /// How many whole rounds there were, where a scenario has rounds.
    var rounds: UInt64 = 0

    mutating func add(_ other: LoadCounts) {
        published += other.published
        delivered += other.delivered
        acknowledged += other.acknowledged
        rejected += other.rejected
        duplicates += other.duplicates
        skipped += other.skipped
        ready += other.ready
        ended += other.ended
        rounds += other.rounds
    }
}
