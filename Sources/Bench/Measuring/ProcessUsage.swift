internal import Glibc

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

/// Who we are to the kernel.
enum ProcessIdentifier {
    static var own: Int32 { getpid() }
}
