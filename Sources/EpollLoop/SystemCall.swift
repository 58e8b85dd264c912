internal import CLinux
package import Glibc

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

/// Every system call of this target and of Transports.
///
/// A call that a signal interrupts is made again; "not now" (EAGAIN) is a value; EBADF and EFAULT are mistakes of ours, after which
/// bytes could reach the wrong socket, and trap; everything else is a `SystemError`, thrown or as a value.
package enum SystemCall {
    /// What a call on a non-blocking descriptor came to.
    package enum Outcome {
        /// The kernel's answer: a count of bytes, or a new descriptor.
        case done(Int)
        case wouldBlock
        case failed(SystemError)
    }

    /// The numbers of errors that a caller tells apart.
    package enum ErrorNumber {
        package static let inProgress = EINPROGRESS
        package static let addressInUse = EADDRINUSE
        package static let addressNotAvailable = EADDRNOTAVAIL
        package static let familyNotSupported = EAFNOSUPPORT

        /// The process or the system has no descriptor left.
        package static let descriptorsExhausted: [Int32] = [EMFILE, ENFILE]
        /// The system has no memory for another socket.
        package static let memoryExhausted: [Int32] = [ENOBUFS, ENOMEM]
        /// A connection was gone, or refused by the network, before it could be accepted: accept(2) names these as its alone.
        package static let connectionGone: [Int32] = [
            ECONNABORTED, EPROTO, EPERM, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH,
            ETIMEDOUT, ECONNRESET,
        ]
    }

    /// Makes the call until no signal interrupts it.
    @inline(__always)
    static func outcome<Answer: SignedInteger>(_ operation: StaticString, _ call: () -> Answer) -> Outcome {
        while true {
            let answer = call()
            if answer >= 0 { return .done(Int(answer)) }
            let number = errno
            switch number {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case EBADF, EFAULT: trap(SystemError(errno: number, operation: operation))
            default: return .failed(SystemError(errno: number, operation: operation))
            }
        }
    }

    /// Makes a call for which "not now" is a failure like any other.
    @inline(__always) @discardableResult
    static func value<Answer: SignedInteger>(
        _ operation: StaticString, _ call: () -> Answer
    ) throws(SystemError) -> Int {
        switch outcome(operation, call) {
        case .done(let value): return value
        case .wouldBlock: throw SystemError(errno: EAGAIN, operation: operation)
        case .failed(let error): throw error
        }
    }

    /// Makes a call that can only fail by a mistake of ours.
    @inline(__always) @discardableResult
    private static func certain<Answer: SignedInteger>(_ operation: StaticString, _ call: () -> Answer) -> Int {
        switch outcome(operation, call) {
        case .done(let value): return value
        case .wouldBlock: trap(SystemError(errno: EAGAIN, operation: operation))
        case .failed(let error): trap(error)
        }
    }

    /// Says in release builds too which call it was, which a precondition does not.
    @inline(never)
    private static func trap(_ error: SystemError) -> Never {
        fatalError(error.description)
    }
}

// MARK: - Descriptors

extension SystemCall {
    /// Closes for good: Linux has let go of the number even when the call was interrupted, so it is never made twice.
    package static func close(_ descriptor: FileDescriptor) {
        if Glibc.close(descriptor.rawValue) < 0, errno == EBADF { trap(SystemError(errno: EBADF, operation: "close")) }
    }

    /// Opens a file that exists. `flags` such as O_RDONLY; always close-on-exec.
    package static func open(_ path: String, flags: Int32) throws(SystemError) -> FileDescriptor {
        FileDescriptor(rawValue: Int32(try value("open") { linux_open(path, flags) }))
    }

}

extension SystemCall {
    /// Makes an inherited descriptor non-blocking and close-on-exec; false if there is no such descriptor.
    package static func adopt(_ descriptor: FileDescriptor) -> Bool {
        let flags = fcntl(descriptor.rawValue, F_GETFL)
        return flags >= 0 && fcntl(descriptor.rawValue, F_SETFL, flags | O_NONBLOCK) == 0
            && fcntl(descriptor.rawValue, F_SETFD, FD_CLOEXEC) == 0
    }
}

// MARK: - epoll, eventfd, clock

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

    static func monotonicMilliseconds() -> UInt64 {
        let time = monotonicTime()
        return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000
    }

    static func monotonicMicroseconds() -> UInt64 {
        let time = monotonicTime()
        return UInt64(time.tv_sec) * 1_000_000 + UInt64(time.tv_nsec) / 1000
    }

    private static func monotonicTime() -> timespec {
        var time = timespec()
        certain("clock_gettime") { clock_gettime(CLOCK_MONOTONIC, &time) }
        return time
    }
}

// MARK: - Threads, processors, limits, random bytes

extension SystemCall {
    /// Names the calling thread; the kernel keeps 15 bytes.
    static func nameThread(_ name: String) {
        var short = name
        while short.utf8.count > 15 { short.removeLast() }
        _ = linux_name_thread(short)
    }

