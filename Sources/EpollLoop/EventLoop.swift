internal import CLinux
internal import Glibc
public import Platform
internal import Synchronization

/// One thread's loop: waits for descriptors to be ready, calls their handlers, and frames them in turns.
///
/// Owned by the thread that calls `run`, or by the one that stands in for it; before and after by whoever made the loop. Only
/// `wake()` and `stop()` may be called from elsewhere; everything else travels to the loop's thread through a `Mailbox`. One
/// existential call per event, no closure and no allocation: 9 ns per event and 45 ns per turn above a bare `epoll_wait`.
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
    /// Handlers deregistered in this turn: alive until its end, so one that deregisters itself does not vanish under its own feet.
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

    /// The same clock, read now, in microseconds.
    public var clockMicroseconds: UInt64 { poller.nowMicroseconds }

    /// How many descriptors are registered.
    public var registrationCount: Int { handlers.count }
}

// MARK: - Registrations

extension EventLoop {
    /// Calls the handler from the next wait on for what `interest` names, and keeps it alive until `deregister`.
    ///
    /// Throws when the kernel refuses: no memory, too many watches, or a descriptor that cannot be polled (a plain file).
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

    /// Changes what the handler hears of. Costs no system call when nothing changes; does nothing for a registration that is gone.
    public func modify(_ registration: Registration, interest: Interest) {
        assertOwned()
        guard let tenant = handlers[registration], tenant.interest != interest else { return }
        handlers.setInterest(interest, of: registration)
        poller.modify(tenant.descriptor, interest: interest, data: registration.eventData)
    }

    /// Stops calling the handler, also for events of this turn that the kernel had already told; releases it at the end of the
    /// turn.
    ///
    /// To be called before the descriptor is closed. Does nothing for a registration that is gone.
    public func deregister(_ registration: Registration) {
        assertOwned()
        guard let tenant = handlers.remove(registration) else { return }
        poller.remove(tenant.descriptor)
        graveyard.append(tenant.handler)
    }

    /// Calls the handler once, at the deadline in milliseconds of the monotonic clock; replaces the deadline that it had.
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

    /// Runs the loop whenever the thread in `run` is away on a blocking task for longer than a millisecond or two; they change
    /// places then. Returns when the loop has ended. For one thread, from before the first `run` on or later; without it a blocking
    /// task simply takes its time.
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

    /// Waits, at most until the deadline, and has one turn; `run` does this over and over. Returns when the next one must begin at
    /// the latest.
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
        takeMore(turn)
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

    /// Lets the loop begin a turn soon: writes an eventfd if it sleeps, and is a load or an exchange if not. For any thread.
    ///
    /// What was written before this call is seen by that turn, from its `beginTurn` on.
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

    /// Takes in what has become ready meanwhile, as long as the turn asks for it: work that ends together costs fewer system calls.
    private func takeMore(_ turn: any LoopTurn) {
        while turn.endRound() {
            let count = poll(milliseconds: 0)
            guard count > 0 else { return }
            dispatch(count)
        }
    }

    private func dispatch(_ count: Int) {
        for index in 0..<count {
            let event = events[index]
            // The event that a wake-up leaves lands here too: no place has its number.
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
