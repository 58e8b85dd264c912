import Testing

@testable import Bench

@Suite struct OpenLoopTests {
    @Test func `messages are due at the rate, however late the ones before were`() {
        var loop = OpenLoop(start: 1_000_000, messagesPerSecond: 20_000)
        for index in 0..<1000 {
            #expect(loop.nextDue == 1_000_000 + UInt64(index) * 50_000)
            loop.advance()
        }
    }

    @Test func `a rate that does not divide a second drifts by no more than a nanosecond`() {
        var loop = OpenLoop(start: 0, messagesPerSecond: 3)
        for _ in 0..<3_000_000 { loop.advance() }
        #expect(loop.nextDue.distance(to: 1_000_000_000_000_000).magnitude <= 1)
    }
}
