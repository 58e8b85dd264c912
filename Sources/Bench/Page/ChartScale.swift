internal import Glibc

/// Where the values of an axis lie, from 0 at its beginning to 1 at its end, and which of them are marked.
struct ChartScale: Equatable {
    struct Tick: Equatable {
        let position: Double
        let label: String
    }

    private let low: Double
    private let high: Double
    private let isLogarithmic: Bool
    private(set) var ticks: [Tick] = []

    private init(low: Double, high: Double, isLogarithmic: Bool) {
        (self.low, self.high, self.isLogarithmic) = (low, high, isLogarithmic)
    }

    /// From 0 to a round number above `top`, with four to six marks.
    static func linear(top: Double, label: (Double) -> String) -> ChartScale {
        let top = top > 0 ? top : 1
        let step = step(for: top)
        let count = max(1, Int((top / step - 0.001).rounded(.up)))
        var scale = ChartScale(low: 0, high: step * Double(count), isLogarithmic: false)
        scale.ticks = (0...count).map { Tick(position: Double($0) / Double(count), label: label(step * Double($0))) }
        return scale
    }

    /// From 0 to exactly `end`, with marks at round numbers.
    static func time(end: Double) -> ChartScale {
        let (unit, name) = end > 7200 ? (3600.0, " h") : end > 150 ? (60, " min") : (1, " s")
        let step = step(for: end / unit) * unit
        var scale = ChartScale(low: 0, high: max(end, 1e-9), isLogarithmic: false)
        scale.ticks = stride(from: 0, through: end * 1.0001, by: step).map {
            Tick(position: $0 / scale.high, label: ($0 / unit).shortText + name)
        }
        return scale
    }

    /// From a round number below `bottom` to one above `top`; both are above 0. Marks are powers of ten, and 2 and 5
    /// times those where the axis is short.
    static func logarithmic(bottom: Double, top: Double, label: (Double) -> String) -> ChartScale {
        let marks = (-3...15).flatMap { power in [1.0, 2, 5].map { $0 * pow(10, Double(power)) } }
        let low = marks.last { $0 <= bottom } ?? bottom
        let high = marks.first { $0 >= top && $0 > low } ?? top
        let isLong = high / low > 200
        var scale = ChartScale(low: low, high: high, isLogarithmic: true)
        scale.ticks = marks.enumerated().filter { index, mark in
            mark >= low * 0.999 && mark <= high * 1.001 && (!isLong || index % 3 == 0)
        }.map { Tick(position: scale.position($1), label: label($1)) }
        return scale
    }

    /// Percentiles, each nine as wide as the one before.
    static func percentiles(last: Double) -> ChartScale {
        var scale = ChartScale(low: 1, high: max(10, 100 / (100 - min(last, 99.99999))), isLogarithmic: true)
        var ticks = [Tick(position: 0, label: "0 %"), Tick(position: scale.position(2), label: "50 %")]
        for (percentile, label) in [(90.0, "90 %"), (99, "99 %"), (99.9, "99.9 %"), (99.99, "99.99 %"), (99.999, "99.999 %")]
        where percentile <= last + 1e-9 {
            ticks.append(Tick(position: scale.position(100 / (100 - percentile)), label: label))
        }
        scale.ticks = ticks
        return scale
    }

    /// 0 to 1 for what is on the axis.
    func position(_ value: Double) -> Double {
        guard isLogarithmic else { return (value - low) / (high - low) }
        return (log(max(value, low)) - log(low)) / (log(high) - log(low))
    }

    /// 1, 2 or 5 times a power of ten, of which five or so make `top`.
    private static func step(for top: Double) -> Double {
        let power = pow(10, floor(log10(top / 5)))
        let rest = top / 5 / power
        return (rest <= 1.0001 ? 1 : rest <= 2.0001 ? 2 : rest <= 5.0001 ? 5 : 10) * power
    }
}
