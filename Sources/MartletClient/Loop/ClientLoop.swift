package import Platform
internal import Transports

/// The thread that works for clients: for all of a process, unless it makes more of them.
///
/// ```
///   tasks ──CommandBox──► mailbox ──beginTurn──► engines ──ready──► … ──endOfTurn──► what each engine has left: events, output, deadlines
/// ```
/// Whatever an engine is told during a turn, it looks once at its events and writes once, at the turn's end.
package final class ClientLoop: LoopTurn, @unchecked Sendable {
    // Unchecked: everything but `mailbox`, `resolver` and `events.wake` belongs to the thread that runs the loop.
    package let events: EventLoop
    let mailbox: Mailbox<ClientEngine>
    let resolver = NameResolver()
    let workspace = FilterWorkspace()
    /// Where the tasks of a client run that the library itself begins; nil for everywhere.
    package let taskExecutor: (any TaskExecutor)?
    /// Runs tasks of the program that ask for it on the loop's thread.
    let executor: LoopExecutor
    /// What its clients wait by.
    let clock: any Clock<Duration>
    private let chance: @Sendable () -> UInt64
    /// The time of `now`, for every thread.
    let uptimeMilliseconds: @Sendable () -> UInt64
    /// Milliseconds since 1970, for what outlives the process.
    let wallMilliseconds: @Sendable () -> UInt64
    private var touched: [ClientEngine] = []
    private var deadlines = DeadlineHeap()
    private var spare: [ClientCommand] = []

    /// A loop that somebody else runs, by `events.run(loop)` or turn by turn.
    ///
    /// - Parameters:
    ///   - chance: random bits, for pauses and identifiers.
    ///   - uptimeMilliseconds: the time of the loop's poller.
    ///   - wallMilliseconds: the time since 1970.
    package init(
        _ events: EventLoop, taskExecutor: (any TaskExecutor)? = nil, clock: any Clock<Duration> = ContinuousClock(),
        chance: @escaping @Sendable () -> UInt64 = { RandomBytes.seed() },
        uptimeMilliseconds: @escaping @Sendable () -> UInt64 = { MonotonicClock.milliseconds() },
        wallMilliseconds: @escaping @Sendable () -> UInt64 = { WallClock.milliseconds() }
    ) {
        (self.events, self.taskExecutor, self.clock, self.chance) = (events, taskExecutor, clock, chance)
        (self.uptimeMilliseconds, self.wallMilliseconds) = (uptimeMilliseconds, wallMilliseconds)
        mailbox = Mailbox(loop: events)
        executor = LoopExecutor(events)
    }

    /// The one that clients share if nothing else is said, and its thread. Throws when the kernel allows neither.
    static func shared() throws(ClientError) -> ClientLoop {
        try sharedLoop.withLock { loop throws(ClientError) in
            if let loop { return loop }
            do throws(SystemError) {
                let made = ClientLoop(try EventLoop(name: "mqtt client"))
                _ = try NamedThread.start(name: "mqtt client") { made.events.run(made) }
                loop = made
                return made
            } catch {
                throw .settings("the client's thread cannot be started: \(error)")
            }
        }
    }

    private static let sharedLoop = Locked<ClientLoop?>(nil)

    var now: UInt64 { events.nowMilliseconds }

    func random() -> UInt64 { chance() }

    /// The engine has something to do at the turn's end.
    func touch(_ engine: ClientEngine) {
        guard !engine.isTouched else { return }
        engine.isTouched = true
        touched.append(engine)
    }

    package func beginTurn(now: UInt64) {
        runCommands()
        while let engine = deadlines.popDue(now: now) { touch(engine) }
    }

    package func endOfTurn(now: UInt64) -> UInt64? {
        endTurns(now: now)
        if !executor.isEmpty {
            executor.run()
            // What the tasks have asked for leaves in this turn.
            runCommands()
            endTurns(now: now)
        }
        return mailbox.isEmpty && executor.isEmpty ? deadlines.next : 0
    }

    private func runCommands() {
        mailbox.drain { engine in
            engine.perform(&spare)
            spare.removeAll(keepingCapacity: spare.count <= Self.spareCount)
        }
    }

    private func endTurns(now: UInt64) {
        var index = 0
        while index < touched.count {
            let engine = touched[index]
            engine.isTouched = false
            engine.endTurn(now: now)
            if let deadline = engine.nextDeadline { deadlines.insert(engine, at: deadline) } else { deadlines.remove(engine) }
            index += 1
        }
        touched.removeAll(keepingCapacity: true)
    }

    private static let spareCount = 4096
}

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

/// When which client wants to be called, the earliest first. Times are milliseconds of the loop's clock.
///
/// Each client is in it once at most, and knows its index, so that one that connects again and again leaves nothing
/// behind. A later deadline is not moved: the earlier one rings in vain, and the client tells the time that holds.
struct DeadlineHeap {
    private var entries: [(deadline: UInt64, engine: ClientEngine)] = []

    var count: Int { entries.count }

    /// The earliest, nil when there is none.
    var next: UInt64? { entries.first?.deadline }

    /// Has a client called at that time, or before.
    mutating func insert(_ engine: ClientEngine, at deadline: UInt64) {
        if let index = engine.deadlineIndex {
            guard deadline < entries[index].deadline else { return }
            entries[index].deadline = deadline
            rise(index)
        } else {
            entries.append((deadline, engine))
            rise(entries.count - 1)
        }
    }

    /// A client waits for nothing.
    mutating func remove(_ engine: ClientEngine) {
        guard let index = engine.deadlineIndex else { return }
        engine.deadlineIndex = nil
        let last = entries.removeLast()
        guard index < entries.count else { return }
        entries[index] = last
        rise(index)
        sink(last.engine.deadlineIndex ?? index)
    }

    /// Takes out one that is due.
    mutating func popDue(now: UInt64) -> ClientEngine? {
        guard let first = entries.first, first.deadline <= now else { return nil }
        remove(first.engine)
        return first.engine
    }

    private mutating func rise(_ start: Int) {
        var index = start
        while index > 0, entries[(index - 1) / 2].deadline > entries[index].deadline {
            entries.swapAt(index, (index - 1) / 2)
            entries[index].engine.deadlineIndex = index
            index = (index - 1) / 2
        }
        entries[index].engine.deadlineIndex = index
    }

    private mutating func sink(_ start: Int) {
        var index = start
        while true {
            var smallest = index
            for child in [2 * index + 1, 2 * index + 2]
            where child < entries.count && entries[child].deadline < entries[smallest].deadline {
                smallest = child
            }
            if smallest == index { return }
            entries.swapAt(index, smallest)
            entries[index].engine.deadlineIndex = index
            entries[smallest].engine.deadlineIndex = smallest
            index = smallest
        }
    }
}
