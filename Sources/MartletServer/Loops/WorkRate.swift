/// How much is done in a millisecond, as far as the last so many tell.
struct WorkRate {
    private let millisecondsMax: UInt64
    private var work: UInt64 = 0
    private var milliseconds: UInt64 = 0

    init(millisecondsMax: UInt64) { self.millisecondsMax = millisecondsMax }

    /// The older, the less it counts.
    mutating func add(_ work: UInt64, milliseconds: UInt64) {
        self.work += work
        self.milliseconds += milliseconds
        while self.milliseconds > millisecondsMax {
            self.work /= 2
            self.milliseconds /= 2
        }
    }

    mutating func removeAll() { (work, milliseconds) = (0, 0) }

    /// Whether it is less than another one by more than both are uncertain.
    func isLess(than other: WorkRate) -> Bool {
        guard milliseconds > 0, other.milliseconds > 0 else { return false }
        return work / milliseconds * 100 < other.work / other.milliseconds * 92
    }
}
