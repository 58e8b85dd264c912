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

    /// No two bounds have the same number of binary digits, so that number tells all but one of them apart from the value.
    @inline(__always)
    static func bucket(of microseconds: UInt64) -> Int {
        let (below, bound) = edge(UInt64.bitWidth &- microseconds.leadingZeroBitCount)
        return microseconds > bound ? below &+ 1 : below
    }

    /// How many bounds have less binary digits, and the bound that has so many, if there is one.
    @inline(__always)
    private static func edge(_ digits: Int) -> (below: Int, bound: UInt64) {
        switch digits {
        case ..<6: (0, .max)
        case 6: (0, 50)
        case 7: (1, 100)
        case 8: (2, 250)
        case 9: (3, 500)
        case 10: (4, 1_000)
        case 11: (5, .max)
        case 12: (5, 2_500)
        case 13: (6, 5_000)
        case 14: (7, 10_000)
        case 15: (8, 25_000)
        case 16: (9, 50_000)
        case 17: (10, 100_000)
        case 18: (11, 250_000)
        case 19: (12, 500_000)
        case 20: (13, 1_000_000)
        case 21: (14, .max)
        case 22: (14, 2_500_000)
        case 23: (15, 5_000_000)
        case 24: (16, 10_000_000)
        default: (17, .max)
        }
    }
}
