import Testing

@testable import MartletServer

@Suite struct StopDeadlinesTests {
    @Test func `without a signal nothing ends`() {
        let deadlines = StopDeadlines()
        #expect(deadlines.due(now: .max) == nil)
        #expect(deadlines.next == nil)
    }

    @Test func `a graceful end that is held up ends within its bound, always`() {
        var deadlines = StopDeadlines()
        #expect(deadlines.signalled(15, now: 1000) == .stop)
        let end = 1000 + MartletServer.Limits.stopMillisecondsMax
        #expect(deadlines.next == end)
        #expect(deadlines.due(now: end - 1) == nil)
        #expect(deadlines.due(now: end) == .stopOverdue)
    }

    @Test func `a second signal ends at once, but none that is sent twice`() {
        var deadlines = StopDeadlines()
        #expect(deadlines.signalled(15, now: 1000) == .stop)
        #expect(deadlines.signalled(2, now: 1001) == nil)
        #expect(deadlines.due(now: 1001) == nil)
        let end = 1000 + MartletServer.Limits.graceMilliseconds
        #expect(deadlines.next == end)
        #expect(deadlines.due(now: end) == .stopAtOnce(signal: 2))
    }
}
