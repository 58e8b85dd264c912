/// A rate per minute, averaged over the last 1, 5 and 15 minutes with weights that fall off exponentially, as mosquitto reckons it.
struct LoadAverage {
    static let minutes = [1, 5, 15]

    private(set) var values = [0.0, 0.0, 0.0]
    private var lastTotal: UInt64 = 0

    /// Takes in a total that is `seconds` newer than the last one.
    mutating func update(total: UInt64, seconds: Double) {
        guard seconds > 0 else { return }
        let perMinute = Double(total > lastTotal ? total - lastTotal : 0) * 60 / seconds
        lastTotal = total
        for (position, minutes) in Self.minutes.enumerated() {
            let weight = Self.exponential(-seconds / (Double(minutes) * 60))
            values[position] = perMinute + weight * (values[position] - perMinute)
        }
    }

    /// e to the power of `exponent`, for exponents of 0 and below: the series, after halving the exponent until it is small.
    static func exponential(_ exponent: Double) -> Double {
        guard exponent > -700 else { return 0 }
        var reduced = exponent
        var halvings = 0
        while reduced < -0.5 {
            reduced /= 2
            halvings += 1
        }
        var (term, sum) = (1.0, 1.0)
        for step in 1..<14 {
            term *= reduced / Double(step)
            sum += term
        }
        for _ in 0..<halvings { sum *= sum }
        return sum
    }

    /// A value with two digits behind the point.
    static func text(_ value: Double) -> String {
        let hundredths = Int((value * 100).rounded())
        let fraction = hundredths % 100
        return "\(hundredths / 100).\(fraction < 10 ? "0" : "")\(fraction)"
    }
}
