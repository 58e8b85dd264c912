import Platform
import Testing

@Suite struct AlarmTests {
    final class Clock: AlarmHandler {
        private(set) var rings = 0
        private let body: () -> Void

        init(_ body: @escaping () -> Void = {}) { self.body = body }

        func alarmRang() {
            rings += 1
            body()
        }
    }

    let loop: EventLoop

    init() throws {
        loop = try EventLoop(name: "alarms")
    }

    @Test func `an alarm rings once, at its time, although the turn has no deadline`() {
        let start = MonotonicClock.milliseconds()
        let clock = Clock { loop.stop() }
        loop.setAlarm(at: start + 500_000, for: clock)
        loop.setAlarm(at: start + 50, for: clock)
        loop.run(TestTurn())
        #expect(clock.rings == 1)
        #expect(loop.nowMilliseconds >= start + 50)
        #expect(loop.nowMilliseconds < start + 500_000)
    }

    @Test func `a cancelled alarm does not ring`() {
        let cancelled = Clock()
        let last = Clock { loop.stop() }
        let start = MonotonicClock.milliseconds()
        loop.setAlarm(at: start + 10, for: cancelled)
        loop.setAlarm(at: start + 30, for: last)
        loop.cancelAlarm(for: cancelled)
        loop.run(TestTurn())
        #expect(cancelled.rings == 0)
        #expect(last.rings == 1)
    }

    @Test func `an alarm set again while it rings rings at its new time`() {
        final class Repeater: AlarmHandler {
            var rings: [UInt64] = []
            let loop: EventLoop

            init(_ loop: EventLoop) { self.loop = loop }

            func alarmRang() {
                rings.append(loop.nowMilliseconds)
                if rings.count == 3 { loop.stop() }
                loop.setAlarm(at: loop.nowMilliseconds + 10, for: self)
            }
        }
        let repeater = Repeater(loop)
        loop.setAlarm(at: 0, for: repeater)
        loop.run(TestTurn())
        #expect(repeater.rings.count == 3)
        #expect(zip(repeater.rings, repeater.rings.dropFirst()).allSatisfy { $1 >= $0 + 10 })
        loop.cancelAlarm(for: repeater)
    }
}
