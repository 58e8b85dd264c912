import Testing

@testable import EpollLoop

/// Whether a loop waits awake after an errand.
@Suite struct VigilTests {
    /// How long the loop stays awake after an errand, in microseconds; then something comes after `wait`.
    private func stay(_ vigil: inout Vigil, untilSomethingComesAfter wait: UInt64) -> UInt64 {
        vigil.cameBack()
        #expect(vigil.isDue)
        defer { vigil.end(afterMicroseconds: wait) }
        return vigil.begin()
    }

    @Test func `a loop stays awake when somebody spoke soon after the errand before, and only then`() {
        var vigil = Vigil(processors: 2)
        #expect(stay(&vigil, untilSomethingComesAfter: 100) == 0)
        #expect(stay(&vigil, untilSomethingComesAfter: 30) == Vigil.awakeMicrosecondsMax)
        #expect(stay(&vigil, untilSomethingComesAfter: 1000) == Vigil.awakeMicrosecondsMax)
        #expect(stay(&vigil, untilSomethingComesAfter: 1000) == 0)
    }

    @Test func `there is one vigil an errand, and none without`() {
        var vigil = Vigil(processors: 2)
        #expect(!vigil.isDue)
        vigil.cameBack()
        _ = vigil.begin()
        #expect(!vigil.isDue)
    }

    @Test func `with one processor nobody could speak meanwhile`() {
        var vigil = Vigil(processors: 1)
        vigil.cameBack()
        #expect(!vigil.isDue)
    }
}
