/// How many members of a share group a node has, or a part of it.
public struct GroupSize: Equatable, Sendable {
    /// How many of them have clients that are connected.
    public var connected: Int
    /// How many of them have sessions that last while their clients are away.
    public var away: Int

    public init(connected: Int = 0, away: Int = 0) { (self.connected, self.away) = (connected, away) }

    var isEmpty: Bool { connected == 0 && away == 0 }

    static func + (left: Self, right: Self) -> Self {
        Self(connected: left.connected + right.connected, away: left.away + right.away)
    }
}
