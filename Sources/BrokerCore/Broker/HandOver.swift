public import BrokerModel
public import MQTTCodec

/// What travels with a connection to the shard that its client lives on.
public struct HandOver: Sendable {
    /// The index of that shard.
    public let shard: Int
    public let info: ConnectionInfo
    /// The CONNECT that told who the client is.
    public let connect: ConnectPacket
    /// The login that the client has passed already, where that had to come first: its Client Identifier is its user
    /// name. Without it the new shard asks.
    public var login: VerifiedLogin?
    /// What the client sent after it and nobody has looked at yet.
    public let unread: [UInt8]

    /// The login, if it was decided.
    public var connectedLogin: ConnectedLogin? {
        login.map { ConnectedLogin(info: info, userName: $0.userName, method: connect.properties.authenticationMethod) }
    }
}
