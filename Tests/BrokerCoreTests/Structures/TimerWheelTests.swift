import TestBasics
import Testing

@testable import BrokerCore

@Suite struct TimerWheelTests {
    /// A wheel beside a plain list of deadlines.
    private struct Bench: ~Copyable {
        var wheel: TimerWheel
        var now: UInt64
        var armed: [UInt32: (handle: UInt32, deadline: UInt64)] = [:]
        private var numbers: UInt32 = 0

        init(now: UInt64) {
            self.now = now
            wheel = TimerWheel(now: now)
        }

        mutating func arm(at deadline: UInt64) {
            numbers += 1
            armed[numbers] = (wheel.arm(TimerSubject(kind: .session, index: numbers, generation: 7), at: deadline), deadline)
        }

        mutating func disarm(_ number: UInt32) {
            guard let timer = armed.removeValue(forKey: number) else { return }
            wheel.disarm(timer.handle)
        }

        /// The next that fires; checks that it is not early.
        mutating func pop() -> UInt32? {
            guard let subject = wheel.popExpired(now: now) else { return nil }
            let timer = armed.removeValue(forKey: subject.index)
            #expect(subject == TimerSubject(kind: .session, index: subject.index, generation: 7))
            #expect(timer.map { $0.deadline <= now } ?? false, "fired early, or twice, or after it was disarmed")
            return subject.index
        }

        /// Checks that nothing is late and that the wheel will be called in time.
        func check() {
            #expect(wheel.count == armed.count)
            let first = armed.values.map { $0.deadline }.min()
            if let first { #expect(first + TimerWheel.tickMilliseconds > now, "more than a tick late") }
            let next = wheel.nextDeadline
            #expect((next == nil) == (first == nil))
            guard let first, let next else { return }
            #expect(next < first + TimerWheel.tickMilliseconds, "the wheel would be called too late")
            #expect(next > now, "the wheel would be called for nothing at once")
        }
    }

    @Test(arguments: [UInt64(81), 82, 83, 84])
    func `random timers fire never early and at most a tick late`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var bench = Bench(now: 1_000_000 + UInt64(random.below(100_000)))
        for _ in 0..<6000 {
            switch random.below(10) {
            case 0...4: bench.arm(at: Self.deadline(bench.now, &random))
            case 5:
                guard let number = bench.armed.keys.sorted().randomElement(using: &random) else { continue }
                bench.disarm(number)
            default:
                bench.now += Self.step(&random)
                while bench.pop() != nil {
                    // What happens when a timer fires arms and disarms others.
                    switch random.below(8) {
                    case 0: bench.arm(at: Self.deadline(bench.now, &random))
                    case 1:
                        guard let number = bench.armed.keys.min() else { continue }
                        bench.disarm(number)
                    default: continue
                    }
                }
            }
            // What was armed in the past is due at the next tick.
            if bench.armed.values.allSatisfy({ $0.deadline > bench.now }) { bench.check() }
        }
        while let next = bench.wheel.nextDeadline {
            bench.now = max(bench.now, next)
            while bench.pop() != nil {}
        }
        #expect(bench.armed.isEmpty)
    }

    @Test func `following nextDeadline, timers of several rounds fire in time`() {
        var bench = Bench(now: 12_345)
        let round = UInt64(TimerWheel.slotCount) * TimerWheel.tickMilliseconds
        for rounds in UInt64(0)...5 {
            for offset in [UInt64(1), 99, 100, 101, 5000, round - 1, round] { bench.arm(at: 12_345 + rounds * round + offset) }
        }
        var calls = 0
        while let next = bench.wheel.nextDeadline {
            #expect(next > bench.now)
            bench.now = next
            while bench.pop() != nil {}
            bench.check()
            calls += 1
        }
        #expect(bench.armed.isEmpty)
        #expect(calls < 100)
    }

    @Test func `a clock that jumps ahead by days fires everything once`() {
        var bench = Bench(now: 0)
        var random = SeededGenerator(seed: 85)
        for _ in 0..<500 { bench.arm(at: UInt64(random.below(10_000_000))) }
        bench.now = 86_400_000 * 30
        var fired = 0
        while bench.pop() != nil { fired += 1 }
        #expect(fired == 500)
        #expect(bench.wheel.count == 0)
        bench.arm(at: bench.now + 250)
        bench.check()
    }

    @Test func `the longest session expiry and the far future are armed like any`() {
        var bench = Bench(now: 5)
        bench.arm(at: UInt64(UInt32.max) * 1000)
        bench.arm(at: UInt64.max - 1)
        for _ in 0..<5 {
            guard let next = bench.wheel.nextDeadline else { break }
            bench.now = next
            let fired = bench.pop()
            #expect(fired == nil)
        }
        bench.disarm(1)
        bench.disarm(2)
        #expect(bench.wheel.nextDeadline == nil)
    }

    @Test func `timers of one slot are disarmed in any order while others fire`() {
        for disarmed in 0..<27 {
            var bench = Bench(now: 0)
            for _ in 0..<3 { bench.arm(at: 1000) }
            let order = [disarmed % 3, (disarmed / 3) % 3, disarmed / 9].map { UInt32($0 + 1) }
            bench.disarm(order[0])
            bench.now = 1000
            _ = bench.pop()
            bench.disarm(order[1])
            bench.arm(at: 1000)
            _ = bench.pop()
            bench.disarm(order[2])
            bench.now = 1100
            while bench.pop() != nil {}
            #expect(bench.armed.isEmpty)
            #expect(bench.wheel.count == 0)
        }
    }

    @Test func `a timer armed for the past fires at the next tick`() {
        var bench = Bench(now: 100_050)
        bench.arm(at: 5)
        let atOnce = bench.pop()
        #expect(atOnce == nil)
        #expect(bench.wheel.nextDeadline == 100_100)
        bench.now = 100_100
        let later = bench.pop()
        #expect(later == 1)
    }

    @Test func `no handle needs no disarming`() {
        var wheel = TimerWheel(now: 0)
        wheel.disarm(TimerWheel.none)
        #expect(wheel.count == 0)
        let fired = wheel.popExpired(now: 1_000_000)
        #expect(fired == nil)
    }

    private static func deadline(_ now: UInt64, _ random: inout SeededGenerator) -> UInt64 {
        switch random.below(6) {
        case 0: now + UInt64(random.below(300))
        case 1: now + UInt64(random.below(3_000_000))
        case 2: (now / 100 + UInt64(random.below(5000))) * 100 + 100
        default: now + 1 + UInt64(random.below(60_000))
        }
    }

    private static func step(_ random: inout SeededGenerator) -> UInt64 {
        switch random.below(20) {
        case 0: UInt64(random.below(1_000_000))
        case 1: 409_600
        case 2...5: 0
        default: UInt64(random.below(2000))
        }
    }
}
