public import BrokerModel

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
    /// Whether the node reads the log, so that it can be dealt what stands there.
    public var readsLog = false

    public init(node: UInt64, number: UInt32, shareName: [UInt8], filter: [UInt8], connected: Int, away: Int) {
        (self.node, self.number, self.shareName, self.filter) = (node, number, shareName, filter)
        (self.connected, self.away) = (connected, away)
    }
}

/// To which nodes share groups deal a message.
public struct GroupDealing: Sendable {
    /// The nodes that deal it when it comes, each with its number of the group; this one is not among them.
    public var shares: [(node: UInt64, number: UInt32)]
    /// How often the message was passed on from one node to another; then it is for these groups alone.
    public var hops: UInt8
    /// The nodes that deal it when they read it in the log.
    public var logged: [LoggedShare]
    /// Of what was passed on by the log: what it was there before, so that this is not dealt again.
    public var before = MessageName.none

    public init(shares: [(node: UInt64, number: UInt32)], hops: UInt8, logged: [LoggedShare] = []) {
        (self.shares, self.hops, self.logged) = (shares, hops, logged)
    }
}

/// The node whose turn it is with a message of the log.
public struct LoggedShare: Equatable, Sendable {
    public var node: UInt64
    /// Stands for the group's name on all nodes.
    public var group: UInt64
    /// The member that the node itself has chosen among its own, by its session's key; 0 for any.
    public var member: UInt64

    public init(node: UInt64, group: UInt64, member: UInt64 = 0) { (self.node, self.group, self.member) = (node, group, member) }
}

/// The groups for which a message of another node is dealt here.
public struct DealtGroups: Sendable {
    /// Each as ShareName and filter.
    public var names: [(shareName: [UInt8], filter: [UInt8])]
    public var hops: UInt8

    public init(names: [(shareName: [UInt8], filter: [UInt8])], hops: UInt8) { (self.names, self.hops) = (names, hops) }
}
