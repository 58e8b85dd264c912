internal import Platform

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

    /// The simulation has ended: wakes all who sleep. Who goes to sleep from now on is woken by the next call. Returns whether anybody slept.
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
