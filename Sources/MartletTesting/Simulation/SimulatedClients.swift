internal import BrokerSimulation
internal import Bytes
internal import ClientStore
internal import Platform
internal import Transports

/// A process with one client. On the simulation's thread.
final class SimulatedProcess {
    let loop: ClientLoop
    let poller: SimulatedPoller
    private weak let engine: ClientEngine?
    private var deadline: UInt64? = 0
    /// It will never do anything again.
    var isCrashed = false
    /// Its stores. What they are given is on their disks when the seed says so.
    var stores: [MemoryStore] = []
    /// When the next commit is on its disk; nil if none waits.
    var commitsAt: UInt64?
    /// How its next connection is to break.
    var nextCut: ((Cable) -> Void)?

    init(_ engine: ClientEngine, _ poller: SimulatedPoller) { (self.engine, loop, self.poller) = (engine, engine.loop, poller) }

    func isRunnable(_ now: UInt64) -> Bool {
        if isCrashed { return false }
        return (deadline ?? .max) <= now || loop.events.isRung || poller.isReady
    }

    var nextDeadline: UInt64? { isCrashed ? nil : [deadline, commitsAt].compactMap(\.self).min() }

    var awaitsDisk: Bool { !isCrashed && stores.contains { $0.heldCount > 0 } }

    /// The simulation ends: in its next turns all who wait for the client, or for what it has lost in a crash, hear
    /// that it has ended.
    func end() {
        (isCrashed, commitsAt, deadline) = (false, nil, 0)
        for store in stores { store.close() }
        engine?.dieSoon()
    }

    func turn() { deadline = loop.events.turn(loop, until: deadline) }
}

/// A connection, and whose it is.
struct SimulatedLink {
    let cable: Cable
    let process: SimulatedProcess
    let broker: Simulation.Broker
}

extension Simulation {
    /// Makes a client that is not connected yet, in a process of its own.
    ///
    /// - `change`: sets what else it is to be.
    public func client(
        _ identifier: String, of broker: Broker, _ change: (inout ClientSettings) -> Void = { _ in }
    ) throws(ClientError) -> Client {
        var settings = ClientSettings(server: broker.address, clientIdentifier: identifier)
        change(&settings)
        let poller = SimulatedPoller(kernel, seed: random.next())
        let chance = Locked(SeededGenerator(seed: random.next()))
        let loop = ClientLoop(
            EventLoop(name: identifier, poller: poller), taskExecutor: executor, clock: clock,
            chance: { chance.withLock { $0.next() } },
            uptimeMilliseconds: { [time] in time.now },
            wallMilliseconds: { [time] in Self.beginningMilliseconds + time.now })
        let client = try Client(settings, loop: loop)
        let process = SimulatedProcess(client.engine, poller)
        (process.stores, openedStores) = (openedStores, [])
        processes.append(process)
        return client
    }

    /// A disk of the simulated machine, for `ClientSettings.store`: commits are on it a while after they were given,
    /// and those that were not are lost when their client crashes.
    public func disk(_ name: String) -> StoreLocation {
        let disk = disks[name] ?? MemoryDisk(name)
        disks[name] = disk
        return .custom { [unowned self] () throws(StoreError) in
            let store = try MemoryStore(disk)
            store.holdsCommits = true
            openedStores.append(store)
            return store
        }
    }

    /// The rows of a disk's table of that name, in no order: what would outlive a crash now.
    package func stored(in table: String, on disk: String) -> [(key: [UInt8], body: [UInt8])] {
        guard let table = StoreTable.allCases.first(where: { "\($0)" == table }) else { return [] }
        return disks[disk]?.rows(of: table).map { ($0.key.bytes, $0.body) } ?? []
    }

    /// The connection of a client breaks behind so many bytes that it sends from now on; if it has none, the next one.
    public func cut(_ client: Client, afterBytes count: Int) { cut(client) { $0.cut(afterSending: count) } }

    /// Cuts the client's connection when it has received so many bytes.
    public func cut(_ client: Client, afterReceiving count: Int) { cut(client) { $0.cut(afterReceiving: count) } }

    private func cut(_ client: Client, _ body: @escaping (Cable) -> Void) {
        guard let process = process(of: client) else { return }
        if let cable = cable(of: client) { body(cable) } else { process.nextCut = body }
    }

    /// Nothing arrives on the client's connection any more, and neither side is told, until `resume`.
    public func stall(_ client: Client) { cable(of: client)?.isStalled = true }

    /// Lets bytes pass again.
    public func resume(_ client: Client) { cable(of: client)?.isStalled = false }

    /// The client's process ends without a word: whoever waits for it waits for ever, and what it has not stored is
    /// lost. What it has sent may arrive or not.
    public func crash(_ client: Client) {
        guard let process = process(of: client) else { return }
        process.isCrashed = true
        for store in process.stores {
            // What was given may have reached the disk, and nobody was told.
            store.complete(Int.random(in: 0...store.heldCount, using: &random))
            store.crash()
        }
        for link in links where link.process === process {
            if random.oneIn(2) { link.cable.breakOff() } else { link.cable.client.close() }
        }
        processes.removeAll { $0 === process }
        deadProcesses.append(process)
    }

