import ClientCore
import TestBasics
import Testing

@Suite struct ReconnectTests {
    @Test func `pauses double up to the longest, and chance takes up to half of them`() {
        var generator = SeededGenerator(seed: 1)
        for _ in 0..<100 {
            var schedule = ReconnectSchedule(.exponential(fromMilliseconds: 1000, toMilliseconds: 120_000))
            for whole: UInt64 in [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 120_000, 120_000] {
                let pause = schedule.failed(chance: generator.next())
                #expect(pause.map { (whole / 2...whole).contains($0) } == true)
            }
        }
    }

    @Test func `a policy of never has no pause, and one that was reset begins anew`() {
        var never = ReconnectSchedule(.never)
        let none = never.failed(chance: 1)
        #expect(none == nil)
        var schedule = ReconnectSchedule(.exponential(fromMilliseconds: 100, toMilliseconds: 100_000))
        for _ in 0..<100 {
            let pause = schedule.failed(chance: 0)
            #expect(pause.map { $0 <= 100_000 } == true)
        }
        schedule.reset()
        let pause = schedule.failed(chance: 0)
        #expect(pause == 50)
    }

    @Test func `servers have their turn, and a pause comes when all have had it`() {
        var choice = ServerChoice(count: 3)
        var pauses = (0..<3).map { _ in choice.failed() }
        #expect(pauses == [false, false, true])
        #expect(choice.current == 0)
        _ = choice.failed()
        choice.succeeded()
        #expect(choice.current == 1)
        pauses = (0..<3).map { _ in choice.failed() }
        #expect(pauses == [false, false, true])
    }

    @Test func `servers that send their clients to each other are not followed for ever`() {
        var choice = ServerChoice(count: 1)
        let followed = (0..<6).map { _ in choice.mayFollow() }
        #expect(followed == [true, true, true, true, false, false])
        // Letting a client in and sending it on at once is no better.
        choice.succeeded()
        var isFollowed = choice.mayFollow()
        #expect(!isFollowed)
        choice.lasted()
        isFollowed = choice.mayFollow()
        #expect(isFollowed)
    }
}
