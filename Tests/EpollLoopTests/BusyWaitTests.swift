import Testing

@testable import EpollLoop

/// Whether a loop waits awake after a blocking task.
@Suite struct BusyWaitTests {
    /// How long the loop stays awake after a blocking task, in microseconds; then something comes after `wait`.
    private func stay(_ busyWait: inout BusyWait, untilSomethingComesAfter wait: UInt64) -> UInt64 {
        busyWait.cameBack()
        #expect(busyWait.isDue)
        defer { busyWait.end(afterMicroseconds: wait) }
        return busyWait.begin()
    }

    @Test func `a loop stays awake when somebody spoke soon after the blocking task before, and only then`() {
        var busyWait = BusyWait(processors: 2)
        #expect(stay(&busyWait, untilSomethingComesAfter: 100) == 0)
        #expect(stay(&busyWait, untilSomethingComesAfter: 30) == BusyWait.awakeMicrosecondsMax)
        #expect(stay(&busyWait, untilSomethingComesAfter: 1000) == BusyWait.awakeMicrosecondsMax)
        #expect(stay(&busyWait, untilSomethingComesAfter: 1000) == 0)
    }

    @Test func `there is one busy wait a blocking task, and none without`() {
        var busyWait = BusyWait(processors: 2)
        #expect(!busyWait.isDue)
        busyWait.cameBack()
        _ = busyWait.begin()
        #expect(!busyWait.isDue)
    }

    @Test func `with one processor nobody could speak meanwhile`() {
        var busyWait = BusyWait(processors: 1)
        busyWait.cameBack()
        #expect(!busyWait.isDue)
    }
}
