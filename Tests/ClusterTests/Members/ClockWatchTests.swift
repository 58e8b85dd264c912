import Testing

@testable import Cluster

@Suite struct ClockWatchTests {
    private let node = NodeID(store: 2, incarnation: 1)
    private let wall: UInt64 = 1_700_000_000_000

    /// What is made of a clock that is ahead by `offset`, of whose words each was on its way for so many milliseconds.
    private func watch(_ offset: Int64, delays: [UInt64]) -> ClockWatch {
        var watch = ClockWatch()
        for (index, delay) in delays.enumerated() {
            let said = wall + UInt64(index) * 2000
            watch.heard(UInt64(Int64(said) + offset), of: node, at: said + delay)
        }
        return watch
    }

    /// The same, if that is too much.
    private func trouble(_ offset: Int64, delays: [UInt64]) -> Int64? {
        watch(offset, delays: delays).offset(of: node).flatMap { ClockWatch.isFar($0) ? $0 : nil }
    }

    @Test func `a clock that is ahead is known at once, whatever is on its way`() {
        #expect(trouble(90_000, delays: [3]) == 89_997)
        #expect(trouble(90_000, delays: [400, 3, 5000]) == 89_997)
        #expect(trouble(900, delays: [0]) == nil)
    }

    @Test func `a clock that is behind is known when nothing has come faster for some time`() {
        let few = Array(repeating: UInt64(3), count: Limits.clockSamples - 1)
        #expect(watch(-90_000, delays: few).offset(of: node) == nil)
        #expect(trouble(-90_000, delays: few + [3]) == -90_003)
        // What is late for a while is no clock that is behind.
        let late = Array(repeating: UInt64(4000), count: Limits.clockSamples - 1)
        #expect(watch(0, delays: late + [20]).offset(of: node) == -20)
        #expect(trouble(0, delays: late + [20]) == nil)
    }

    @Test func `a clock is told of once, and once more when it is right again`() {
        var watch = watch(90_000, delays: [3])
        var news = (0..<2).map { _ in watch.news().map(\.isFar) }
        #expect(news == [[true], []])
        for number in 1...Limits.clockSamples {
            let said = wall + UInt64(number) * 2000
            watch.heard(said, of: node, at: said + 3)
        }
        news = (0..<2).map { _ in watch.news().map(\.isFar) }
        #expect(news == [[false], []])
        watch.keep([])
        #expect(watch.offset(of: node) == nil)
    }

    @Test func `a clock of nonsense is taken for one that is far ahead, and one that says nothing for none`() {
        var watch = ClockWatch()
        watch.heard(0, of: node, at: wall)
        #expect(watch.offset(of: node) == nil)
        watch.heard(.max, of: node, at: wall)
        #expect(watch.offset(of: node).map { ClockWatch.isFar($0) && $0 > 0 } == true)
        watch.heard(wall, of: node, at: .max)
        let news = watch.news()
        #expect(news.count == 1)
    }
}
