import Administration
import BrokerModel
import Glibc
import Platform
import Security
import ServerLoops
import Synchronization

/// Hears of what reaches the control thread.
protocol ControlListener: AnyObject {
    /// Takes a message of another thread.
    func received(_ message: ControlLoopMessage)

    /// What a part of the broker on this thread wants of the whole.
    func received(_ request: ControlRequest)

    /// Handles an event of a signal or of time.
    func handle(_ event: ControlEvent)
}

/// What a part of the broker that belongs to the control thread wants of the whole, which it does not know.
enum ControlRequest {
    /// Read the configuration again; called with what was found when every loop goes by it, or at once where nothing
    /// changes, and with nil where there is no file.
    case reload((ConfigurationFindings?) -> Void)
    /// Read the files of users, rules and keys again; called when every loop goes by them, or at once with false where
    /// they cannot be read, and nothing changes.
    case rereadSecurityFiles((Bool) -> Void)
    /// An administrator has changed what the loops go by: tell them.
    case renewSettings
    /// End gracefully.
    case stop
    /// Users have another login or other rights now.
    case usersChanged(Set<String>)
    /// Another node has changed dynamic security.
    case rightsChanged(SecurityChanges)
    case banChanged(Ban, BanChange)
    /// Something has happened to a client, while somebody wants to know.
    case presence(PresenceEvent)
}

/// The control thread's loop: hears the signals that the process is sent, and keeps the service manager's watch.
final class ControlLoop: LoopTurn, EventHandler, @unchecked Sendable {
    let events: EventLoop
    /// The messages to this thread.
    let mailbox: Mailbox<ControlLoopMessage>
    private let signals: SignalSource
    private var tasks: [PeriodicTask] = []
    /// The listener, while the loop runs.
    private var listener: (any ControlListener)?
    private var stopDeadlines = StopDeadlines()
    private let ended = Atomic<Int>(0)
    private var loopCount = 0
    private var watchIntervalMilliseconds: UInt64?
    private var nextWatch: UInt64 = 0

    init() throws(SystemError) {
        // Handled here, or without effect as SIGPIPE, which must never end a broker.
        signals = try SignalSource(signals: [SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, Self.reopenSignal])
        events = try EventLoop(name: "control")
        mailbox = Mailbox(loop: events)
    }

    /// Hears signals until `loopCount` loops have ended.
    ///
    /// - Parameters:
    ///   - watchIntervalMilliseconds: how often the listener gets `.watch`; nil for never.
    ///   - listener: hears of everything, on this thread.
    func run(until loopCount: Int, watchIntervalMilliseconds: UInt64?, for listener: any ControlListener) throws(SystemError) {
        self.loopCount = loopCount
        self.watchIntervalMilliseconds = watchIntervalMilliseconds
        self.listener = listener
        defer {
            self.listener = nil
            // What they do holds parts of the broker, and these hold the loop.
            for task in tasks { task.stop() }
            tasks = []
        }
        // Not in init: an epoll that heard of the signals before the process forked to the background is told of the
        // parent's alone.
        _ = try events.register(signals.fileDescriptor, for: .readable, handler: self)
        events.run(self)
    }

    /// Has the listener do something at once; while nobody listens nothing is done. On this thread.
    func request(_ request: ControlRequest) { listener?.received(request) }

    /// Calls `body` every so many milliseconds while the loop runs. To be called before `run`.
    func repeatEvery(_ milliseconds: UInt64, _ body: @escaping () -> Void) {
        let task = PeriodicTask(on: events, everyMilliseconds: milliseconds, body: body)
        tasks.append(task)
        task.start()
    }

    /// Takes note that one of the broker's loops has returned. For any thread.
    func loopEnded() {
        ended.add(1, ordering: .acquiringAndReleasing)
        events.wake()
    }

    func ready(_ ready: ReadyEvents) {
        for signal in signals.read() {
            switch signal {
            case SIGINT, SIGTERM:
                if let event = stopDeadlines.signalled(signal, now: events.nowMilliseconds) { listener?.handle(event) }
            case SIGHUP: listener?.handle(.reload)
            case SIGUSR1: listener?.handle(.save)
            case SIGUSR2: listener?.handle(.listSubscriptions)
            case Self.reopenSignal: listener?.handle(.reopenLogs)
            default: continue
            }
        }
    }

    func beginTurn(now: UInt64) { mailbox.drain { listener?.received($0) } }

