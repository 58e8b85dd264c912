package import CLinux
internal import Glibc

/// What an event loop needs of the kernel: which descriptors are ready, a way to sleep until one is, and the time.
///
/// `EpollPoller` is the kernel's; tests put another in its place, on a simulated clock, and the loop's own code runs
/// all the same. Called once for each system call that it stands for, never for each message.
///
/// Belongs to the thread that runs the loop, save `wake`.
package protocol Poller: AnyObject, Sendable {
    /// Reports from now on what the descriptor is ready for, at each wait as long as it is so; `data` comes with each
    /// event.
    ///
    /// Throws when the kernel refuses: no memory, too many watches, or a descriptor that cannot be polled.
    func add(_ descriptor: FileDescriptor, interest: Interest, data: UInt64) throws(SystemError)

    /// Changes what is reported. Errors and hang-ups are in any case.
    func modify(_ descriptor: FileDescriptor, interest: Interest, data: UInt64)

    /// Reports nothing more of the descriptor.
    func remove(_ descriptor: FileDescriptor)

    /// Waits until something is ready, `wake` is called, or the time is up: -1 for ever, 0 not at all. Returns how many
    /// events were written to the front of `events`; one of them may be of nobody, with the data `UInt64.max`.
    func wait(into events: UnsafeMutableBufferPointer<ReadyRecord>, timeoutMilliseconds: Int32) -> Int

    /// Ends a wait. For any thread.
    func wake()

    /// Sleeps, whatever becomes ready.
    func pause(microseconds: UInt32)

    /// The monotonic clock.
    var nowMilliseconds: UInt64 { get }

    /// The loop's clock in microseconds.
    var nowMicroseconds: UInt64 { get }
}

/// One event: what a descriptor is ready for, and the data that it was added with. In the kernel's form, so that
/// nothing is translated.
package typealias ReadyRecord = linux_ready_event

extension ReadyRecord {
    package init(_ ready: ReadyEvents, data: UInt64) { self.init(events: ready.rawValue, data: data) }
}

/// Hears of a descriptor's events. Called on the loop's thread, at most once per turn and registration.
public protocol EventHandler: AnyObject {
    /// Does what the events allow, without blocking.
    ///
    /// Events are level-triggered: what is left undone is told again in the next turn.
    func ready(_ events: ReadyEvents)
}

/// Is called by the loop at the time that it asked for.
public protocol AlarmHandler: AnyObject {
    /// The time has come. Called on the loop's thread, between the handlers and the end of the turn.
    func alarmRang()
}

/// What a handler wants to hear of. Errors and hang-ups are told in any case, even to an empty interest.
public struct Interest: OptionSet, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    public static let readable = Interest(rawValue: 0x1)
    public static let writable = Interest(rawValue: 0x4)
}

/// What a descriptor is ready for. The bits are epoll's own, so nothing is translated on the way.
public struct ReadyEvents: OptionSet, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// A read gives bytes, the end of the stream, or the error; on a listener an accept gives a connection.
    public static let readable = ReadyEvents(rawValue: 0x1)
    /// A write takes at least some bytes, or gives the error; a connection in the making has been made or refused.
    public static let writable = ReadyEvents(rawValue: 0x4)
    /// The socket failed. Reported whatever the interest, at each turn until the descriptor is deregistered.
    public static let error = ReadyEvents(rawValue: 0x8)
    /// Both directions are closed. Reported whatever the interest, at each turn until the descriptor is deregistered.
    public static let hangUp = ReadyEvents(rawValue: 0x10)
}

/// The handlers that are registered on a loop, by slot and generation.
///
/// Slots are reused, newest first; a slot's generation is odd while it has a tenant and even while it is free, so
/// `count of tenants == count of odd generations`. Growth is the array's: amortised constant.
struct HandlerTable {
    /// A registered descriptor: its handler, and what that wants to hear of.
    struct Tenant {
        let handler: any EventHandler
        let descriptor: FileDescriptor
        var interest: Interest
    }

    private struct Slot {
        var generation: UInt32
        var tenant: Tenant?
    }

    private var slots: ContiguousArray<Slot> = []
    private var free: ContiguousArray<UInt32> = []

    /// How many descriptors are registered.
    var count: Int { slots.count - free.count }

    /// The tenant that the registration means, nil when it has left.
    subscript(registration: Registration) -> Tenant? {
        let index = Int(registration.index)
        guard index < slots.count, slots[index].generation == registration.generation else { return nil }
        return slots[index].tenant
    }

    /// Gives the tenant a slot.
    mutating func insert(_ tenant: Tenant) -> Registration {
        if let index = free.popLast() {
            let slot = Int(index)
            slots[slot].generation &+= 1
            slots[slot].tenant = tenant
            return Registration(index: index, generation: slots[slot].generation)
        }
        let index = UInt32(slots.count)
        slots.append(Slot(generation: 1, tenant: tenant))
        return Registration(index: index, generation: 1)
    }

