import Bytes
import MQTTCodec
import Testing

@testable import Federation

/// Which address is tried, and when.
@Suite struct BridgeScheduleTests {
    private func schedule(
        addresses: Int = 1, isRoundRobin: Bool = false, _ restart: BridgeSettings.Restart = .init()
    ) -> BridgeSchedule {
        var settings = BridgeSettings(name: "b", remote: .init(clientIdentifier: "r"), localClientIdentifier: "l")
        (settings.addressCount, settings.isRoundRobin, settings.restart) = (addresses, isRoundRobin, restart)
        return BridgeSchedule(settings)
    }

    @Test func `pauses lie between base and cap, and grow by at most three times`() {
        var random = SeededGenerator(seed: 3)
        var schedule = schedule(restart(2000, 60_000))
        var last: UInt64 = 2000
        for _ in 0..<200 {
            let pause = schedule.failed(connectedFor: nil, random: &random)
            #expect((2000...60_000).contains(pause) && pause <= last * 3)
            last = pause
        }
    }

    @Test func `without a cap each pause is the base`() {
        var random = SeededGenerator(seed: 3)
        var schedule = schedule(restart(7000, nil))
        #expect((0..<5).map { _ in schedule.failed(connectedFor: nil, random: &random) } == [7000, 7000, 7000, 7000, 7000])
    }

    @Test func `after a connection that lasted long enough the count starts anew`() {
        var random = SeededGenerator(seed: 5)
        var schedule = schedule(.init(base: 1000, cap: 3_600_000, stable: 10_000))
        for _ in 0..<50 { _ = schedule.failed(connectedFor: nil, random: &random) }
        #expect(schedule.failed(connectedFor: 10_000, random: &random) <= 3000)
    }

    @Test func `addresses are tried one after the other, with a pause behind the last`() {
        var random = SeededGenerator(seed: 1)
        var schedule = schedule(addresses: 3)
        var tried: [Int] = []
        var pauses: [Bool] = []
        for _ in 0..<6 {
            tried.append(schedule.address)
            pauses.append(schedule.failed(connectedFor: nil, random: &random) > 0)
        }
        #expect(tried == [0, 1, 2, 0, 1, 2])
        #expect(pauses == [false, false, true, false, false, true])
    }

    @Test func `a loss leads back to the first address, or on to the next in round robin`() {
        var random = SeededGenerator(seed: 1)
        for (isRoundRobin, next) in [(false, 0), (true, 2)] {
            var schedule = schedule(addresses: 3, isRoundRobin: isRoundRobin)
            _ = schedule.failed(connectedFor: nil, random: &random)
            _ = schedule.failed(connectedFor: Limits.stableMilliseconds, random: &random)
            #expect(schedule.address == next)
        }
    }

    @Test func `an address that drops everybody soon gives way to the next, with growing pauses`() {
        var random = SeededGenerator(seed: 1)
        var schedule = schedule(addresses: 2, restart(1000, 60_000))
        var tried: [Int] = []
        var pauses: [UInt64] = []
        for _ in 0..<40 {
            tried.append(schedule.address)
            pauses.append(schedule.failed(connectedFor: 500, random: &random))
        }
        #expect(tried == (0..<40).map { $0 % 2 })
        #expect(pauses.max() ?? 0 > 5000)
    }

    @Test func `a first address that answers and does not last is looked for less and less`() {
        var random = SeededGenerator(seed: 1)
        var schedule = schedule(addresses: 2)
        var waits: [UInt64] = []
        for _ in 0..<10 {
            _ = schedule.failed(connectedFor: nil, random: &random)
            waits.append(schedule.awayMilliseconds)
            schedule.goHome()
        }
        #expect(waits.prefix(3) == [5000, 10_000, 20_000] && waits.last == Limits.awayMillisecondsMax)
        _ = schedule.failed(connectedFor: Limits.stableMilliseconds, random: &random)
        #expect(schedule.awayMilliseconds == 5000)
    }

    private func schedule(_ restart: BridgeSettings.Restart) -> BridgeSchedule { schedule(addresses: 1, restart) }
    private func restart(_ base: UInt64, _ cap: UInt64?) -> BridgeSettings.Restart { .init(base: base, cap: cap) }
}
