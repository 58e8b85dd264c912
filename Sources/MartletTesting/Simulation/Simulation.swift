internal import BrokerCore
import BrokerModel
internal import BrokerSimulation
internal import Bytes
internal import ClientStore
internal import Glibc
internal import Platform

/// Clients, brokers and the network between them on one simulated clock: one seed is one run.
///
/// ```swift
/// @Test(arguments: 0..<100 as Range<UInt64>) func `an order survives a cut`(seed: UInt64) async throws {
///     try await Simulation.run(seed: seed) { world in
///         let broker = world.broker()
///         let shop = try world.client("shop", of: broker)
///         try await shop.connect()
///         world.cut(shop, afterBytes: 19)                       // in the middle of a packet
///         try await shop.publish("3", to: "orders", qos: .exactlyOnce)
///         #expect(broker.published("orders").count == 1)
///     }
/// }
/// ```
/// The clients and the broker's core are the real ones; sockets, clock and threads are not there. Everything that can
/// happen next, a job of a task, a turn of a loop, bytes that arrive, happens one at a time in an order that the seed
/// decides, so that a failure comes again with its seed. The clock moves when nothing is left to do: to whatever comes
/// next. Tasks of the body and all that it begins run on the simulation's executor; work on other threads, `Task.sleep`
/// and the main actor are outside of it: wait with `advance(by:)` or `clock`.
///
/// Nothing in them goes by the order of a set or a dictionary, which is another in every process: so a seed is the same
/// run in every process, as long as the body keeps to that as well.
///
/// When the body returns, everything ends that it has left: clients, brokers, and tasks, for what they still wait for
/// throws. A task that goes on all the same, and the memory that it holds, stay for as long as the process lives.
public final class Simulation: @unchecked Sendable {
    // Unchecked: only the simulation's thread touches it, on which its tasks run.
    /// By which everything is decided that could happen one way or another.
    public let seed: UInt64
    /// The network's faults: of new connections, and of those that stand.
    public var faults = NetworkFaults() {
        didSet { for link in links { link.cable.faults = faults } }
    }

    let executor = SimulationExecutor()
    let time = SimulatedTime()
    let kernel: SimulatedKernel
    var random: SeededGenerator
    var brokers: [Broker] = []
    var processes: [SimulatedProcess] = []
    /// The processes that have crashed.
    var deadProcesses: [SimulatedProcess] = []
    var links: [SimulatedLink] = []
    var disks: [String: MemoryDisk] = [:]
    /// Stores of the client that is being made.
    var openedStores: [MemoryStore] = []
    var connectionCount = 0
    /// Sees what goes over the network.
    package var tap: ((ObservedBytes) -> Void)?
    /// Looks at clients after each step in which one of them, a task or a disk did something.
    package var watcher: (() -> Void)?
    /// Whether the present step is such a one.
    private var concernsClients = false
    /// The process whose loop has its turn.
    private(set) var turningProcess: SimulatedProcess?
    private var settling: [UnsafeContinuation<Void, Never>] = []
    /// How many things may happen before the run is given up.
    public var stepsMax = 1_000_000

    private init(seed: UInt64) {
        self.seed = seed
        random = SeededGenerator(seed: seed &* 0x2545_f491_4f6c_dd1d &+ 1)
        kernel = SimulatedKernel(time: time)
    }

    /// Runs the body in a world of its own, and returns when it does. Rethrows what it throws; throws `SimulationError`
    /// when it waits for what can never happen.
    public static func run(
        seed: UInt64, _ body: @escaping @Sendable (Simulation) async throws -> Void
    ) async throws {
        let world = Simulation(seed: seed)
        let outcome = Locked<Result<Void, any Error>?>(nil)
        // Made here, so that it has the task-local values of the caller: a test's expectations know their test.
        Task(executorPreference: world.executor) {
            do {
                try await body(world)
                outcome.withLock { $0 = .success(()) }
            } catch {
                outcome.withLock { $0 = .failure(error) }
            }
        }
        try await withUnsafeThrowingContinuation { (continuation: UnsafeContinuation<Void, any Error>) in
            do throws(SystemError) {
                _ = try NamedThread.start(name: "simulation") {
                    // The caller goes on behind it: its job is none of the simulation's.
                    continuation.resume(
                        with: TaskCapture.capture(by: world.executor) {
                            defer { world.end() }
                            return world.run { outcome.withLock { $0 } }
                        })
                }
            } catch {
                continuation.resume(throwing: error)
            }
        }
    }

