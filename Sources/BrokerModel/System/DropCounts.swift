/// How many messages were dropped for each reason. Empty, and without memory of its own, as long as there are none.
public struct DropCounts: Sendable, Equatable {
    /// By the reason's number, or nothing.
    private var counts: [UInt64] = []

    public init() {}

    public subscript(reason: DropReason) -> UInt64 {
        get { counts.isEmpty ? 0 : counts[Int(reason.rawValue)] }
        set {
            if counts.isEmpty { counts = Array(repeating: 0, count: DropReason.allCases.count) }
            counts[Int(reason.rawValue)] = newValue
        }
    }

    public var total: UInt64 { counts.reduce(0, &+) }

    /// Adds another shard's counts.
    public mutating func add(_ other: DropCounts) {
        for reason in DropReason.allCases where other[reason] > 0 { self[reason] &+= other[reason] }
    }

    /// `2 queue full, 1 expired`.
    package var words: String {
        DropReason.allCases.filter { self[$0] > 0 }.map { "\(self[$0]) \($0.words)" }.joined(separator: ", ")
    }
}