    func endOfTurn(now: UInt64) -> UInt64? {
        if ended.load(ordering: .acquiring) == loopCount { events.stop() }
        if let event = stopDeadlines.due(now: now) { listener?.handle(event) }
        guard let watchIntervalMilliseconds else { return stopDeadlines.next }
        if now >= nextWatch {
            nextWatch = now + watchIntervalMilliseconds
            listener?.handle(.watch)
        }
        return min(nextWatch, stopDeadlines.next ?? .max)
    }

    /// SIGRTMIN, which the C library numbers at run time.
    private static let reopenSignal = __libc_current_sigrtmin()
}

/// Something that a loop does every so often. Belongs to the loop's thread.
final class PeriodicTask: AlarmHandler {
    private let loop: EventLoop
    private let intervalMilliseconds: UInt64
    private let body: () -> Void

    init(on loop: EventLoop, everyMilliseconds interval: UInt64, body: @escaping () -> Void) {
        self.loop = loop
        intervalMilliseconds = interval
        self.body = body
    }

    func start() {
        loop.setAlarm(at: MonotonicClock.milliseconds() + intervalMilliseconds, for: self)
    }

    func stop() { loop.cancelAlarm(for: self) }

    func alarmRang() {
        body()
        start()
    }
}

/// What the signals that end the broker bring about, and when: the first one a graceful stop, which has its time; a
/// second one the end.
struct StopDeadlines {
    /// When the first signal came, in milliseconds.
    private var askedAt: UInt64?
    /// The second signal, if it came.
    private var secondSignal: Int32?

    /// Takes a signal that asks for the end.
    ///
    /// - Returns: what is to be done at once; nil for nothing.
    mutating func signalled(_ signal: Int32, now: UInt64) -> ControlEvent? {
        guard askedAt == nil else {
            secondSignal = signal
            return nil
        }
        askedAt = now
        return .stop
    }

    /// Returns the event that is due by now; nil for none.
    func due(now: UInt64) -> ControlEvent? {
        guard let askedAt else { return nil }
        if let secondSignal, now >= askedAt + Limits.graceMilliseconds { return .stopAtOnce(signal: secondSignal) }
        return now >= askedAt + Limits.stopMillisecondsMax ? .stopOverdue : nil
    }

    /// When `due` must next be asked, in milliseconds; nil for never.
    var next: UInt64? {
        askedAt.map { $0 + (secondSignal == nil ? Limits.stopMillisecondsMax : Limits.graceMilliseconds) }
    }
}

/// The events of the control thread.
enum ControlEvent: Equatable {
    /// SIGINT or SIGTERM: end gracefully.
    case stop
    /// SIGINT or SIGTERM once more: end at once.
    case stopAtOnce(signal: Int32)
    /// The graceful end has taken all the time that it may: end at once.
    case stopOverdue
    /// SIGHUP: read the configuration again, and open the logs anew.
    case reload
    /// SIGUSR1: save what is to be saved.
    case save
    /// SIGUSR2: log what is subscribed to.
    case listSubscriptions
    /// SIGRTMIN: open the logs anew, somebody has moved them away.
    case reopenLogs
    /// The time has come to tell the service manager that all is well.
    case watch
}

/// How much of the machine's processors this process may use: those it may run on, and the share of their time that its
/// control group has.
struct ProcessorBudget: Equatable {
    /// How many processors the process may run on (its affinity mask, as `taskset` and cpusets set it).
    let processors: Int
    /// The processors' worth of time that the control group may use, such as 1.5; nil for no limit.
    let quota: Double?

    init(processors: Int, quota: Double?) {
        self.processors = processors
        self.quota = quota
    }

    /// Reads what this process has now.
    ///
    /// - Parameter root: what stands before every path that is read, for tests; nothing on a real machine.
    init(root: String = "") {
        self.init(processors: ProcessorCount.usable(), quota: ControlGroups(root: root).quota)
    }

    /// How many threads can run at the same time: the quota, rounded up, and no more than there are processors.
    var usable: Int {
        // A quota of more processors than there are, or of nonsense, is none.
        guard let quota, quota < Double(processors) else { return processors }
        return max(1, Int(quota.rounded(.up)))
    }

    /// How many event loops the broker runs: as many as the operator asks for, else one on one or two usable
    /// processors, where a second one gains nothing, else one for each.
    ///
    /// - Parameter asked: `martlet_threads`; nil or 0 leaves the choice to the broker.
    func loopCount(asked: Int?) -> Int {
        if let asked, asked > 0 { return min(asked, Limits.loopsMax) }
        return usable <= 2 ? 1 : min(usable, Limits.loopsMax)
    }

