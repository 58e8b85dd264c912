/// How often what took how long, from nanoseconds to a minute, to three digits.
///
/// Counts stand by value up to 2048 units of 64 ns, and by steps of a 1024th to a 2048th of the value beyond. So a
/// value that is told lies at most 0.1 % above what was recorded, or 64 ns; the least and the greatest are exact.
struct LatencyHistogram: Sendable, Equatable {
    private var counts = [UInt64](repeating: 0, count: Self.countOfValues)
    private(set) var totalCount: UInt64 = 0
    private var least = UInt64.max
    private var greatest: UInt64 = 0

    /// Records a value, in nanoseconds; a greater one than a minute counts as that.
    @inline(__always)
    mutating func record(_ nanoseconds: UInt64, count: UInt64 = 1) {
        let value = min(nanoseconds, Self.nanosecondsMax)
        counts[Self.index(of: value)] &+= count
        totalCount &+= count
        least = min(least, value)
        greatest = max(greatest, value)
    }

    /// Adds another one.
    mutating func add(_ other: LatencyHistogram) {
        guard other.totalCount > 0 else { return }
        for index in Self.index(of: other.least)...Self.index(of: other.greatest) { counts[index] &+= other.counts[index] }
        totalCount &+= other.totalCount
        least = min(least, other.least)
        greatest = max(greatest, other.greatest)
    }

    /// Begins anew; the memory stays.
    mutating func reset() {
        guard totalCount > 0 else { return }
        for index in Self.index(of: least)...Self.index(of: greatest) { counts[index] = 0 }
        (totalCount, least, greatest) = (0, .max, 0)
    }

    /// The value, in nanoseconds, that so many per cent of all were no greater than; 0 where nothing was recorded.
    func valueAtPercentile(_ percentile: Double) -> UInt64 {
        guard totalCount > 0 else { return 0 }
        if percentile <= 0 { return least }
        if percentile >= 100 { return greatest }
        // One step less: a product that is rounded up must not ask for one more than the share is.
        let wanted = max(1, UInt64((percentile.nextDown * Double(totalCount) / 100).rounded(.up)))
        var reached: UInt64 = 0
        for index in Self.index(of: least)...Self.index(of: greatest) {
            reached &+= counts[index]
            if reached >= wanted { return max(least, min(greatest, Self.greatestValue(at: index))) }
        }
        return greatest
    }

    /// Where a value is counted.
    @inline(__always)
    private static func index(of value: UInt64) -> Int {
        let units = value >> unitBits
        let shift = max(0, UInt64.bitWidth &- units.leadingZeroBitCount &- (stepBits + 1))
        return shift &<< stepBits &+ Int(truncatingIfNeeded: units &>> UInt64(shift))
    }

    /// The greatest value that is counted there.
    private static func greatestValue(at index: Int) -> UInt64 {
        let shift = max(0, (index >> stepBits) - 1)
        let units = UInt64(index - (shift << stepBits))
        return ((units + 1) << (UInt64(shift) + unitBits)) - 1
    }

    private static let nanosecondsMax: UInt64 = 60_000_000_000
    private static let countOfValues = index(of: nanosecondsMax) + 1
    /// A unit is 64 ns.
    private static let unitBits: UInt64 = 6
    /// A doubling has 1024 steps.
    private static let stepBits = 10
}
