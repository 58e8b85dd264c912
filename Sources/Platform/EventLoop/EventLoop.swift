internal import CLinux
internal import Glibc
internal import Synchronization

/// One thread's loop: waits for descriptors to be ready, calls their handlers, and frames them in turns.
///
/// Owned by the thread that calls `run`, or by the one that stands in for it; before and after by whoever made the
/// loop. Only `wake()` and `stop()` may be called from elsewhere; everything else travels to the loop's thread through
/// a `Mailbox`. One existential call per event, no closure and no allocation: 9 ns per event and 45 ns per turn above a
/// bare `epoll_wait`.
///
/// A channel moves between loops by `deregister` on the one, a message, and `register` on the other.
public final class EventLoop: @unchecked Sendable {
    /// The name that the operator reads.
    public let name: String

    /// 256 KiB to read into, for whoever runs the loop's turns.
    public let scratch: UnsafeMutableRawBufferPointer

    private let poller: any Poller
    private let doorbell = Doorbell()
    private let ownerSlot = OwnerSlot()
    private let events: UnsafeMutableBufferPointer<ReadyRecord>
    private let stopping = Atomic<Bool>(false)
    /// The thread in the owner slot, or the last one there; 0 when the loop does not run.
    private let owner = Atomic<UInt>(0)

    private var handlers = HandlerTable()
    private var alarms = AlarmList()
    /// Handlers deregistered in this turn: alive until its end, so one that deregisters itself does not vanish under
    /// its own feet.
    private var graveyard: ContiguousArray<any EventHandler> = []
    private var now: UInt64
    private var busyWait = BusyWait(processors: ProcessorCount.usable())

    /// Throws when the kernel has no descriptor or memory left.
    public convenience init(name: String) throws(SystemError) {
        self.init(name: name, poller: try EpollPoller())
    }

    /// A loop on another kernel than the machine's.
    package init(name: String, poller: any Poller) {
        self.name = name
        self.poller = poller
        scratch = .allocate(byteCount: Limits.scratchBytes, alignment: Self.pageBytes)
        events = .allocate(capacity: Limits.eventsPerTurn)
        now = poller.nowMilliseconds
    }

    deinit {
        events.deallocate()
        scratch.deallocate()
    }

    /// The monotonic clock at the beginning of this turn, in milliseconds.
    public var nowMilliseconds: UInt64 { now }

    /// The loop's clock in microseconds, read anew, not as the turn began.
    public var clockMicroseconds: UInt64 { poller.nowMicroseconds }

    /// How many descriptors are registered.
    public var registrationCount: Int { handlers.count }
}

// MARK: - Registrations

extension EventLoop {
    /// Calls the handler from the next wait on for what `interest` names, and keeps it alive until `deregister`.
    ///
    /// Throws when the kernel refuses: no memory, too many watches, or a descriptor that cannot be polled (a plain
    /// file).
    public func register(
        _ fd: Int32, for interest: Interest, handler: any EventHandler
    ) throws(SystemError) -> Registration {
        assertOwned()
        let descriptor = FileDescriptor(rawValue: fd)
        let registration = handlers.insert(.init(handler: handler, descriptor: descriptor, interest: interest))
        do throws(SystemError) {
            try poller.add(descriptor, interest: interest, data: registration.eventData)
        } catch {
            _ = handlers.remove(registration)
            throw error
        }
        return registration
    }

    /// Changes what the handler hears of. Costs no system call when nothing changes; does nothing for a registration
    /// that is gone.
    public func modify(_ registration: Registration, interest: Interest) {
        assertOwned()
        guard let tenant = handlers[registration], tenant.interest != interest else { return }
        handlers.setInterest(interest, of: registration)
        poller.modify(tenant.descriptor, interest: interest, data: registration.eventData)
    }

    /// Stops calling the handler, also for events of this turn that the kernel had already told; releases it at the end
    /// of the turn.
    ///
    /// To be called before the descriptor is closed. Does nothing for a registration that is gone.
    public func deregister(_ registration: Registration) {
        assertOwned()
        guard let tenant = handlers.remove(registration) else { return }
        poller.remove(tenant.descriptor)
        graveyard.append(tenant.handler)
    }

    /// Calls the handler once, at the deadline in milliseconds of the monotonic clock; replaces the deadline that it
    /// had.
    ///
    /// Linear in the number of alarms: for the few that belong to the loop itself, such as a listener's pause.
    public func setAlarm(at deadline: UInt64, for handler: any AlarmHandler) {
        assertOwned()
        alarms.set(at: deadline, for: handler)
    }