    /// What the log says of the number of loops; nil when it is what the processors alone give.
    func remark(asked: Int?) -> String? {
        guard asked ?? 0 == 0, usable < processors, let quota else { return nil }
        let hundredths = Int((quota * 100).rounded())
        let share = "\(hundredths / 100).\(hundredths / 10 % 10)\(hundredths % 10)"
        return "The control group may use \(share) of \(processors) processors: the number of event loops is chosen for \(usable)."
    }
}

/// The control groups of this process, as far as they limit its processor time: version 2's `cpu.max`, version 1's
/// `cpu.cfs_quota_us`.
///
/// A group's limit holds for all groups below it, so every directory from the process's group up to the mount's root is
/// read, and the smallest quota counts. What cannot be read limits nothing.
private struct ControlGroups {
    let root: String

    /// The smallest quota, in processors; nil when there is none.
    var quota: Double? {
        guard let groups = Self.lines(of: root + "/proc/self/cgroup") else { return nil }
        var smallest: Double?
        for mount in Self.lines(of: root + "/proc/self/mountinfo") ?? [] {
            guard let mount = Mount(mount), let group = mount.group(among: groups) else { continue }
            for directory in mount.directories(downTo: group) {
                guard let quota = quota(in: root + directory, isSecond: mount.isSecond) else { continue }
                smallest = min(smallest ?? quota, quota)
            }
        }
        return smallest
    }

    private func quota(in directory: String, isSecond: Bool) -> Double? {
        let words: [Substring]
        if isSecond {
            words = (Self.lines(of: directory + "/cpu.max")?.first ?? "").split(separator: " ")
        } else {
            words = ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map { Self.lines(of: "\(directory)/\($0)")?.first ?? "" }
        }
        // "max" and -1 stand for no limit.
        guard words.count == 2, let time = Int(words[0]), let period = Int(words[1]), time > 0, period > 0 else { return nil }
        return Double(time) / Double(period)
    }

    /// A mounted hierarchy of control groups with the processors' controller, as a line of `/proc/self/mountinfo`
    /// tells.
    private struct Mount {
        let isSecond: Bool
        /// The group that is seen at `point`: not `/` in a container that shares the machine's view of the groups.
        private let top: Substring
        private let point: Substring

        /// nil for every other mount.
        init?(_ line: Substring) {
            let words = line.split(separator: " ")
            guard let separator = words.firstIndex(of: "-"), separator >= 6, words.count > separator + 3 else { return nil }
            isSecond = words[separator + 1] == "cgroup2"
            let isFirst = words[separator + 1] == "cgroup" && words[separator + 3].split(separator: ",").contains("cpu")
            guard isFirst || isSecond else { return nil }
            (top, point) = (words[3], words[4])
        }

        /// The process's group in this hierarchy, by the lines of `/proc/self/cgroup`: `0::/path`, or
        /// `4:cpu,cpuacct:/path`.
        func group(among lines: [Substring]) -> Substring? {
            for line in lines {
                let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
                guard parts.count == 3 else { continue }
                let isMine = isSecond ? parts[0] == "0" && parts[1].isEmpty : parts[1].split(separator: ",").contains("cpu")
                if isMine { return parts[2] }
            }
            return nil
        }

        /// The directories of the group and of all above it that can be seen, outermost first.
        func directories(downTo group: Substring) -> [String] {
            var below = group.split(separator: "/")
            let hidden = top.split(separator: "/")
            // A group outside of what is mounted is seen as the mount's root, if at all.
            below = below.starts(with: hidden) ? Array(below.dropFirst(hidden.count)) : []
            if below.contains("..") { below = [] }
            return (0...below.count).map { ([point.description] + below[..<$0].map(\.description)).joined(separator: "/") }
        }
    }

    /// The lines of a small file; nil when it cannot be read.
    private static func lines(of path: String) -> [Substring]? {
        guard let bytes = try? WholeFile.bytes(of: path, bytesMax: Limits.controlGroupFileBytesMax) else { return nil }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    }
}

extension Limits {
    /// Bytes that are read of a file that tells of control groups; what stands behind them is not looked at.
    static let controlGroupFileBytesMax = 256 << 10

    /// A second signal so soon after the first waits: `timeout`, and a terminal together with a program that passes
    /// signals on, send each one twice.
    static let graceMilliseconds: UInt64 = 500
}
