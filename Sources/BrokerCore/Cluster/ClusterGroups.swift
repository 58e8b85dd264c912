/// Members of a share group that another node has. All of them: what was told before counts no more.
public struct ClusterGroup: Sendable {
    public var node: UInt64
    /// By which that node is told that it is the group's turn there.
    public var number: UInt32
    public var shareName: [UInt8]
    /// Without `$share/NAME/`.
    public var filter: [UInt8]
    /// Members whose clients are connected, and others.
    public var connected: Int
    public var away: Int

    public init(node: UInt64, number: UInt32, shareName: [UInt8], filter: [UInt8], connected: Int, away: Int) {
        (self.node, self.number, self.shareName, self.filter) = (node, number, shareName, filter)
        (self.connected, self.away) = (connected, away)
    }
}

/// To which nodes share groups deal a message.
public struct GroupDealing: Sendable {
    /// The nodes, each with its number of the group; this one is not among them.
    public var shares: [(node: UInt64, number: UInt32)]
    /// How often the message was passed on from one node to another; then it is for these groups alone.
    public var hops: UInt8
}

/// The groups for which a message of another node is dealt here.
public struct DealtGroups: Sendable {
    /// Each as ShareName and filter.
    public var names: [(shareName: [UInt8], filter: [UInt8])]
    public var hops: UInt8

    public init(names: [(shareName: [UInt8], filter: [UInt8])], hops: UInt8) { (self.names, self.hops) = (names, hops) }
}