    /// Forgets the handler's alarm, if it has one.
    public func cancelAlarm(for handler: any AlarmHandler) {
        assertOwned()
        alarms.cancel(for: handler)
    }
}

// MARK: - Turns

extension EventLoop {
    /// Turns until `stop()`. The calling thread owns the loop meanwhile. The first turn does not wait.
    public func run(_ turn: any LoopTurn) {
        let previous = owner.exchange(Self.currentThread, ordering: .acquiringAndReleasing)
        precondition(previous == 0, "a loop is run by one thread at a time")
        ownerSlot.open()
        runAsOwner(turn)
        while ownerSlot.standIn() { runAsOwner(turn) }
    }

    /// Runs the loop whenever the thread in `run` is away on a blocking task for longer than a millisecond or two; they
    /// change places then. Returns when the loop has ended. For one thread, from before the first `run` on or later;
    /// without it a blocking task simply takes its time.
    public func standIn(_ turn: any LoopTurn) {
        while ownerSlot.standIn() { runAsOwner(turn) }
    }

    /// Turns until the loop ends, or until somebody else sits here after a blocking task.
    private func runAsOwner(_ turn: any LoopTurn) {
        takeOwnership()
        var deadline: UInt64? = 0
        while !stopping.load(ordering: .acquiring) {
            deadline = self.turn(turn, until: deadline)
            if let blockingTask = turn.takeBlockingTask() {
                let number = ownerSlot.leave()
                blockingTask()
                guard ownerSlot.comeBack(number) else { return }
                busyWait.cameBack()
            }
        }
        stopping.store(false, ordering: .releasing)
        owner.store(0, ordering: .releasing)
        ownerSlot.close()
    }

    /// Waits, at most until the deadline, and has one turn; `run` does this over and over. Returns when the next one
    /// must begin at the latest.
    package func turn(_ turn: any LoopTurn, until deadline: UInt64?) -> UInt64? { work(turn, wait(until: deadline)) }

    /// Whether somebody has rung since the last wait: the next one will not sleep.
    package var isRung: Bool { doorbell.isRung }

    /// Whether the loop ends when its turn is complete.
    package var isStopping: Bool { stopping.load(ordering: .acquiring) }

    /// One turn, for that many events. Returns when the next one must begin at the latest.
    private func work(_ turn: any LoopTurn, _ count: Int) -> UInt64? {
        now = poller.nowMilliseconds
        turn.beginTurn(now: now)
        dispatch(count)
        dispatchMore(turn)
        while let handler = alarms.popDue(now: now) { handler.alarmRang() }
        let deadline = turn.endOfTurn(now: now)
        // One by one: a handler's deinit may call the loop.
        while graveyard.popLast() != nil {}
        return earliest(deadline, alarms.next)
    }

    /// Lets `run` return when its turn is complete, or at once when it has not begun. For any thread.
    public func stop() {
        stopping.store(true, ordering: .releasing)
        wake()
    }

    /// Lets the loop begin a turn soon: writes an eventfd if it sleeps, and is a load or an exchange if not. For any
    /// thread.
    ///
    /// All that other threads have written before this call is seen by that turn, from its `beginTurn` on.
    public func wake() {
        if doorbell.ring() { poller.wake() }
    }

    /// Holds the loop up for a moment. For the loop's own thread.
    public func pause(microseconds: UInt32) { poller.pause(microseconds: microseconds) }

    /// Waits for events, at most until the deadline. Returns how many came.
    private func wait(until deadline: UInt64?) -> Int {
        let timeout = timeoutMilliseconds(until: deadline)
        defer { doorbell.answer() }
        guard timeout != 0, busyWait.isDue, !doorbell.isRung else { return sleep(milliseconds: timeout) }
        let start = poller.nowMicroseconds
        let count = stayAwake(until: start + busyWait.begin()) ?? sleep(milliseconds: timeout)
        busyWait.end(afterMicroseconds: poller.nowMicroseconds - start)
        return count
    }

    /// Waits for events asleep, unless the timeout is 0 or somebody has rung.
    private func sleep(milliseconds: Int32) -> Int {
        guard milliseconds != 0, doorbell.prepareToSleep() else { return poll(milliseconds: 0) }
        return poll(milliseconds: milliseconds)
    }

