internal import CLinux
internal import Glibc

/// The rules that every system call keeps, and those calls that concern descriptors, threads and the process. What belongs to one target
/// alone stands there as an extension: epoll in EpollLoop, sockets in Transports.
///
/// A call that a signal interrupts is made again; "not now" (EAGAIN) is a value; EBADF and EFAULT are mistakes of ours, after which
/// bytes could reach the wrong socket, and trap; everything else is a `SystemError`, thrown or as a value.
public enum SystemCall {
    /// What a call on a non-blocking descriptor came to.
    public enum Outcome {
        /// The kernel's answer: a count of bytes, or a new descriptor.
        case done(Int)
        case wouldBlock
        case failed(SystemError)
    }

    /// Makes the call until no signal interrupts it.
    @inlinable @inline(__always)
    public static func outcome<Answer: SignedInteger>(_ operation: StaticString, _ call: () -> Answer) -> Outcome {
        while true {
            let answer = call()
            if answer >= 0 { return .done(Int(answer)) }
            if let failure = failure(of: operation) { return failure }
        }
    }

    /// What the call came to that has just failed; nil if a signal interrupted it.
    @inline(never)
    public static func failure(of operation: StaticString) -> Outcome? {
        let number = errno
        switch number {
        case EINTR: return nil
        case EAGAIN: return .wouldBlock
        case EBADF, EFAULT: trap(SystemError(errno: number, operation: operation))
        default: return .failed(SystemError(errno: number, operation: operation))
        }
    }

    /// Makes a call for which "not now" is a failure like any other.
    @inlinable @inline(__always) @discardableResult
    public static func value<Answer: SignedInteger>(
        _ operation: StaticString, _ call: () -> Answer
    ) throws(SystemError) -> Int {
        switch outcome(operation, call) {
        case .done(let value): return value
        case .wouldBlock: throw notNow(operation)
        case .failed(let error): throw error
        }
    }

    /// Makes a call that can only fail by a mistake of ours.
    @inlinable @inline(__always) @discardableResult
    public static func certain<Answer: SignedInteger>(_ operation: StaticString, _ call: () -> Answer) -> Int {
        switch outcome(operation, call) {
        case .done(let value): return value
        case .wouldBlock: trap(notNow(operation))
        case .failed(let error): trap(error)
        }
    }

    /// "Not now", where it is a failure.
    public static func notNow(_ operation: StaticString) -> SystemError { SystemError(errno: EAGAIN, operation: operation) }

    /// Says in release builds too which call it was, which a precondition does not.
    @inline(never)
    public static func trap(_ error: SystemError) -> Never {
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

    /// Makes the calling thread nicer to others. Whoever may run may do so, up to the kernel's last step, where it stays.
    static func giveWay(steps: Int32) { _ = linux_give_way(steps) }

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

    /// The bytes that an unprivileged process may still write to the file system of a path.
    static func freeBytes(_ path: String) throws(SystemError) -> UInt64 { try diskBytes(path).free }

    /// The same, and how many it has in all.
    static func diskBytes(_ path: String) throws(SystemError) -> (free: UInt64, total: UInt64) {
        var figures = statvfs()
        try value("statvfs") { statvfs(path, &figures) }
        let size = UInt64(figures.f_frsize)
        return (UInt64(figures.f_bavail) &* size, UInt64(figures.f_blocks) &* size)
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
