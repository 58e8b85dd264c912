import TestBasics
import Testing

@testable import Bench

@Suite struct LatencyHistogramTests {
    private func histogram(_ values: some Sequence<UInt64>) -> LatencyHistogram {
        var histogram = LatencyHistogram()
        for value in values { histogram.record(value) }
        return histogram
    }

    @Test func `nothing that was recorded is 0`() {
        #expect(LatencyHistogram().valueAtPercentile(50) == 0 && LatencyHistogram().totalCount == 0)
    }

    @Test(arguments: [0, 1, 63, 64, 131_071, 131_072, 131_200, 999_999, 1 << 20, 59_999_999_999, 60_000_000_000] as [UInt64])
    func `one value is every percentile, exactly`(value: UInt64) {
        let histogram = histogram([value])
        for percentile in [0, 0.001, 50, 99.999, 100] { #expect(histogram.valueAtPercentile(percentile) == value) }
    }

    @Test func `more than a minute counts as a minute`() {
        #expect(histogram([.max]).valueAtPercentile(100) == 60_000_000_000)
    }

    @Test(arguments: [UInt64(1), 2, 3]) func `a percentile is what sorting finds, to three digits and never less`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        // Of every magnitude.
        let values = (0..<5000).map { _ in
            UInt64.random(in: 0..<60_000_000_000, using: &random) >> UInt64.random(in: 0..<36, using: &random)
        }
        let sorted = values.sorted()
        let histogram = histogram(values)
        for percentile in [0.01, 1, 10, 25, 50, 75, 90, 99, 99.9, 99.99] {
            let exact = sorted[max(1, Int((percentile.nextDown * 5000 / 100).rounded(.up))) - 1]
            let found = histogram.valueAtPercentile(percentile)
            #expect(found >= exact && found - exact <= max(64, exact / 1000), "\(percentile) %: \(found) for \(exact)")
        }
        #expect(histogram.valueAtPercentile(0) == sorted.first && histogram.valueAtPercentile(100) == sorted.last)
    }

    @Test func `what is added counts as if it had been recorded, and what was reset never was`() {
        let (low, high) = (histogram(1...1000), histogram((1...1000).map { $0 * 40_000_000 }))
        var both = low
        both.add(high)
        both.add(LatencyHistogram())
        #expect(both == histogram(Array(1...1000) + (1...1000).map { $0 * 40_000_000 }))
        #expect(both.totalCount == 2000 && both.valueAtPercentile(100) == 40_000_000_000)
        both.reset()
        #expect(both == LatencyHistogram())
    }
}
