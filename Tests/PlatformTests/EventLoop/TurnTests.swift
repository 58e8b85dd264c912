import Platform
import Testing

@Suite(.timeLimit(.minutes(10))) struct TurnTests {
    let loop: EventLoop

    init() throws {
        loop = try EventLoop(name: "turns")
    }

    @Test func `a turn begins at the deadline and not before`() {
        var begins: [UInt64] = []
        var deadline: UInt64 = 0
        loop.run(
            TestTurn(
                begin: { begins.append($0) },
                end: { now in
                    if begins.count == 2 { loop.stop() }
                    deadline = now + 60
                    return begins.count == 1 ? deadline : nil
                }))
        #expect(begins.count == 2)
        #expect(begins[1] >= begins[0] + 60)
        #expect(begins[1] < begins[0] + 60_000)
    }

    @Test func `a deadline that has passed lets the loop not sleep`() {
        let start = MonotonicClock.milliseconds()
        var turns = 0
        loop.run(
            TestTurn(end: { now in
                turns += 1
                if turns == 1000 { loop.stop() }
                return turns.isMultiple(of: 2) ? 0 : now
            }))
        #expect(turns == 1000)
        #expect(MonotonicClock.milliseconds() - start < 60_000)
    }

    @Test func `one reading of the clock holds for the whole turn`() throws {
        let pair = try SocketPair()
        pair.sayOne()
        var readings: [UInt64] = []
        _ = try loop.register(pair.near, for: .readable, handler: ClosureHandler { _ in readings.append(loop.nowMilliseconds) })
        loop.run(
            TestTurn(
                begin: { readings.append($0) },
                end: { now in
                    readings.append(now)
                    loop.stop()
                    return nil
                }))
        #expect(readings.count == 3)
        #expect(Set(readings).count == 1)
    }

    @Test func `stop before run lets run return without a turn, and run can be called again`() {
        var turns = 0
        loop.stop()
        loop.run(TestTurn(begin: { _ in turns += 1 }))
        #expect(turns == 0)
        loop.run(turns: 3)
    }

    @Test func `what another thread wrote before it called is seen by a loop that sleeps for ever`() throws {
        for _ in 0..<500 {
            let loop = loop
            let flag = Flag()
            let thread = try NamedThread.start(name: "waker") {
                flag.raise()
                loop.wake()
            }
            loop.run(
                TestTurn(begin: { _ in
                    if flag.isRaised { loop.stop() }
                }))
            thread.join()
        }
    }

    @Test func `stop from another thread ends the run`() throws {
        let loop = loop
        let thread = try NamedThread.start(name: "stopper") { loop.stop() }
        loop.run(TestTurn())
        thread.join()
    }
}
