internal import CLinux
internal import Glibc
internal import Platform

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

    /// Waits for events, -1 for ever. An interrupted wait is over with no event: the caller knows how much of its time is left.
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
