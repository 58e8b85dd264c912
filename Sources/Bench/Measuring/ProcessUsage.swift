internal import CLinux
internal import Glibc
internal import Platform
internal import Synchronization

/// What a process has used so far, as `/proc` tells.
struct ProcessUsage {
    /// Seconds of CPU in user mode.
    var userSeconds = 0.0
    /// Seconds of CPU in the kernel.
    var systemSeconds = 0.0
    /// Resident memory.
    var residentBytes = 0
    /// The most resident memory so far.
    var residentBytesMax = 0
    var threadCount = 0
    /// Voluntary and involuntary, of the main thread.
    var contextSwitches = 0

    var cpuSeconds: Double { userSeconds + systemSeconds }

    /// What a process is called: the name of its program; nil when there is no such process.
    static func name(process: Int32) -> String? {
        text("/proc/\(process)/comm").map { String($0.prefix { $0 != "\n" }) }
    }

    /// Reads it, nil when there is no such process.
    static func read(process: Int32) -> ProcessUsage? {
        guard let stat = text("/proc/\(process)/stat"), let status = text("/proc/\(process)/status") else { return nil }
        // The name in parentheses may hold anything; what follows the last one has the fields from the third on.
        guard let close = stat.lastIndex(of: ")") else { return nil }
        let fields = stat[stat.index(after: close)...].split(separator: " ")
        guard fields.count > 21 else { return nil }
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        var usage = ProcessUsage()
        usage.userSeconds = (Double(fields[11]) ?? 0) / ticks
        usage.systemSeconds = (Double(fields[12]) ?? 0) / ticks
        usage.threadCount = Int(fields[17]) ?? 0
        for line in status.split(separator: "\n") {
            let words = line.split(whereSeparator: { $0 == " " || $0 == "\t" })
            guard words.count > 1, let value = Int(words[1]) else { continue }
            switch words[0] {
            case "VmRSS:": usage.residentBytes = value * 1024
            case "VmHWM:": usage.residentBytesMax = value * 1024
            case "voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:": usage.contextSwitches += value
            default: continue
            }
        }
        return usage
    }

    /// What this process has used; only the CPU's seconds.
    static func own() -> ProcessUsage {
        var resources = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &resources)
        var usage = ProcessUsage()
        usage.userSeconds = seconds(resources.ru_utime)
        usage.systemSeconds = seconds(resources.ru_stime)
        return usage
    }

    private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }

    /// The beginning of a file that the kernel makes up; nil when it is not there.
    static func text(_ path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        return withUnsafeTemporaryAllocation(byteCount: 8192, alignment: 1) { buffer in
            let count = fread(buffer.baseAddress, 1, buffer.count, file)
            return String(decoding: buffer[..<count], as: UTF8.self)
        }
    }
}

/// This process's identifier at the kernel.
enum ProcessIdentifier {
    static var own: Int32 { getpid() }
}

/// What this machine is, as far as it bears on a measurement.
struct Machine: Sendable, Equatable {
    /// The processor's model; empty where the kernel does not tell.
    var processor = ""
    /// Processors that this process may use.
    var processorCount = 0
    var memoryBytes = 0
    /// The distribution, such as `Debian GNU/Linux 12 (bookworm)`.
    var system = ""
    /// The kernel's release.
    var kernel = ""

    /// What `/proc` and `/etc/os-release` tell.
    static func read() -> Machine {
        var machine = Machine()
        machine.processor = value(of: "model name", in: "/proc/cpuinfo", separator: ":") ?? ""
        machine.processorCount = ProcessorCount.usable()
        machine.memoryBytes = kibibytes(value(of: "MemTotal", in: "/proc/meminfo", separator: ":")) * 1024
        machine.system = value(of: "PRETTY_NAME", in: "/etc/os-release", separator: "=").map { $0.filter { $0 != "\"" } } ?? ""
        machine.kernel = ProcessUsage.text("/proc/sys/kernel/osrelease").map(trimmed) ?? ""
        return machine
    }

    private static func kibibytes(_ text: String?) -> Int {
        text.flatMap { $0.split(separator: " ").first }.flatMap { Int($0) } ?? 0
    }

    /// What stands behind a name at the beginning of a line.
    private static func value(of name: String, in path: String, separator: Character) -> String? {
        for line in (ProcessUsage.text(path) ?? "").split(separator: "\n") {
            guard let place = line.firstIndex(of: separator), trimmed(line[..<place]) == name else { continue }
            return trimmed(line[line.index(after: place)...])
        }
        return nil
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        String(text.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
    }

    private static func isBlank(_ character: Character) -> Bool { character.isWhitespace }
}

/// Wall-clock time, for people: intervals are the monotonic clock's.
enum WallTime {
    /// Now in UTC, as ISO 8601 has it: `2026-01-31T12:00:00Z`.
    static func now() -> String {
        var seconds = time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func two(_ number: Int32) -> String { (number < 10 ? "0" : "") + String(number) }
        return "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
            + "T\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))Z"
    }
}

/// Brings the latencies that a worker has recorded to the coordinator while both go on: once an interval, and not once
/// a message.
///
///     coordinator: ask ─► (worker's turn ends: handOver) ─► take
///
/// The worker exchanges its histogram for an empty one, which costs it a lock and two words; adding up and clearing is
/// the coordinator's. Nothing is lost if the coordinator does not wait: what it does not take stays for the next time.
final class LatencyExchange: Sendable {
    private let isAsked = Atomic<Bool>(false)
    /// Empty, or what the worker has handed over.
    private let slot = Locked(LatencyHistogram())