    // MARK: Time

    /// How long it has run.
    public var now: Duration { .milliseconds(Int64(time.now - SimulatedTime.beginning)) }

    /// The clock of its clients.
    public var clock: SimulatedClock { SimulatedClock(time: time) }

    /// Returns when so much time has gone by.
    public func advance(by duration: Duration) async {
        try? await time.sleep(until: time.now + duration.wholeMilliseconds)
    }

    /// Returns when nothing is left to do at this time.
    public func settle() async {
        await withUnsafeContinuation { settling.append($0) }
    }

    /// The clock leaps: everything that was due meanwhile is late.
    public func jump(by duration: Duration) { time.set(time.now + duration.wholeMilliseconds) }

    /// The network has no faults from now on, and connections that stand go on.
    public func heal() {
        faults = NetworkFaults()
        for link in links { link.cable.mend() }
    }

    // MARK: Steps

    /// Of what there were so many steps, for whoever looks for one without an end.
    private var counts = (jobs: 0, loops: 0, brokers: 0, cables: 0, stores: 0)

    private func run(_ outcome: () -> Result<Void, any Error>?) -> Result<Void, any Error> {
        var steps = 0
        while true {
            if let outcome = outcome() { return outcome }
            steps += 1
            guard steps <= stepsMax else {
                return .failure(
                    SimulationError("seed \(seed): after \(stepsMax) steps and \(now) the body still waits (\(counts))"))
            }
            concernsClients = false
            if step() {
                if concernsClients { watcher?() }
                continue
            }
            if wakeSettling() { continue }
            if let next = nextDeadline {
                time.set(next)
                time.wakeDue()
            } else {
                return .failure(SimulationError("seed \(seed): the body waits, and nothing can happen any more"))
            }
        }
    }

    private func wakeSettling() -> Bool {
        let waiting = settling
        settling = []
        for continuation in waiting { continuation.resume() }
        return !waiting.isEmpty
    }

    /// Something that can happen at this time does; false if nothing can.
    private func step() -> Bool {
        let now = time.now
        for broker in brokers { broker.core.broker.now = max(broker.core.broker.now, now) }
        switch Int.random(in: 0..<4, using: &random) {
        case 0: return commit() || runJob() || moveCable(now) || turnProcess(now) || turnBroker()
        case 1: return turnProcess(now) || runJob() || turnBroker() || moveCable(now) || commit()
        case 2: return turnBroker() || turnProcess(now) || moveCable(now) || runJob() || commit()
        default: return moveCable(now) || turnBroker() || runJob() || turnProcess(now) || commit()
        }
    }

    /// A job may use the world's chance itself.
    private func runJob() -> Bool {
        counts.jobs += 1
        concernsClients = executor.runOne(chance: random.next())
        return concernsClients
    }

    private func turnProcess(_ now: UInt64) -> Bool {
        guard let process = choose(processes, where: { $0.isRunnable(now) }) else { return false }
        concernsClients = true
        turningProcess = process
        process.turn()
        counts.loops += 1
        turningProcess = nil
        return true
    }

    private func turnBroker() -> Bool {
        guard let broker = choose(brokers, where: { $0.core.broker.hasWorkOrStore }) else { return false }
        counts.brokers += 1
        return broker.core.broker.stepOnce()
    }

    private func moveCable(_ now: UInt64) -> Bool {
        guard let link = choose(links, where: { $0.cable.isDue(now) }) else { return false }
        link.cable.move(now: now)
        counts.cables += 1
        if link.cable.isOver { links.removeAll { $0.cable.isOver } }
        return true
    }

