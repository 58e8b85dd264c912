/// Which address a bridge tries, and when.
struct BridgeSchedule {
    private let restart: BridgeSettings.Restart
    private let addressCount: Int
    private let isRoundRobin: Bool
    private(set) var address = 0
    /// Addresses that have failed in a row.
    private var failedCount = 0
    private var lastPause: UInt64?

    init(_ settings: BridgeSettings) {
        restart = settings.restart
        addressCount = max(1, settings.addressCount)
        isRoundRobin = settings.isRoundRobin
    }

    /// The attempt has failed, or a connection is lost. Returns how long to wait before the next attempt, in milliseconds.
    ///
    /// Addresses are tried one after the other without a pause; then there is one: decorrelated jitter, between the base and three times the
    /// pause before, so that bridges that lost one broker together do not come back together.
    mutating func failed(connectedFor milliseconds: UInt64?, random: inout some RandomNumberGenerator) -> UInt64 {
        if let milliseconds {
            if milliseconds >= max(restart.stable, 1000) { lastPause = nil }
            failedCount = 0
            address = isRoundRobin ? (address + 1) % addressCount : 0
            return pause(&random)
        }
        failedCount += 1
        address = (address + 1) % addressCount
        guard failedCount % addressCount == 0 else { return 0 }
        return pause(&random)
    }

    /// The first address answers again.
    mutating func goHome() { (address, failedCount) = (0, 0) }

    private mutating func pause(_ random: inout some RandomNumberGenerator) -> UInt64 {
        guard let cap = restart.cap, cap > restart.base else { return restart.base }
        let high = min(cap, max(restart.base + 1, (lastPause ?? restart.base) * 3))
        let pause = UInt64.random(in: restart.base...high, using: &random)
        lastPause = pause
        return pause
    }
}
