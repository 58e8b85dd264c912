internal import Glibc
internal import Platform

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
