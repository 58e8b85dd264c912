/// Which address a bridge tries, and when.
struct BridgeSchedule {
    private let restart: BridgeSettings.Restart
    private let addressCount: Int
    private let isRoundRobin: Bool
    private let isLazy: Bool
    private(set) var address = 0
    /// Addresses that have failed in a row.
    private var failedCount = 0
    private var lastPause: UInt64?
    /// How long a connection to another address stays before the first one is looked for, in milliseconds.
    private(set) var awayMilliseconds = Limits.probeMilliseconds

    init(_ settings: BridgeSettings) {
        restart = settings.restart
        addressCount = max(1, settings.addressCount)
        isRoundRobin = settings.isRoundRobin
        isLazy = settings.isLazy
    }

    /// The attempt has failed, or a connection is lost. Returns how long to wait before the next attempt, in milliseconds.
    ///
    /// Addresses are tried one after the other without a pause; then there is one: decorrelated jitter, between the base and three times the
    /// pause before, so that bridges that lost one broker together do not come back together.
    ///
    /// A connection that was lost soon is an attempt that has failed: else an address that lets everybody in and drops them would be tried
    /// for ever, beside others that work.
    mutating func failed(connectedFor milliseconds: UInt64?, random: inout some RandomNumberGenerator) -> UInt64 {
        if let milliseconds, milliseconds >= max(restart.stable, Limits.stableMilliseconds) {
            (lastPause, failedCount) = (nil, 0)
            if address == 0 { awayMilliseconds = Limits.probeMilliseconds }
            address = isRoundRobin ? (address + 1) % addressCount : 0
            return pause(&random)
        }
        failedCount += 1
        address = (address + 1) % addressCount
        guard failedCount % addressCount == 0 else { return 0 }
        // What waits for a lazy bridge does not wait for the pauses that are meant for bridges that always connect: they are the most.
        let pause = pause(&random)
        return isLazy ? min(pause, Limits.lazyPauseMilliseconds << UInt64(min(failedCount / addressCount - 1, 16))) : pause
    }

    /// A connection was as it should be: what failed before it is over.
    mutating func settled() { (lastPause, failedCount) = (nil, 0) }

    /// The first address answers again. Each time that it does and is left again soon, it is looked for later.
    mutating func goHome() {
        (address, failedCount) = (0, 0)
        awayMilliseconds = min(awayMilliseconds * 2, Limits.awayMillisecondsMax)
    }

    private mutating func pause(_ random: inout some RandomNumberGenerator) -> UInt64 {
        guard let cap = restart.cap, cap > restart.base else { return restart.base }
        let high = min(cap, max(restart.base + 1, (lastPause ?? restart.base) * 3))
        let pause = UInt64.random(in: restart.base...high, using: &random)
        lastPause = pause
        return pause
    }
}
