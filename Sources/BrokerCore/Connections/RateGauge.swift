/// Counts what a client sends against a limit a second: a bucket that holds a second's worth and fills evenly.
struct RateGauge {
    private let perSecond: Int
    /// Thousandths of what may still be sent.
    private var left: Int
    private var lastAt: UInt64

    init(perSecond: Int, now: UInt64) {
        self.perSecond = perSecond
        left = perSecond * 1000
        lastAt = now
    }

    /// Takes `count` from the bucket; false when it does not hold that much.
    mutating func take(_ count: Int, now: UInt64) -> Bool {
        let elapsed = Int(clamping: min(now - lastAt, 1000))
        lastAt = now
        left = min(perSecond * 1000, left + elapsed * perSecond)
        // A single packet larger than a second's worth must be possible from a full bucket.
        guard left >= count * 1000 || left == perSecond * 1000 else { return false }
        left -= count * 1000
        return true
    }
}