    /// 2026, in milliseconds since 1970.
    private static let beginningMilliseconds: UInt64 = 1_767_225_600_000

    private func process(of client: Client) -> SimulatedProcess? { processes.first { $0.loop === client.engine.loop } }

    private func cable(of client: Client) -> Cable? {
        links.last { $0.process.loop === client.engine.loop && !$0.cable.isOver }?.cable
    }

    func address(of broker: Broker) -> ServerAddress {
        .custom("simulated broker") { [unowned self, unowned broker] in try connect(to: broker) }
    }

    /// Called by a client's loop in its turn.
    private func connect(to broker: Broker) throws -> any ByteChannel {
        guard broker.core.downUntil <= time.now, let process = turningProcess else {
            throw SimulationError("connection refused")
        }
        connectionCount += 1
        let (name, number) = (process.loop.events.name, connectionCount)
        let cable = Cable(kernel, server: broker.core.broker.open(), faults: faults, seed: random.next())
        if let tap { cable.tap = { tap(ObservedBytes(client: name, connection: number, isFromClient: $0, bytes: $1)) } }
        process.nextCut.take()?(cable)
        links.append(SimulatedLink(cable: cable, process: process, broker: broker))
        return cable.client
    }
}

/// Bytes that a client has sent, or that have come to it.
package struct ObservedBytes {
    package let client: String
    /// Counted from 1 in the whole simulation.
    package let connection: Int
    package let isFromClient: Bool
    package let bytes: [UInt8]
}

/// The clock of a simulation: it stands still until nothing is left to do at its time.
public struct SimulatedClock: Clock, Sendable {
    /// A time, counted from the beginning of the simulation.
    public struct Instant: InstantProtocol, Sendable {
        /// How long after the simulation's beginning.
        public let sinceBeginning: Duration

        /// The instant so much later.
        public func advanced(by duration: Duration) -> Instant { Instant(sinceBeginning: sinceBeginning + duration) }

        /// How long it is to another instant.
        public func duration(to other: Instant) -> Duration { other.sinceBeginning - sinceBeginning }

        /// Whether one comes before the other.
        public static func < (left: Instant, right: Instant) -> Bool { left.sinceBeginning < right.sinceBeginning }
    }

    let time: SimulatedTime

    /// The instant that it is in the simulation.
    public var now: Instant { Instant(sinceBeginning: .milliseconds(Int64(time.now - SimulatedTime.beginning))) }

    /// A millisecond.
    public var minimumResolution: Duration { .milliseconds(1) }

    /// Waits until the simulation has come to the instant. Throws `CancellationError` when the task is cancelled.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        let (seconds, attoseconds) = deadline.sinceBeginning.components
        let milliseconds = max(0, seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
        try await time.sleep(until: SimulatedTime.beginning + UInt64(milliseconds))
    }
}

/// The time of a simulation, in milliseconds, and those who wait for it.
final class SimulatedTime: Sendable {
    static let beginning: UInt64 = 1_000_000

    private typealias Waiter = UnsafeContinuation<Void, Never>

    private struct State {
        var now = SimulatedTime.beginning
        var sleepers: [(number: Int, deadline: UInt64, continuation: Waiter)] = []
        var lastNumber = 0
        /// Whether the simulation has ended, so that time does not go on.
        var isOver = false
    }

    private let state = Locked(State())

    var now: UInt64 { state.withLock(\.now) }

    /// When the next one wakes.
    var nextDeadline: UInt64? { state.withLock { $0.sleepers.map(\.deadline).min() } }

    func set(_ now: UInt64) { state.withLock { $0.now = max($0.now, now) } }

    /// Wakes who has slept long enough.
    func wakeDue() {
        let due = state.withLock { state in
            let due = state.sleepers.filter { $0.deadline <= state.now }
            state.sleepers.removeAll { $0.deadline <= state.now }
            return due
        }
        for sleeper in due.sorted(by: { ($0.deadline, $0.number) < ($1.deadline, $1.number) }) { sleeper.continuation.resume() }
    }

    /// The simulation has ended: wakes all who sleep. Who goes to sleep from now on is woken by the next call. Returns
    /// whether anybody slept.
    func wakeAll() -> Bool {
        let sleepers = state.withLock { state in
            state.isOver = true
            defer { state.sleepers = [] }
            return state.sleepers
        }
        for sleeper in sleepers { sleeper.continuation.resume() }
        return !sleepers.isEmpty
    }

    /// Throws `CancellationError` when the task is cancelled, or when the simulation has ended.
    func sleep(until deadline: UInt64) async throws {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        await withTaskCancellationHandler {
            await withUnsafeContinuation { (continuation: Waiter) in
                let mustWait = state.withLock { state in
                    if Task.isCancelled { return false }
                    state.sleepers.append((number, deadline, continuation))
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        } onCancel: {
            let found = state.withLock { state in
                state.sleepers.firstIndex { $0.number == number }.map { state.sleepers.remove(at: $0).continuation }
            }
            found?.resume()
        }
        try Task.checkCancellation()
        if state.withLock(\.isOver) { throw CancellationError() }
    }
}