    /// The coordinator wants what there is. The worker is to be woken after it.
    func ask() { isAsked.store(true, ordering: .releasing) }

    /// The worker gives what it has, if it was asked. Called once a turn: one load where it was not.
    @inline(__always)
    func handOverIfAsked(_ recorder: LatencyRecorder) {
        if isAsked.load(ordering: .relaxed) { handOver(recorder) }
    }

    @inline(never)
    private func handOver(_ recorder: LatencyRecorder) {
        slot.withLock { recorder.exchange(&$0) }
        isAsked.store(false, ordering: .releasing)
    }

    /// Adds to `histogram` what the worker has handed over; false, and nothing is added, if it has not yet.
    func take(into histogram: inout LatencyHistogram) -> Bool {
        guard !isAsked.load(ordering: .acquiring) else { return false }
        takeAll(into: &histogram)
        return true
    }

    /// Adds whatever lies there. When the worker's thread has ended.
    func takeAll(into histogram: inout LatencyHistogram) {
        slot.withLock { slot in
            histogram.add(slot)
            slot.reset()
        }
    }
}

/// Records how long messages took, in nanoseconds. Belongs to one thread until that has ended.
///
/// Records how long messages took. Messages that are read with one call count as arrived with it, so the clock is read
/// once for each read, and the messages of one burst are recorded together.
final class LatencyRecorder: DeliveryObserver {
    /// When the bytes that are being looked at were read.
    var now: UInt64 = 0
    var isRecording = false
    private(set) var histogram = LatencyHistogram()

    /// Messages are recorded only where they are what is timed.
    var recordsMessages = true

    func delivered(_ count: Int, stampedAt nanoseconds: UInt64) {
        if recordsMessages { record(count, since: nanoseconds) }
    }

    /// Records what began then and is over `now`.
    func record(_ count: Int = 1, since nanoseconds: UInt64) {
        guard isRecording else { return }
        let latency = now > nanoseconds ? now &- nanoseconds : 1
        histogram.record(latency, count: UInt64(truncatingIfNeeded: count))
    }

    /// Gives what was recorded for another histogram, in which recording goes on.
    func exchange(_ other: inout LatencyHistogram) { swap(&histogram, &other) }
}

/// A timer for sends that are microseconds apart, where the loop's own deadlines are a millisecond coarse.
///
/// A timerfd on the loop: it is exact to the kernel's high resolution timers, and the thread sleeps until then.
/// Level-triggered: it stays readable until it is set again, which is done in each turn, so nobody reads it.
final class PacingTimer: EventHandler {
    private let descriptor: FileDescriptor
    private var registration: Registration?

    init() throws(SystemError) {
        let number = linux_timer_create()
        guard number >= 0 else { throw SystemError(errno: errno, operation: "timerfd_create") }
        descriptor = FileDescriptor(rawValue: number)
    }

    deinit { descriptor.close() }

    func register(on events: EventLoop) throws(SystemError) {
        registration = try events.register(descriptor.rawValue, for: .readable, handler: self)
    }

    func deregister(from events: EventLoop) {
        if let registration { events.deregister(registration) }
        registration = nil
    }

    /// Lets a turn begin at that time of the monotonic clock, in nanoseconds.
    func set(at nanoseconds: UInt64) {
        _ = linux_timer_set(descriptor.rawValue, max(1, nanoseconds))
    }

    func ready(_ events: ReadyEvents) {}
}

/// How the calling thread stands to others when all cores are busy.
enum ThreadPriority {
    /// Lets every thread of ordinary priority go first, from now on.
    static func lower() {
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness)
    }

    /// Runs `body` ahead of every thread of ordinary priority, and with it the threads that it starts, if the system
    /// grants it (root has the right) and they leave a core to others. `body` is told.
    static func first<Answer, Failure>(
        threads: Int, _ body: (_ isGranted: Bool) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        let policy = sched_getscheduler(0)
        var parameters = sched_param()
        var realTime = sched_param(sched_priority: 1)
        guard threads < ProcessorCount.usable(), sched_getparam(0, &parameters) == 0,
            sched_setscheduler(0, SCHED_FIFO, &realTime) == 0
        else { return try body(false) }
        defer {
            let isBack = sched_setscheduler(0, policy, &parameters) == 0
            precondition(isBack, "a thread may always take back its priority")
        }
        return try body(true)
    }

    private static let niceness: Int32 = 10
}

extension MonotonicClock {
    /// Seconds between two moments in nanoseconds.
    static func seconds(from start: UInt64, to end: UInt64) -> Double { Double(end &- start) / 1e9 }
}
