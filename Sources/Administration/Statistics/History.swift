/// All series over 15 minutes by the second and over 24 hours by the minute, in memory that is given once: less than 0.4 MB.
struct History {
    private var seconds = SampleRing(capacity: Limits.historySeconds, step: 1)
    private var minutes = SampleRing(capacity: Limits.historyMinutes, step: 60)
    /// The values of this minute so far.
    private var minute: [[Float]] = []

    /// Adds a second.
    ///
    /// - Parameters:
    ///   - values: one for each series.
    ///   - second: since 1970.
    mutating func add(_ values: [Float], second: UInt64) {
        guard second > seconds.lastSecond else { return }
        if !minute.isEmpty, second / 60 != seconds.lastSecond / 60 {
            minutes.add(Self.summed(minute), second: seconds.lastSecond / 60 * 60)
            minute = []
        }
        seconds.add(values, second: second)
        minute.append(values)
    }

    /// Of a step of 1 or 60 seconds.
    func ring(step: Int) -> SampleRing { step == 60 ? minutes : seconds }

    private static func summed(_ minute: [[Float]]) -> [Float] {
        Series.allCases.enumerated().map { place, series in
            let values = minute.map { $0[place] }.filter { !$0.isNaN }
            guard !values.isEmpty else { return .nan }
            return series.isLongest ? values.max() ?? .nan : values.reduce(0, +) / Float(values.count)
        }
    }
}

/// The last values of all series, one for each step; for a step that nothing is known of, no numbers.
///
/// Invariant: `values.count == capacity * number of series`; `count <= capacity`.
struct SampleRing {
    let capacity: Int
    /// Seconds.
    let step: UInt64
    private var values: [Float]
    /// Where the next values go.
    private var next = 0
    private(set) var count = 0
    /// Of the newest values, since 1970.
    private(set) var lastSecond: UInt64 = 0

    init(capacity: Int, step: UInt64) {
        (self.capacity, self.step) = (capacity, step)
        values = Array(repeating: .nan, count: capacity * Series.allCases.count)
    }

    mutating func add(_ row: [Float], second: UInt64) {
        let missed = count == 0 ? 0 : Int(clamping: (second - lastSecond) / step) - 1
        for _ in 0..<min(max(0, missed), capacity) { append(Array(repeating: .nan, count: row.count)) }
        append(row)
        lastSecond = second
    }

    private mutating func append(_ row: [Float]) {
        values.replaceSubrange(next * row.count..<(next + 1) * row.count, with: row)
        next = (next + 1) % capacity
        count = min(count + 1, capacity)
    }

    /// Of the oldest values, since 1970; nil for none.
    var firstSecond: UInt64? { count == 0 ? nil : lastSecond - min(lastSecond, UInt64(count - 1) * step) }

    /// The values of one series, the oldest first.
    func values(of series: Int) -> [Double?] {
        (0..<count).map { age in
            let value = values[(next + capacity - count + age) % capacity * Series.allCases.count + series]
            return value.isNaN ? nil : (Double(value) * 1000).rounded() / 1000
        }
    }

    /// The newest value of one series.
    func newest(of series: Int) -> Double? { count == 0 ? nil : values(of: series).last ?? nil }
}
