import Glibc
import Testing

@testable import EpollLoop

@Suite struct DoorbellTests {
    /// Reads the eventfd down: how often it was written since.
    private func writes(_ doorbell: borrowing Doorbell) -> UInt64 {
        var count: UInt64 = 0
        return read(doorbell.descriptor.rawValue, &count, 8) == 8 ? count : 0
    }

    @Test func `the eventfd is written once for each sleep, however often it rings`() throws {
        let doorbell = try Doorbell()
        let sleptFirst = doorbell.prepareToSleep()
        for _ in 0..<3 { doorbell.ring() }
        let writesFirst = writes(doorbell)
        doorbell.answer()
        let sleptSecond = doorbell.prepareToSleep()
        doorbell.answer()
        let writesSecond = writes(doorbell)
        #expect(sleptFirst && sleptSecond)
        #expect((writesFirst, writesSecond) == (1, 0))
    }

    @Test func `a ring while awake forbids the next sleep and costs no write`() throws {
        let doorbell = try Doorbell()
        for _ in 0..<2 { doorbell.ring() }
        let sleptAfterRing = doorbell.prepareToSleep()
        doorbell.answer()
        let sleptAfterAnswer = doorbell.prepareToSleep()
        let writes = writes(doorbell)
        #expect(!sleptAfterRing)
        #expect(sleptAfterAnswer)
        #expect(writes == 0)
    }
}
