import Glibc
import Platform

/// How much of the machine's processors this process may use: those it may run on, and the share of their time that its control group has.
struct ProcessorBudget: Equatable {
    /// How many processors the process may run on (its affinity mask, as `taskset` and cpusets set it).
    let processors: Int
    /// The processors' worth of time that the control group may use, such as 1.5; nil for no limit.
    let quota: Double?

    init(processors: Int, quota: Double?) {
        self.processors = processors
        self.quota = quota
    }

    /// What this process has now.
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

    /// How many event loops the broker runs: as many as the operator asks for, else one on one or two usable processors, where a second one
    /// gains nothing, else one for each.
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

/// The control groups of this process, as far as they limit its processor time: version 2's `cpu.max`, version 1's `cpu.cfs_quota_us`.
///
/// A group's limit holds for all groups below it, so every directory from the process's group up to the mount's root is read, and the
/// smallest quota counts. What cannot be read limits nothing.
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

    /// A mounted hierarchy of control groups with the processors' controller, as a line of `/proc/self/mountinfo` tells.
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

        /// The process's group in this hierarchy, by the lines of `/proc/self/cgroup`: `0::/path`, or `4:cpu,cpuacct:/path`.
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
