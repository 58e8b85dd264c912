internal import CLinux
package import Glibc

/// The rules that every system call keeps, and those calls that concern descriptors, threads and the process. What
/// belongs to one part alone stands there as an extension: epoll in EventLoop, sockets in the target Transports.
///
/// A call that a signal interrupts is made again; "not now" (EAGAIN) is a value; EBADF and EFAULT are mistakes of ours,
/// after which bytes could reach the wrong socket, and trap; everything else is a `SystemError`, thrown or as a value.
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

    /// Lets the calling thread wait for its turn when it is woken, in place of pushing aside the thread that runs. Not
    /// if the operator has given it a policy other than the ordinary one.
    static func scheduleInBatches() {
        // Only a filter of system calls could forbid it: the thread stays an ordinary one then.
        _ = linux_schedule_in_batches()
    }

    /// Makes the calling thread nicer to others. Whoever may run may do so, up to the kernel's last step, where it
    /// stays.
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

    /// How many bytes of the file system are free, and how many it has in all.
    static func diskBytes(_ path: String) throws(SystemError) -> (free: UInt64, total: UInt64) {
        var figures = statvfs()
        try value("statvfs") { statvfs(path, &figures) }
        let size = UInt64(figures.f_frsize)
        return (UInt64(figures.f_bavail) &* size, UInt64(figures.f_blocks) &* size)
    }

    /// Sets the soft limit on the bytes of a core file to 0; the hard one stays.
    static func limitCoreFiles() throws(SystemError) {
        var limit = rlimit()
        try value("getrlimit") { getrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit) }
        limit.rlim_cur = 0
        try value("setrlimit") { setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit) }
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

extension SystemCall {
    /// Writes once.
    package static func write(_ descriptor: FileDescriptor, _ bytes: UnsafeRawBufferPointer) -> Outcome {
        outcome("write") { Glibc.write(descriptor.rawValue, bytes.baseAddress, bytes.count) }
    }

    /// The kernel's record of a file, through symbolic links; nil when it is not there.
    package static func status(of path: String) -> stat? {
        var status = stat()
        return stat(path, &status) == 0 ? status : nil
    }

    /// The names of what a directory has, in no order; nil where it cannot be read, and `errno` says why.
    package static func names(inDirectory path: String) -> [String]? {
        guard let directory = opendir(path) else { return nil }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            // The name is a C string of at most 256 bytes inside the entry, which lives until the next readdir.
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    /// What a symbolic link names; nil when it is not there.
    package static func target(ofLink path: String) -> String? {
        withUnsafeTemporaryAllocation(byteCount: Int(PATH_MAX), alignment: 1) { buffer in
            guard let start = buffer.baseAddress else { return nil }
            let count = readlink(path, start, buffer.count)
            return count > 0 ? String(decoding: UnsafeRawBufferPointer(rebasing: buffer[..<count]), as: UTF8.self) : nil
        }
    }

    package static func remove(_ path: String) throws(SystemError) {
        try value("unlink") { unlink(path) }
    }

    /// Sets the mode of a file that is no symbolic link.
    package static func setMode(_ mode: UInt32, of path: String) throws(SystemError) {
        try value("chmod") { fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW) }
    }
}

/// The machine's processors, as far as they are ours.
public enum ProcessorCount {
    /// How many processors the calling thread may run on (its affinity mask, as `taskset` and cpusets set it); at
    /// least 1.
    public static func usable() -> Int {
        SystemCall.usableProcessors()
    }
}

/// A number that the kernel gave for an open file or socket.
///
/// A plain value: whoever holds the last use of it calls `close()`, once. A descriptor that is registered on a loop is
/// deregistered first, else the number may already mean another socket when the loop takes it off.
public struct FileDescriptor: Hashable, Sendable {
    public let rawValue: Int32

    public init(rawValue: Int32) {
        self.rawValue = rawValue
    }

    /// Gives the number back to the kernel.
    public func close() {
        SystemCall.close(self)
    }
}

/// The kernel's random bytes, for seeds and identifiers. The pure targets get theirs from here, as arguments.
public enum RandomBytes {
    /// Fills the buffer.
    public static func fill(_ buffer: UnsafeMutableRawBufferPointer) {
        SystemCall.fillRandom(buffer)
    }

    /// 64 random bits.
    public static func seed() -> UInt64 {
        var seed: UInt64 = 0
        withUnsafeMutableBytes(of: &seed) { fill($0) }
        return seed
    }
}

/// The kernel's random numbers, for what nobody may guess. Fetched in blocks: one system call for `blockCount` numbers.
///
/// A number that was given out is not kept. A copy must not be used beside the original, for both would give the same
/// numbers: it has one owner.
public struct KernelRandomNumbers: RandomNumberGenerator, Sendable {
    /// What `getrandom` gives at once without fail: 256 bytes.
    static let blockCount = 32

    private var block: [UInt64] = []

    public init() {}

    public mutating func next() -> UInt64 {
        if block.isEmpty {
            block = Array(repeating: 0, count: Self.blockCount)
            block.withUnsafeMutableBytes { RandomBytes.fill($0) }
        }
        return block.removeLast()
    }
}

