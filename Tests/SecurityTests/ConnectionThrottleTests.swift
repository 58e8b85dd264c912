import Security
import Testing

@Suite struct ConnectionThrottleTests {
    private let throttle = ConnectionThrottle()

    private func admitted(_ network: String, _ count: Int, now: UInt64, perSecondMax: Int = 4) -> Int {
        (0..<count).count { _ in throttle.connected(from: network, perSecondMax: perSecondMax, now: now) == .admitted }
    }

    @Test func `a second's worth comes at once, and then one for each part of a second`() {
        #expect(admitted("a", 10, now: 5000) == 4)
        #expect(admitted("a", 10, now: 5249) == 0)
        #expect(admitted("a", 10, now: 5250) == 1)
        #expect(admitted("a", 10, now: 5750) == 2)
        #expect(admitted("a", 10, now: 60_000) == 4)
    }

    @Test(arguments: [1, 3, 7, 1000, 100_000]) func `no more than so many are let in at an even pace`(perSecondMax: Int) {
        let count = (0..<10_000).reduce(0) { sum, step in
            sum + admitted("a", 3, now: 1_000_000 + UInt64(step), perSecondMax: perSecondMax)
        }
        // Ten seconds, and the second that may come at once.
        #expect(count <= 11 * perSecondMax + perSecondMax / 100 + 1)
        #expect(count >= min(10 * perSecondMax, 30_000))
    }

    @Test func `one network does not use up what another may`() {
        #expect(admitted("a", 10, now: 0) == 4)
        #expect(admitted("b", 10, now: 0) == 4)
    }

    @Test func `the first refusal of several is news`() {
        #expect(admitted("a", 4, now: 0) == 4)
        #expect(throttle.connected(from: "a", perSecondMax: 4, now: 1) == .refused(isNews: true))
        #expect(throttle.connected(from: "a", perSecondMax: 4, now: 2) == .refused(isNews: false))
        #expect(throttle.connected(from: "a", perSecondMax: 4, now: 250) == .admitted)
        #expect(throttle.connected(from: "a", perSecondMax: 4, now: 251) == .refused(isNews: true))
    }

    @Test func `many networks do not make it forget one that goes on`() {
        var count = 0
        for step in 0..<100_000 {
            let now = 1_000_000 + UInt64(step)
            _ = throttle.connected(from: "other \(step)", perSecondMax: 4, now: now)
            if step.isMultiple(of: 10) { count += admitted("a", 1, now: now) }
        }
        #expect(count <= 404 + 40, "four in each of a hundred seconds, and some more where it was forgotten after all")
    }
}
