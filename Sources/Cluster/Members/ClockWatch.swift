/// How far the clocks of other nodes are from this one's, by what they say with each summary.
///
///     theirs, as it was said ── on its way for a while ──► mine, as it is heard:   theirs − mine = difference − delay
///
/// A delay makes a clock look late, never early. So of what was heard lately the greatest counts, which was on its way for the shortest time; and
/// that a clock is late is believed only when nothing that has come for some time was any faster. Pure.
public struct ClockWatch: Sendable {
    private struct Clock: Sendable {
        /// In milliseconds, the newest last.
        var differences: [Int64] = []
        var isTold = false
    }

    private var clocks: [NodeID: Clock] = [:]

    public init() {}

    /// A node has said what its clock shows; both in milliseconds since 1970.
    public mutating func heard(_ theirs: UInt64, of node: NodeID, at mine: UInt64) {
        guard theirs > 0, clocks[node] != nil || clocks.count < Limits.membersMax else { return }
        let most: UInt64 = 1 << 62
        var clock = clocks[node] ?? Clock()
        clock.differences.append(Int64(min(theirs, most)) - Int64(min(mine, most)))
        if clock.differences.count > Limits.clockSamples { clock.differences.removeFirst() }
        clocks[node] = clock
    }

    /// By how many milliseconds a node's clock is ahead of this one's, less than 0 for behind; nil while that is not known.
    public func offset(of node: NodeID) -> Int64? {
        guard let clock = clocks[node], let greatest = clock.differences.max() else { return nil }
        return greatest > 0 || clock.differences.count == Limits.clockSamples ? greatest : nil
    }

    /// Whether that is more than clocks may differ.
    public static func isFar(_ offset: Int64) -> Bool { offset.magnitude > Limits.clockOffsetMillisecondsMax }

    /// Forgets all nodes but these.
    public mutating func keep(_ nodes: Set<NodeID>) { clocks = clocks.filter { nodes.contains($0.key) } }

    /// The nodes whose clocks have begun to differ, or do so no more, since this was asked last, with their offsets.
    public mutating func news() -> [(node: NodeID, offset: Int64, isFar: Bool)] {
        var news: [(node: NodeID, offset: Int64, isFar: Bool)] = []
        for node in clocks.keys.sorted() {
            guard let offset = offset(of: node), let isTold = clocks[node]?.isTold else { continue }
            // One at the very bound is not told of again and again.
            let isFar = isTold ? offset.magnitude > Limits.clockOffsetMillisecondsMax / 2 : Self.isFar(offset)
            guard isFar != isTold else { continue }
            clocks[node]?.isTold = isFar
            news.append((node, offset, isFar))
        }
        return news
    }
}