    private func commit() -> Bool {
        for process in processes where process.commitsAt == nil && process.awaitsDisk {
            process.commitsAt = time.now + UInt64.random(in: faults.commitMilliseconds, using: &random)
        }
        guard let process = choose(processes, where: { ($0.commitsAt ?? .max) <= time.now && !$0.isCrashed }) else { return false }
        process.commitsAt = nil
        concernsClients = true
        counts.stores += 1
        for store in process.stores where store.heldCount > 0 { store.complete(1) }
        return true
    }

    /// One of those that can do something, by chance.
    private func choose<Element>(_ elements: [Element], where isReady: (Element) -> Bool) -> Element? {
        guard elements.count > 0 else { return nil }
        let start = elements.count == 1 ? 0 : Int.random(in: elements.indices, using: &random)
        for offset in elements.indices {
            let element = elements[(start + offset) % elements.count]
            if isReady(element) { return element }
        }
        return nil
    }

    private var nextDeadline: UInt64? {
        let deadlines =
            processes.map(\.nextDeadline) + brokers.map(\.core.broker.nextDeadline) + links.map(\.cable.nextArrival)
            + [time.nextDeadline]
        return deadlines.compactMap(\.self).min()
    }
}

// MARK: - End

extension Simulation {
    /// Lets go of all that the body has left. Whoever waits would hold the whole world otherwise, and the world's parts
    /// each other.
    private func end() {
        (tap, watcher) = (nil, nil)
        processes += deadProcesses
        deadProcesses = []
        for process in processes { process.end() }
        for _ in 0..<Limits.lastStepsMax {
            guard executor.runOne(chance: 0) || turnLast() || wakeSettling() || time.wakeAll() else { break }
        }
        for link in links { link.cable.breakOff() }
        for broker in brokers { broker.core.broker.powerOff() }
        (links, processes, brokers, disks) = ([], [], [], [:])
        kernel.closeAll()
    }

    private func turnLast() -> Bool {
        guard let process = processes.first(where: { $0.isRunnable(time.now) }) else { return false }
        process.turn()
        return true
    }
}

/// A simulation cannot go on.
public struct SimulationError: Error, CustomStringConvertible, Sendable {
    /// What the simulation could not do, with its seed.
    public let description: String

    init(_ description: String) { self.description = description }
}

extension Simulation {
    /// A broker of a simulation: the real core, with 1 to 3 shards.
    public final class Broker: @unchecked Sendable {
        // Unchecked: only the simulation's thread touches it, on which its tasks run.
        let core: Core

        final class Core {
            var broker: SimulatedBroker
            let published = PublishedMessages()
            var downUntil: UInt64 = 0

            init(_ broker: SimulatedBroker) {
                self.broker = broker
                watch()
            }

            func watch() {
                for shard in broker.cores { shard.watcher = { [published] in published.append($0) } }
            }
        }

        private unowned let world: Simulation
        /// What clients connect to.
        public var address: ServerAddress { world.address(of: self) }

        init(_ world: Simulation, _ broker: SimulatedBroker) {
            (self.world, core) = (world, Core(broker))
        }

        /// All messages that were published, in the order in which it took them; a message of QoS 2 once, unless a
        /// crash in between lost it.
        public var published: [Publication] { core.published.all }

        /// The publications to one topic, in order.
        public func published(_ topic: TopicName) -> [Publication] { core.published.to(topic) }

        /// The retained messages, sorted by topic.
        public var retained: [Publication] { core.broker.retainedMessages() }

        /// The filters that a client subscribes to, sorted, also while it is away.
        public func subscriptions(of clientIdentifier: String) -> [TopicFilter] { core.broker.filters(of: clientIdentifier) }

        /// The identifiers of the clients that are connected, sorted.
        public var clients: [String] { core.broker.connectedClients() }

        /// Ends without a word, as a power cut does, and starts again: on what its store had committed, and on nothing
        /// without a store.
        ///
        /// - Parameter downtime: for so long nobody can connect.
        public func crash(for downtime: Duration = .zero) { world.crash(self, for: downtime) }
    }