    /// Waits for events awake; nil if none came in time or somebody rang.
    private func stayAwake(until end: UInt64) -> Int? {
        while poller.nowMicroseconds < end, !doorbell.isRung {
            let count = poll(milliseconds: 0)
            if count > 0 { return count }
        }
        return nil
    }

    private func poll(milliseconds: Int32) -> Int {
        poller.wait(into: events, timeoutMilliseconds: milliseconds)
    }

    /// Takes in what has become ready meanwhile, as long as the turn asks for it: work that ends together costs fewer
    /// system calls.
    private func dispatchMore(_ turn: any LoopTurn) {
        while turn.endRound() {
            let count = poll(milliseconds: 0)
            guard count > 0 else { return }
            dispatch(count)
        }
    }

    private func dispatch(_ count: Int) {
        for index in 0..<count {
            let event = events[index]
            // The event that a wake-up leaves lands here too: no slot has its number.
            guard let tenant = handlers[Registration(eventData: event.data)] else { continue }
            tenant.handler.ready(ReadyEvents(rawValue: event.events))
        }
    }

    /// epoll's timeout: -1 for ever, 0 for a deadline that has passed. The clock is read again, for the turn took time.
    private func timeoutMilliseconds(until deadline: UInt64?) -> Int32 {
        guard let deadline else { return -1 }
        if deadline == 0 { return 0 }
        let now = poller.nowMilliseconds
        return deadline <= now ? 0 : Int32(clamping: deadline - now)
    }

    private func earliest(_ left: UInt64?, _ right: UInt64?) -> UInt64? {
        guard let left, let right else { return left ?? right }
        return min(left, right)
    }

    /// The calling thread runs the loop from here on.
    private func takeOwnership() { owner.store(Self.currentThread, ordering: .relaxed) }

    private func assertOwned() {
        assert(
            owner.load(ordering: .relaxed) == 0 || owner.load(ordering: .relaxed) == Self.currentThread,
            "a running loop is touched by its own thread only")
    }

    private static var currentThread: UInt { UInt(pthread_self()) }

    private static let pageBytes = 4096
}

/// Whether a loop that is back from a blocking task waits awake for a moment before it sleeps: whoever waited for the
/// blocking task often speaks again at once, and waking a core that has gone to sleep costs more than what there is to
/// do then.
///
/// It is kept as long as somebody spoke soon the last time, awake or asleep; so one who waits for each answer pays for
/// it, and saves more, and one who speaks now and then pays nothing.
struct BusyWait {
    /// How long the loop waits awake at most: the other's core may have to wake first.
    static let awakeMicrosecondsMax: UInt64 = 80
    private static let soonMicroseconds: UInt64 = 200

    private let isAllowed: Bool
    private var isPromising = false
    private(set) var isDue = false

    /// - Parameter processors: with one, the other could not speak meanwhile.
    init(processors: Int) { isAllowed = processors > 1 }

    /// A blocking task is over.
    mutating func cameBack() { isDue = isAllowed }

    /// The loop is about to wait; for how many microseconds it is to do so awake, at most.
    mutating func begin() -> UInt64 {
        isDue = false
        return isPromising ? Self.awakeMicrosecondsMax : 0
    }

    /// Something came.
    mutating func end(afterMicroseconds wait: UInt64) { isPromising = wait <= Self.soonMicroseconds }
}

/// The loop's own few alarms, such as a listener's pause.
///
/// A short array that is searched whole: there are as many as listeners. Sessions' timers are not kept here; they reach
/// the loop as the deadline that `LoopTurn.endOfTurn` returns.
struct AlarmList {
    private var alarms: [(deadline: UInt64, handler: any AlarmHandler)] = []

    /// The earliest deadline in milliseconds, nil when there is none.
    private(set) var next: UInt64?

    /// Rings at the deadline, and no longer at the one that the handler had before.
    mutating func set(at deadline: UInt64, for handler: any AlarmHandler) {
        alarms.removeAll { $0.handler === handler }
        alarms.append((deadline, handler))
        next = alarms.lazy.map(\.deadline).min()
    }

    /// Rings no longer for the handler.
    mutating func cancel(for handler: any AlarmHandler) {
        alarms.removeAll { $0.handler === handler }
        next = alarms.lazy.map(\.deadline).min()
    }

