import BrokerCore
import BrokerModel
import Configuration
import MQTTCodec
import MartletTestKit
import NetworkTestKit
import Platform
import Security
import TestBasics
import Testing
import Transports

@testable import MartletServer
@testable import ServerLoops

/// The broker's own loops on one thread, with a simulated kernel, network, clock and store: one seed is one run.
///
/// A loop has a turn only when something is ready for it, somebody has rung, or its deadline has come: so a wake-up
/// that is forgotten shows. A blocking task is run at once or some turns of its loop later, as when a stand-in has the
/// loop meanwhile.
final class SimulatedShell {
    let seed: UInt64
    let network = MemoryNetwork()
    let loops: [ShardLoop]
    let pollers: [SimulatedPoller]
    let acceptors: [MemoryAcceptor]
    let store: SimulatedStoreQueue?
    let setup: LoopSetup
    /// Which loops have ended.
    private(set) var hasEnded: [Bool]
    /// How many turns were had in all.
    private(set) var turns = 0
    /// Whether the loops have not come to rest once: the test has failed, and is not to go on for ever.
    private var isRestless = false
    /// Loops that get no turn: their threads have no processor.
    var starved: Set<Int> = []
    private var deadlines: [UInt64?]
    private var blockingTasks: [(loop: Int, blockingTask: LoopTurn.BlockingTask)] = []
    private var random: SeededGenerator
    private let workers: WorkerPool

    init(
        loops count: Int, settings: BrokerSettings = SimulatedBroker.testSettings, seed: UInt64 = 1, disk: SimulatedStore? = nil,
        layers: TransportLayers = TransportLayers(), control: Mailbox<ControlLoopMessage>? = nil
    ) throws {
        self.seed = seed
        random = SeededGenerator(seed: seed)
        var logging = LoggingConfiguration()
        logging.destinations = []
        workers = WorkerPool(name: "test", threads: 1, queue: 1)
        store = disk.map { SimulatedStoreQueue(disk: $0) }
        setup = LoopSetup(
            settings: settings, seed: disk?.seed ?? seed, tables: try SecurityTables(reading: .default(), workers: workers),
            layers: [layers], throttle: workers.throttle, store: store, log: try Log(logging), control: control)
        let network = network
        let pollers = (0..<count).map { SimulatedPoller(network: network, seed: seed &+ UInt64($0)) }
        let acceptors = (0..<count).map { _ in MemoryAcceptor(network: network) }
        let shards = setup.shards(count: count, now: network.now) { SeededGenerator(seed: seed &* 31 &+ UInt64($0)) }
        store?.restore(shards)
        loops = try setup.loops(for: shards, listeners: acceptors.map { [($0, 0)] }) { index throws(SystemError) in
            EventLoop(name: "loop \(index)", poller: pollers[index])
        }
        (self.pollers, self.acceptors) = (pollers, acceptors)
        deadlines = Array(repeating: 0, count: count)
        hasEnded = Array(repeating: false, count: count)
        let loops = loops
        store?.report = { loops[$0].mailbox.post(.stored($1)) }
        for loop in loops { loop.startListeners() }
    }

    deinit {
        workers.stop()
    }

    /// The loop on which a client of this identifier lives.
    func loop(of identifier: String) -> Int { loops[0].shard.placement.shard(of: EncodedString(stringLiteral: identifier)) }

    /// Gives one loop that has something to do a turn, or does something for the store; false if there is nothing to do
    /// at this time.
    @discardableResult
    func step() -> Bool {
        let start = Int.random(in: 0..<loops.count, using: &random)
        let runnable = (0..<loops.count).map { ($0 + start) % loops.count }.first(where: isRunnable)
        if !blockingTasks.isEmpty, runnable == nil || random.oneIn(3) {
            blockingTasks.removeFirst().blockingTask()
            return true
        }
        if let store, store.hasWork, runnable == nil || random.oneIn(4) {
            store.work()
            return true
        }
        guard let runnable else { return false }
        turn(runnable)
        return true
    }

    /// A turn of one loop, whether it has something to do or not.
    func turn(_ index: Int) {
        guard !hasEnded[index] else { return }
        turns += 1
        let (loop, turn) = (loops[index].events, loops[index])
        deadlines[index] = loop.turn(turn, until: deadlines[index])
        if let blockingTask = turn.takeBlockingTask() { blockingTasks.append((index, blockingTask)) }
        hasEnded[index] = loop.isStopping
    }

    private func isRunnable(_ index: Int) -> Bool {
        guard !hasEnded[index], !starved.contains(index) else { return false }
        if let deadline = deadlines[index], deadline <= network.now { return true }
        return loops[index].events.isRung || pollers[index].isReady
    }

    /// Lets the loops work until nothing is left to do at this time.
    func settle() {
        if isRestless { return }
        for _ in 0..<Self.settleStepsMax where !step() { return }
        isRestless = true
        Issue.record("the loops do not come to rest (seed \(seed))")
    }

    /// Lets time pass.
    func advance(milliseconds: UInt64) {
        let end = network.now + milliseconds
        settle()
        while !isRestless, let next = nextDeadline, next <= end {
            network.now = max(network.now, next)
            settle()
        }
        network.now = end
        settle()
    }

    /// When something is to be done next, of loops that have not ended.
    var nextDeadline: UInt64? {
        loops.indices.compactMap { hasEnded[$0] || starved.contains($0) ? nil : deadlines[$0] }.min()
    }

    /// Tells all loops to end, as a signal does.
    func stop() {
        let shutdownBarrier = ShutdownBarrier(loops: loops.count)
        for loop in loops { loop.mailbox.post(.stop(shutdownBarrier)) }
    }

    /// Lets the loops end; they have to within the time that a peer is given, and a moment.
    func finish(
        within milliseconds: UInt64 = ServerLoops.Limits.drainMilliseconds + 100, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        advance(milliseconds: milliseconds)
        #expect(hasEnded.allSatisfy { $0 }, "seed \(seed): a loop has not ended", sourceLocation: sourceLocation)
        checkEnd(sourceLocation: sourceLocation)
    }

    /// What must be so when all loops have ended.
    private func checkEnd(sourceLocation: SourceLocation) {
        let open = network.channels.filter { !$0.isClosed }
        #expect(open.isEmpty, "seed \(seed): \(open.count) connections were left open", sourceLocation: sourceLocation)
        #expect(network.openCount == 0, "seed \(seed): descriptors were left open", sourceLocation: sourceLocation)
        #expect(pollers.allSatisfy { $0.watchCount == 0 }, "seed \(seed): registrations were left", sourceLocation: sourceLocation)
        #expect(setup.admission.count == 0, "seed \(seed): connections are still counted", sourceLocation: sourceLocation)
        for loop in loops {
            #expect(loop.mailbox.isEmpty, "seed \(seed): a letter was left to loop \(loop.index)", sourceLocation: sourceLocation)
            #expect(
                loop.links.allSatisfy { $0 == nil }, "seed \(seed): loop \(loop.index) has links", sourceLocation: sourceLocation)
            #expect(loop.shard.isIdle, "seed \(seed): shard \(loop.index) is not idle", sourceLocation: sourceLocation)
        }
    }

    private static let settleStepsMax = 50_000
}