/// The clock that nobody sets, and that goes on while the machine sleeps: for intervals and deadlines, leases among
/// them.
public enum MonotonicClock {
    /// Milliseconds since a moment that does not matter.
    public static func milliseconds() -> UInt64 { nanoseconds() / 1_000_000 }

    /// The time in microseconds.
    public static func microseconds() -> UInt64 { nanoseconds() / 1000 }

    /// The time in nanoseconds.
    public static func nanoseconds() -> UInt64 {
        var time = timespec()
        SystemCall.certain("clock_gettime") { clock_gettime(CLOCK_BOOTTIME, &time) }
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Lets the calling thread wait.
    public static func sleep(milliseconds: Int) { usleep(UInt32(milliseconds) * 1000) }
}

/// The time of day, for a core that knows only a clock that never jumps.
package enum WallClock {
    /// The seconds since 1970.
    package static func seconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec)
    }

    /// The milliseconds since 1970.
    package static func milliseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000
    }

    /// What the monotonic clock lacks of the milliseconds since 1970, now.
    package static func offsetMilliseconds() -> UInt64 {
        milliseconds() - MonotonicClock.milliseconds()
    }
}

/// The kernel refused a call: which call, and why.
///
/// Thrown for what the world does to us. What a peer does to its own connection comes as a value, and what only a
/// mistake of ours can cause (EBADF, EFAULT) traps.
public struct SystemError: Error, Sendable {
    /// The error's number, as `errno` gave it.
    public let errno: Int32
    /// The call that failed, such as `bind`.
    public let operation: StaticString

    public init(errno: Int32, operation: StaticString) {
        self.errno = errno
        self.operation = operation
    }
}

extension SystemError: CustomStringConvertible {
    /// As `perror` writes it: `bind: Address already in use`.
    public var description: String {
        "\(operation): \(reason)"
    }

    /// The kernel's words alone: `Address already in use`.
    public var reason: String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { text in
            guard let start = text.baseAddress else { return "Error \(errno)" }
            linux_error_text(errno, start, text.count)
            return String(cString: start)
        }
    }
}

extension SystemError: Equatable {
    /// Equal errors are the same failure of the same call.
    public static func == (left: SystemError, right: SystemError) -> Bool {
        left.errno == right.errno && left.operation.description == right.operation.description
    }
}

/// What the system allows this process.
public enum ResourceLimits {
    /// How many descriptors the process may have open.
    public static var fileDescriptors: Int { Int(clamping: SystemCall.descriptorLimit().rlim_cur) }

    /// The bytes that are free on the file system of a path for this process; nil where the kernel does not tell.
    public static func freeBytes(at path: String) -> UInt64? { try? SystemCall.freeBytes(path) }

    /// How many bytes of the file system at a path are free, and how many it has in all; nil if the kernel does not
    /// say.
    public static func diskBytes(at path: String) -> (free: UInt64, total: UInt64)? { try? SystemCall.diskBytes(path) }

    /// Has a crash write no core file: it would hold the passwords, tokens and keys that the process has in its memory.
    /// The hard limit stays, so that `prlimit --core=unlimited --pid PID` brings core files back. A refusal leaves the
    /// limit as it was.
    public static func writeNoCoreFiles() { try? SystemCall.limitCoreFiles() }

    /// Raises the soft limit on open descriptors to the hard one, and returns what holds then. A refusal leaves it as
    /// it was.
    @discardableResult
    public static func raiseFileDescriptors() -> Int {
        var limit = SystemCall.descriptorLimit()
        guard limit.rlim_cur < limit.rlim_max else { return Int(clamping: limit.rlim_cur) }
        limit.rlim_cur = limit.rlim_max
        do throws(SystemError) {
            try SystemCall.setDescriptorLimit(limit)
        } catch {
            return Int(clamping: SystemCall.descriptorLimit().rlim_cur)
        }
        return Int(clamping: limit.rlim_cur)
    }
}

/// The process's memory.
public enum ProcessMemory {
    /// The bytes that the allocator has given away and not got back.
    public static func heapBytes() -> Int { Int(linux_heap_bytes()) }
}

/// One-way messages to the service manager that started the process.
public enum ServiceSocket {
    /// Sends a datagram to a Unix socket; `@` at the beginning of its path stands for the abstract namespace. What the
    /// manager does not take is lost.
    public static func send(_ text: String, to path: String) {
        var text = text
        text.withUTF8 { _ = linux_notify(path, $0.baseAddress, $0.count) }
    }
}

/// The machine's log. For any thread.
public enum Syslog {
    /// How bad it is, with the numbers of RFC 5424.
    public enum Severity: Int32, Sendable {
        case error = 3
        case warning = 4
        case notice = 5
        case information = 6
        case debug = 7
    }

    /// Names the process and its facility: LOCAL0 to LOCAL7, or DAEMON without a number.
    public static func open(name: String, localFacility: Int?) {
        linux_syslog_open(name, Int32(localFacility ?? -1))
    }

    public static func write(_ severity: Severity, _ text: String) {
        linux_syslog(severity.rawValue, text)
    }
}