    /// Takes out one alarm that is due, earliest set first; nil when none is.
    mutating func popDue(now: UInt64) -> (any AlarmHandler)? {
        guard let next, next <= now, let index = alarms.firstIndex(where: { $0.deadline <= now }) else { return nil }
        let handler = alarms.remove(at: index).handler
        self.next = alarms.lazy.map(\.deadline).min()
        return handler
    }
}

/// What frames the handlers' work in each turn of a loop. Called on the thread that runs the loop.
///
/// ```
///   wait ──► beginTurn ──► handlers of ready descriptors (at most 256) ──► endRound ──► alarms ──► endOfTurn ──► release what was deregistered ──► wait
///                                  ▲ once more, if that asks for it ◄───────┘
/// ```
public protocol LoopTurn: AnyObject {
    /// The wait is over. `now` is in milliseconds of the monotonic clock and holds for the whole turn.
    ///
    /// Messages that were posted before the wake-up that ended the wait are in their mailboxes.
    func beginTurn(now: UInt64)

    /// The handlers have run. Does what they have left for this moment, and returns whether to look for more ready
    /// descriptors before the turn ends, and call their handlers; that is to be bounded by the answer.
    func endRound() -> Bool

    /// The handlers have run. Returns the time in milliseconds at which the next turn must begin at the latest, nil for
    /// none; a time that has passed, such as 0, lets the loop look for events without sleeping.
    func endOfTurn(now: UInt64) -> UInt64?

    /// Asked after `endOfTurn`: something to be done between two turns that may take a moment, or long. It must not
    /// touch what belongs to the loop, which a stand-in runs meanwhile if it takes long.
    func takeBlockingTask() -> BlockingTask?
}

extension LoopTurn {
    public typealias BlockingTask = @Sendable () -> Void

    public func endRound() -> Bool { false }

    public func takeBlockingTask() -> BlockingTask? { nil }
}

/// The kernel's epoll, and the eventfd by which other threads end its waits.
final class EpollPoller: Poller {
    private let epoll: FileDescriptor
    /// Registered edge-triggered, so each write is one event and nobody needs to read the counter down.
    private let bell: FileDescriptor

    /// Throws when the kernel has no descriptor or memory left.
    init() throws(SystemError) {
        let bell = try SystemCall.createEvent()
        do throws(SystemError) {
            epoll = try SystemCall.createEpoll()
        } catch {
            bell.close()
            throw error
        }
        self.bell = bell
        // Last: from here on a throw runs deinit, which gives everything back.
        try SystemCall.add(bell, to: epoll, events: .edgeTriggeredReadable, data: .max)
    }

    deinit {
        epoll.close()
        bell.close()
    }

    func add(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) throws(SystemError) {
        try SystemCall.add(descriptor, to: epoll, events: EpollEvents(interest), data: data)
    }

    func modify(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) {
        SystemCall.modify(descriptor, in: epoll, events: EpollEvents(interest), data: data)
    }

    func remove(_ descriptor: FileDescriptor) { SystemCall.remove(descriptor, from: epoll) }

    func wait(into events: UnsafeMutableBufferPointer<ReadyRecord>, timeoutMilliseconds: Int32) -> Int {
        guard let start = events.baseAddress else { return 0 }
        return SystemCall.wait(epoll, into: start, capacity: events.count, timeoutMilliseconds: timeoutMilliseconds)
    }

    func wake() { SystemCall.signalEvent(bell) }

    func pause(microseconds: UInt32) { usleep(microseconds) }

    var nowMilliseconds: UInt64 { MonotonicClock.milliseconds() }

    var nowMicroseconds: UInt64 { MonotonicClock.microseconds() }
}

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
/// awake: a turn runs, or the loop keeps its busy wait, and whoever rings leaves `rung` behind. asleep: the loop is
/// about to wait, or waits. rung: there is something to look at, the next wait returns at once.
///
/// No ring is lost: `prepareToSleep` fails when a ring came since the last `answer`, so nobody has to look into the
/// mailboxes again between the flag and the wait. Whoever posts writes first (message, then ring) and the loop reads
/// last (answer, then drain); all four are sequentially consistent, so either the ring finds the state after the answer
/// and changes it, or the drain finds the message. Ringing a loop that has been rung is one load.
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

/// The bounds of an event loop that no option sets.
extension Limits {
    /// Ready descriptors that a turn takes; more wait for the next one, and the kernel tells them round robin.
    static let eventsPerTurn = 256

    /// Bytes of the memory that a loop reads into: it stays in the second-level cache.
    static let scratchBytes = 256 << 10
}
