internal import Platform
internal import Synchronization

/// How other threads wake a loop: a flag that remembers a ring, so that the loop's poller is woken only when it sleeps.
///
/// ```
///             prepareToSleep                ring (wakes the poller)
///    awake ──────────────────► asleep ─────────────────────────────────┐
///     │ ▲ ▲                      │                                     │
///     │ │ └──────────────────────┘ answer (an event or the deadline)   │
///     │ └───────────────────────────────────────────┐                  │
///     │ ring                                        │ answer           │
///     └────────────────────────► rung ◄─────────────┼──────────────────┘
///                                 └─────────────────┘
/// ```
/// awake: a turn runs, or the loop keeps its busy wait, and whoever rings leaves `rung` behind. asleep: the loop is about to wait,
/// or waits. rung: there is something to look at, the next wait returns at once.
///
/// No ring is lost: `prepareToSleep` fails when a ring came since the last `answer`, so nobody has to look into the mailboxes again
/// between the flag and the wait. Whoever posts writes first (message, then ring) and the loop reads last (answer, then
/// drain); all four are sequentially consistent, so either the ring finds the state after the answer and changes it, or
/// the drain finds the message. Ringing a loop that has been rung is one load.
struct Doorbell: ~Copyable, Sendable {
    private enum State: UInt8, AtomicRepresentable {
        case awake
        case asleep
        case rung
    }

    private let state = Atomic<State>(.awake)

    /// Keeps the loop from sleeping. Returns whether it sleeps already, and has to be woken. For any thread.
    func ring() -> Bool {
        if state.load(ordering: .sequentiallyConsistent) == .rung { return false }
        return state.exchange(.rung, ordering: .sequentiallyConsistent) == .asleep
    }

    /// Whether somebody rang since the last `answer`. For the loop.
    var isRung: Bool { state.load(ordering: .relaxed) == .rung }

    /// Says that the loop is going to wait. False when somebody rang: then it must not sleep.
    func prepareToSleep() -> Bool {
        state.compareExchange(expected: .awake, desired: .asleep, ordering: .sequentiallyConsistent).exchanged
    }

    /// Says that the loop is back; what was written before a ring is seen from here on.
    func answer() {
        if state.load(ordering: .sequentiallyConsistent) == .awake { return }
        _ = state.exchange(.awake, ordering: .sequentiallyConsistent)
    }
}
