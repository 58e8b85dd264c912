public import MQTTCodec

/// Names a change of a retained message.
public struct RetainedChange: Hashable, Sendable {
    /// The incarnation of the node that has made it; 0 for this one.
    public var node: UInt64
    /// Its number among that node's, which rises for those of each shard, whose index is the last byte. 0 for none.
    public var number: UInt64

    public init(node: UInt64, number: UInt64) { (self.node, self.number) = (node, number) }

    public static let none = RetainedChange(node: 0, number: 0)
}

/// A message between nodes, where it lies: valid during the call that is given it.
public struct ClusterMessage {
    public var topic: UnsafeRawBufferPointer
    /// The properties that travel unaltered, as in PUBLISH of MQTT 5.0, without their length.
    public var properties: UnsafeRawBufferPointer
    public var payload: UnsafeRawBufferPointer
    public var qos: QoS
    public var retain: Bool
    /// In milliseconds on the shards' clock; nil for never.
    public var expiresAt: UInt64?
    /// Stands for its publisher's Client Identifier, on all nodes alike; 0 for none.
    public var publisher: UInt64
    /// Whether it goes to the log as well, from which sessions that last get it.
    public var isLogged: Bool
    /// Of a message out of the log: whether it is a will, which went nowhere else.
    public var isWill = false
    /// Of a message out of the log: how many messages stand before it in its record.
    public var index = 0
    /// Of a message to be retained: what the change is called.
    public var change = RetainedChange.none
    /// Of a message to be retained: whose it is, a `StoredOrigin`; empty for the broker's own.
    public var origin = UnsafeRawBufferPointer(start: nil, count: 0)
    /// On its way out, and in the log: which nodes dispatch it to share groups; nil if none is known, and each
    /// dispatches to its own.
    public var dispatch: GroupDispatch?
    /// On its way in: for which share groups it is dispatched here; nil for all that match.
    public var dispatched: DispatchedGroups?
    /// On its way in, where its node did not know of the members of share groups: that node, and this one. Then the
    /// first other one by number that has members of a group dispatches it.
    public var undispatched: (by: UInt64, here: UInt64)?

    public init(
        topic: UnsafeRawBufferPointer, properties: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer, qos: QoS, retain: Bool,
        expiresAt: UInt64?, publisher: UInt64 = 0, isLogged: Bool = false
    ) {
        (self.topic, self.properties, self.payload) = (topic, properties, payload)
        (self.qos, self.retain, self.expiresAt) = (qos, retain, expiresAt)
        (self.publisher, self.isLogged) = (publisher, isLogged)
    }
}

/// To which nodes share groups dispatch a message.
public struct GroupDispatch: Sendable {
    /// The nodes that dispatch it when it comes, each with its number of the group; this one is not among them.
    public var shares: [GroupShare]
    /// How often the message was passed on from one node to another.
    public var hops: UInt8
    /// The nodes that dispatch it when they read it in the log.
    public var logged: [LoggedShare]
    /// Of what was passed on by the log: what it was there before, so that this is not dispatched again.
    public var before: MessageName
    /// Whether all others have had it before: it is for these groups alone. A node that takes another one's part over
    /// passes on to its own members what has not gone from one node to another.
    public var isPassedOn: Bool { hops > 0 || before != .none }

    public init(shares: [GroupShare] = [], hops: UInt8 = 0, logged: [LoggedShare] = [], before: MessageName = .none) {
        (self.shares, self.hops, self.logged, self.before) = (shares, hops, logged, before)
    }
}

/// The groups for which a message of another node is dispatched here.
public struct DispatchedGroups: Sendable {
    /// Each as ShareName and filter.
    public var names: [(shareName: [UInt8], filter: [UInt8])]
    public var hops: UInt8

    public init(names: [(shareName: [UInt8], filter: [UInt8])], hops: UInt8) { (self.names, self.hops) = (names, hops) }
}

/// A node's share group whose turn it is with a message, by the number that the node has given it.
public struct GroupShare: Equatable, Sendable {
    public var node: UInt64
    public var number: UInt32

    public init(node: UInt64, number: UInt32) { (self.node, self.number) = (node, number) }
}