    /// Lets the calling thread wait for its turn when it is woken, in place of pushing aside the thread that runs. Not if the operator has
    /// given it a policy other than the ordinary one.
    static func scheduleInBatches() {
        // Only a filter of system calls could forbid it: the thread stays an ordinary one then.
        _ = linux_schedule_in_batches()
    }

    /// Starts a thread. It owns `context` from then on.
    static func startThread(
        _ context: UnsafeMutableRawPointer, _ body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?
    ) throws(SystemError) -> pthread_t {
        var thread = pthread_t()
        let number = pthread_create(&thread, nil, body, context)
        guard number == 0 else { throw SystemError(errno: number, operation: "pthread_create") }
        return thread
    }

    static func usableProcessors() -> Int {
        max(1, Int(linux_usable_processors()))
    }

    /// The soft and the hard limit on open descriptors.
    static func descriptorLimit() -> rlimit {
        var limit = rlimit()
        certain("getrlimit") { getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) }
        return limit
    }

    static func setDescriptorLimit(_ limit: rlimit) throws(SystemError) {
        var limit = limit
        try value("setrlimit") { setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) }
    }

    /// Fills the buffer from the kernel's pool.
    static func fillRandom(_ buffer: UnsafeMutableRawBufferPointer) {
        var rest = UnsafeMutableRawBufferPointer(rebasing: buffer[...])
        while let start = rest.baseAddress, !rest.isEmpty {
            let count = min(rest.count, 256)
            certain("getrandom") { linux_random(start, count) }
            rest = UnsafeMutableRawBufferPointer(rebasing: rest[count...])
        }
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

// MARK: - Sockets

extension SystemCall {
    package static func createSocket(family: Int32) throws(SystemError) -> FileDescriptor {
        FileDescriptor(rawValue: Int32(try value("socket") { linux_stream_socket(family) }))
    }

    package static func setOption(
        _ socket: FileDescriptor, level: Int32, option: Int32, to setting: Int32
    ) throws(SystemError) {
        var setting = setting
        try value("setsockopt") {
            setsockopt(socket.rawValue, level, option, &setting, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    package static func option(_ socket: FileDescriptor, level: Int32, option: Int32) throws(SystemError) -> Int32 {
        var setting: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        try value("getsockopt") { getsockopt(socket.rawValue, level, option, &setting, &length) }
        return setting
    }

    package static func bind(
        _ socket: FileDescriptor, to address: sockaddr_storage, length: socklen_t
    ) throws(SystemError) {
        var address = address
        try value("bind") { linux_bind(socket.rawValue, &address, length) }
    }

    package static func listen(_ socket: FileDescriptor, backlog: Int32) throws(SystemError) {
        try value("listen") { Glibc.listen(socket.rawValue, backlog) }
    }

    /// Begins to connect. Returns true when it is done already, false when the socket will become writable.
    package static func connect(
        _ socket: FileDescriptor, to address: sockaddr_storage, length: socklen_t
    ) throws(SystemError) -> Bool {
        var address = address
        // Not made again after a signal: the attempt goes on, as when it had not been interrupted.
        if linux_connect(socket.rawValue, &address, length) == 0 { return true }
        let number = errno
        guard number == EINPROGRESS || number == EINTR else { throw SystemError(errno: number, operation: "connect") }
        return false
    }

    package static func localAddress(_ socket: FileDescriptor) throws(SystemError) -> (sockaddr_storage, socklen_t) {
        var address = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        try value("getsockname") { linux_socket_name(socket.rawValue, &address, &length) }
        return (address, length)
    }

    /// Accepts one connection, non-blocking and close-on-exec; its descriptor is the outcome's value.
    package static func accept(_ socket: FileDescriptor, peer: inout sockaddr_storage) -> Outcome {
        outcome("accept") { linux_accept(socket.rawValue, &peer) }
    }

    /// Receives into the buffer; 0 bytes are the end of the stream.
    package static func receive(_ socket: FileDescriptor, into buffer: UnsafeMutableRawBufferPointer) -> Outcome {
        outcome("recv") { linux_receive(socket.rawValue, buffer.baseAddress, buffer.count) }
    }

    /// Sends one run of bytes; raises no SIGPIPE.
    package static func send(_ socket: FileDescriptor, _ bytes: UnsafeRawPointer, count: Int) -> Outcome {
        outcome("send") { linux_send(socket.rawValue, bytes, count) }
    }

    /// Sends at most 1024 runs of bytes with one call; raises no SIGPIPE.
    package static func send(_ socket: FileDescriptor, _ slices: UnsafePointer<iovec>, sliceCount: Int) -> Outcome {
        outcome("sendmsg") { linux_send_vector(socket.rawValue, slices, sliceCount) }
    }

    /// Ends the sending direction. A peer that has gone already is no error.
    package static func shutdownSending(_ socket: FileDescriptor) {
        _ = outcome("shutdown") { shutdown(socket.rawValue, Int32(SHUT_WR)) }
    }
}