    /// Notes the interest of a tenant that is there.
    mutating func setInterest(_ interest: Interest, of registration: Registration) {
        slots[Int(registration.index)].tenant?.interest = interest
    }

    /// Takes the tenant's slot away and returns the tenant, nil when it had left before.
    mutating func remove(_ registration: Registration) -> Tenant? {
        guard let tenant = self[registration] else { return nil }
        let slot = Int(registration.index)
        slots[slot].tenant = nil
        slots[slot].generation &+= 1
        free.append(registration.index)
        return tenant
    }
}

/// A slot in a loop's table of handlers, and which of its tenants is meant.
///
/// Travels in `epoll_event.data`. The generation grows when the slot is given up, so an event that the kernel had
/// queued for an earlier tenant (or for an earlier socket of the same number) meets a newer generation and is dropped.
public struct Registration: Hashable, Sendable {
    /// The slot in the table.
    public let index: UInt32
    /// The tenant: even generations never stand for one.
    public let generation: UInt32

    init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }

    /// As it travels through the kernel: generation above index.
    init(eventData: UInt64) {
        self.init(index: UInt32(truncatingIfNeeded: eventData), generation: UInt32(truncatingIfNeeded: eventData >> 32))
    }

    /// The form that `init(eventData:)` reads.
    var eventData: UInt64 {
        UInt64(generation) << 32 | UInt64(index)
    }
}

/// The bits that a descriptor is registered with.
struct EpollEvents {
    let rawValue: UInt32

    init(_ interest: Interest) {
        rawValue = interest.rawValue
    }

    private init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// One event for each time that the descriptor becomes readable.
    static let edgeTriggeredReadable = EpollEvents(rawValue: Interest.readable.rawValue | 1 << 31)
}

// MARK: - epoll, eventfd

extension SystemCall {
    static func createEpoll() throws(SystemError) -> FileDescriptor {
        FileDescriptor(rawValue: Int32(try value("epoll_create") { linux_epoll_create() }))
    }

    static func createEvent() throws(SystemError) -> FileDescriptor {
        FileDescriptor(rawValue: Int32(try value("eventfd") { linux_event_create() }))
    }

    /// Adds 1 to an eventfd. A counter that is full says the same as one that is not: it is readable.
    static func signalEvent(_ event: FileDescriptor) {
        _ = outcome("eventfd_write") { linux_event_signal(event.rawValue) }
    }

    static func add(
        _ descriptor: FileDescriptor, to epoll: FileDescriptor, events: EpollEvents, data: UInt64
    ) throws(SystemError) {
        try value("epoll_ctl") {
            linux_epoll_control(epoll.rawValue, Int32(linux_epoll_add), descriptor.rawValue, events.rawValue, data)
        }
    }

    /// Traps when the descriptor is not registered: it was closed first.
    static func modify(_ descriptor: FileDescriptor, in epoll: FileDescriptor, events: EpollEvents, data: UInt64) {
        certain("epoll_ctl") {
            linux_epoll_control(epoll.rawValue, Int32(linux_epoll_modify), descriptor.rawValue, events.rawValue, data)
        }
    }

    /// Traps when the descriptor is not registered: it was closed first.
    static func remove(_ descriptor: FileDescriptor, from epoll: FileDescriptor) {
        certain("epoll_ctl") { linux_epoll_control(epoll.rawValue, Int32(linux_epoll_remove), descriptor.rawValue, 0, 0) }
    }

    /// Waits for events, -1 for ever. An interrupted wait is over with no event: the caller knows how much of its time
    /// is left.
    static func wait(
        _ epoll: FileDescriptor, into events: UnsafeMutablePointer<ReadyRecord>, capacity: Int, timeoutMilliseconds: Int32
    ) -> Int {
        let count = linux_epoll_wait(epoll.rawValue, events, Int32(capacity), timeoutMilliseconds)
        if count >= 0 { return Int(count) }
        let number = errno
        guard number == EINTR else { trap(SystemError(errno: number, operation: "epoll_wait")) }
        return 0
    }
}

// MARK: - Signals

extension SystemCall {
    /// Blocks the signals in the calling thread and gives them through a descriptor.
    static func createSignalDescriptor(_ signals: [Int32]) throws(SystemError) -> FileDescriptor {
        FileDescriptor(rawValue: Int32(try value("signalfd") { linux_signal_create(signals, signals.count) }))
    }

    /// Takes one pending signal, nil when there is none.
    static func readSignal(_ descriptor: FileDescriptor) -> Int32? {
        guard case .done(let signal) = outcome("read", { linux_signal_read(descriptor.rawValue) }) else { return nil }
        return Int32(signal)
    }

    static func ignoreSignal(_ signal: Int32) {
        _ = Glibc.signal(signal, SIG_IGN)
    }
}
