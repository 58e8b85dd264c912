public import BrokerModel
public import MQTTCodec

/// Which shard a Client Identifier or a topic belongs to: the same on every shard, for as long as the broker runs.
public struct ShardPlacement: Sendable {
    public let shardCount: Int
    let hashing: TopicHash

    init(shardCount: Int, hashing: TopicHash) {
        precondition((1...64).contains(shardCount), "a broker has 1 to 64 shards")
        self.shardCount = shardCount
        self.hashing = hashing
    }

    public func shard(of clientIdentifier: EncodedString) -> Int {
        clientIdentifier.bytes.withUnsafeBytes { shard(of: $0) }
    }

    /// Where the retained message of a topic is kept.
    public func shard(of topic: TopicName) -> Int { topic.bytes.withUnsafeBytes { shard(of: $0) } }

    func hash(_ bytes: UnsafeRawBufferPointer) -> UInt64 { hashing.hash(bytes) }

    func shard(of bytes: UnsafeRawBufferPointer) -> Int {
        shardCount == 1 ? 0 : Int(hashing.hash(bytes) >> 33) % shardCount
    }
}

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