    /// Makes a broker.
    ///
    /// - Parameters:
    ///   - shards: 1 to 64 loops; nil lets the seed choose 1 to 3.
    ///   - isPersistent: whether it has a store, which commits late and loses what it has not committed in a crash.
    ///   - receiveMaximum: how many messages of QoS 1 and 2 it has in flight with a client, in each direction.
    ///   - queuedMessagesMax: how many more may wait for a client; it drops those beyond.
    public func broker(
        shards: Int? = nil, isPersistent: Bool = false, receiveMaximum: UInt16 = 20, queuedMessagesMax: Int = 1000
    ) -> Broker {
        let count = shards ?? Int.random(in: 1...3, using: &random)
        var settings = SimulatedBroker.testSettings
        (settings.inFlightMessagesMax, settings.queuedMessagesMax) = (Int(receiveMaximum), queuedMessagesMax)
        let core = SimulatedBroker(
            shards: count, settings: settings, seed: random.next(), store: isPersistent ? SimulatedStore(seed: seed) : nil,
            start: time.now)
        // The broker's own tests look into it after each turn.
        core.checksInvariants = false
        let broker = Broker(self, core)
        brokers.append(broker)
        return broker
    }

    func crash(_ broker: Broker, for downtime: Duration) {
        for link in links where link.broker === broker { link.cable.breakOff() }
        let old = broker.core.broker
        let committing = old.store.map { Int.random(in: 0...$0.waitingCount, using: &random) } ?? 0
        broker.core.broker = old.crashed(committing: committing, seed: random.next())
        broker.core.broker.checksInvariants = false
        broker.core.watch()
        broker.core.downUntil = time.now + downtime.wholeMilliseconds
    }
}

extension Duration {
    /// Rounded up; 0 for what is negative.
    var wholeMilliseconds: UInt64 {
        let (seconds, attoseconds) = components
        return UInt64(max(0, seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000))
    }
}

/// Keeps the jobs of a simulation's tasks until the simulation runs them, one at a time, in an order that its seed
/// decides.
final class SimulationExecutor: TaskExecutor, Sendable {
    private let jobs = Locked<[UnownedJob]>([])

    func enqueue(_ job: consuming ExecutorJob) { enqueue(UnownedJob(job)) }

    func enqueue(_ job: UnownedJob) { jobs.withLock { $0.append(job) } }

    var hasJob: Bool { jobs.withLock { !$0.isEmpty } }

    /// Runs one job until it suspends. Returns whether there was any.
    func runOne(chance: UInt64) -> Bool {
        // Any order of jobs is one that a machine with many cores might choose.
        let job = jobs.withLock { $0.isEmpty ? nil : $0.remove(at: Int(chance % UInt64($0.count))) }
        job?.runSynchronously(on: asUnownedTaskExecutor())
        return job != nil
    }
}

/// Tasks that are begun without an executor, by code that knows nothing of the simulation, and actors would run on the
/// threads of the process, in an order that nobody can repeat. What is begun or woken on a simulation's thread is led
/// to its executor by a hook that the concurrency library has for such purposes. Where the library is linked statically
/// the hook is not found; then only tasks with the executor are the simulation's, among them its body and all child
/// tasks.
enum TaskCapture {
    private typealias Original = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Original) -> Void

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        SystemCall.certain("pthread_key_create") { pthread_key_create(&key, nil) }
        return key
    }()

    /// Sets the hook, once in a process.
    private static let isInstalled: Bool = {
        guard let address = dlsym(nil, "swift_task_enqueueGlobal_hook") else { return false }
        address.assumingMemoryBound(to: Hook.self).pointee = { job, original in
            guard let executor = TaskCapture.current else { return original(job) }
            executor.enqueue(job)
        }
        return true
    }()

    private static var current: SimulationExecutor? {
        pthread_getspecific(key).map { Unmanaged<SimulationExecutor>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Runs the body; tasks that are begun or woken by it, on this thread, are the executor's.
    static func capture<Answer>(by executor: SimulationExecutor, _ body: () -> Answer) -> Answer {
        _ = isInstalled
        pthread_setspecific(key, Unmanaged.passUnretained(executor).toOpaque())
        defer { pthread_setspecific(key, nil) }
        return body()
    }
}

/// The bounds of simulations that no parameter sets.
enum Limits {
    /// Steps in which the tasks that a simulation's body has left come to their ends; what goes on after them stays.
    static let lastStepsMax = 100_000
}
