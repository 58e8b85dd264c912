import CAllocations
import Glibc

/// Times bodies, and says for each the median and the best of its samples and how many allocations one operation makes.
///
/// A body is told how many operations to do. A sample takes about 30 ms, so the clock's own cost does not show.
struct Meter {
    private let wanted: [String]

    init(wanted: [String]) {
        self.wanted = wanted
        say("                                                              median      best   allocations")
    }

    /// Whether anything whose name begins so is to be measured: for what is dear to set up.
    func wants(_ name: String) -> Bool {
        wanted.isEmpty || wanted.contains { name.hasPrefix($0) || $0.hasPrefix(name) }
    }

    /// Measures `body`. `unit` is what one operation is; with `samples` of 1 the body is run once, with `operations`.
    mutating func measure(
        _ name: String, unit: String = "each", samples: Int = 11, operations fixed: Int? = nil, _ body: (Int) -> Void
    ) {
        guard wants(name) else { return }
        let operations = fixed ?? calibrated(body)
        var times: [Double] = []
        var allocations: UInt64 = 0
        for _ in 0..<samples {
            let allocationsBefore = allocations_count()
            let start = Self.nanoseconds()
            body(operations)
            times.append(Double(Self.nanoseconds() - start) / Double(operations))
            allocations = allocations_count() - allocationsBefore
        }
        times.sort()
        let each = Double(allocations) / Double(operations)
        say(
            Self.left(name, 54) + Self.number(times[times.count / 2]) + " ns" + Self.number(times[0]) + " ns" + Self.number(each)
                + "  \(unit)")
    }

    /// Says a figure that is no time.
    func tell(_ name: String, _ value: Double, _ unit: String) {
        guard wants(name) else { return }
        say(Self.left(name, 54) + Self.number(value) + " " + unit)
    }

    private func calibrated(_ body: (Int) -> Void) -> Int {
        var operations = 1
        while true {
            let start = Self.nanoseconds()
            body(operations)
            let passed = Self.nanoseconds() - start
            if passed > 30_000_000 || operations > 1 << 40 { return operations }
            operations = passed < 1_000_000 ? operations * 10 : max(operations + 1, operations * 33_000_000 / Int(passed))
        }
    }

    private static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    private static func left(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }

    private static func number(_ value: Double) -> String {
        let scaled = Int((value.magnitude * 100).rounded())
        let fraction = String(scaled % 100)
        let text = "\(value < 0 ? "-" : "")\(scaled / 100).\(fraction.count < 2 ? "0" : "")\(fraction)"
        return String(repeating: " ", count: max(0, 12 - text.count)) + text
    }
}

/// The memory that is allocated now.
func liveBytes() -> Int { Int(allocations_live_bytes()) }
