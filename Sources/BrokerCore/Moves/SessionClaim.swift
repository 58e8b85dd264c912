public import MQTTCodec

/// A client has come for its session, which another node of the cluster may keep.
public struct SessionClaim: Equatable, Sendable {
    /// The Client Identifier.
    public var identifier: [UInt8]
    /// Seconds that the session is to outlive the connection; `UInt32.max` for ever.
    public var expiryInterval: UInt32
    /// Whether the client begins anew, whatever there is.
    public var cleanStart: Bool
    /// Whether this shard has something of the session, which may be out of date.
    public var hasSession: Bool
    /// By which claim this node has kept it; 0 for none. Of all nodes that have something, the newest is where this is highest.
    public var epoch: UInt64
    /// The client's user and its mount point: a session is one user's behind one mount point.
    public var userName: EncodedString?
    public var mountPoint: [UInt8]

    public init(
        identifier: [UInt8], expiryInterval: UInt32, cleanStart: Bool, hasSession: Bool, epoch: UInt64 = 0,
        userName: EncodedString? = nil, mountPoint: [UInt8] = []
    ) {
        (self.identifier, self.expiryInterval) = (identifier, expiryInterval)
        (self.cleanStart, self.hasSession, self.epoch) = (cleanStart, hasSession, epoch)
        (self.userName, self.mountPoint) = (userName, mountPoint)
    }
}

/// Where a session is that this node keeps from now on.
public enum SessionOrigin: Equatable, Sendable {
    /// What this shard has of it is the newest; if it has nothing, the session is new.
    case here
    /// Nobody has anything, or it begins anew: what this shard may have is out of date, and goes without its will.
    case nowhere
    /// The node that kept it gives it away: its pieces follow.
    case arriving
}
