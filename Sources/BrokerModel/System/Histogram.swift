/// How long something took, counted in buckets with fixed bounds: what Prometheus calls a histogram.
///
/// 17 bounds from 50 µs to 10 s, and a bucket for what took longer. Belongs to the loop that records, which adds to its own memory and takes
/// no lock; copied out for whoever asks.
public struct Histogram: Sendable, Equatable {
    /// The upper bounds of the buckets but the last, each bound included, in microseconds.
    public static let boundsMicroseconds: [UInt64] = [
        50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
        10_000_000,
    ]

    private var counts = InlineArray<18, UInt64>(repeating: 0)
    /// Of all that was recorded.
    public private(set) var sumMicroseconds: UInt64 = 0

    public init() {}

    /// How often something took longer than the bound before, and no longer than the bound with this index: 0 to 17.
    public func count(inBucket bucket: Int) -> UInt64 { counts[bucket] }

    /// How many there are.
    public var count: UInt64 { counts.indices.reduce(0) { $0 &+ counts[$1] } }

    /// Something took so long, `times` times.
    @inline(__always)
    public mutating func record(_ microseconds: UInt64, times: UInt64 = 1) {
        counts[Self.bucket(of: microseconds)] &+= times
        sumMicroseconds &+= microseconds &* times
    }

    /// Adds another one.
    public mutating func add(_ other: Histogram) {
        for bucket in counts.indices { counts[bucket] &+= other.counts[bucket] }
        sumMicroseconds &+= other.sumMicroseconds
    }

    public static func == (left: Histogram, right: Histogram) -> Bool {
        left.sumMicroseconds == right.sumMicroseconds && left.counts.indices.allSatisfy { left.counts[$0] == right.counts[$0] }
    }

    /// No two bounds have the same number of binary digits, so that number tells all but one of them apart from the value. Looked up, not
    /// branched upon: nobody can guess how long the next one took.
    @inline(__always)
    package static func bucket(of microseconds: UInt64) -> Int {
        let digits = min(UInt64.bitWidth &- microseconds.leadingZeroBitCount, 25)
        return Int(below[digits]) &+ (microseconds > bounds[digits] ? 1 : 0)
    }

    /// By the number of digits: how many bounds have less of them.
    private static let below: InlineArray<26, UInt8> = [
        0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14, 15, 16, 17,
    ]

    /// By the number of digits: the bound that has so many, or one that no value of so many exceeds.
    private static let bounds: InlineArray<26, UInt64> = [
        .max, .max, .max, .max, .max, .max, 50, 100, 250, 500, 1_000, .max, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
        500_000, 1_000_000, .max, 2_500_000, 5_000_000, 10_000_000, .max,
    ]
}
