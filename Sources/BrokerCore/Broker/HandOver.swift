public import MQTTCodec

/// What travels with a connection to the shard that its client lives on.
public struct HandOver: Sendable {
    /// The index of that shard.
    public let shard: Int
    public let info: ConnectionInfo
    /// The CONNECT that told who the client is.
    public let connect: ConnectPacket
    /// What the client sent after it and nobody has looked at yet.
    public let unread: [UInt8]
}
