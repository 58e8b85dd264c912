import Testing

@testable import EpollLoop

@Suite struct DoorbellTests {
    @Test func `a sleeping loop is to be woken once, however often it rings`() {
        let doorbell = Doorbell()
        let sleptFirst = doorbell.prepareToSleep()
        let rings = (0..<3).map { _ in doorbell.ring() }
        doorbell.answer()
        let sleptSecond = doorbell.prepareToSleep()
        doorbell.answer()
        #expect(sleptFirst && sleptSecond)
        #expect(rings == [true, false, false])
    }

    @Test func `a ring while awake forbids the next sleep and wakes nobody`() {
        let doorbell = Doorbell()
        let rings = (0..<2).map { _ in doorbell.ring() }
        let sleptAfterRing = doorbell.prepareToSleep()
        doorbell.answer()
        let sleptAfterAnswer = doorbell.prepareToSleep()
        #expect(rings == [false, false])
        #expect(!sleptAfterRing)
        #expect(sleptAfterAnswer)
    }
}
