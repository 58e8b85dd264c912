public import MQTTCodec

/// The login of a local client: what CONNECT says of a client that comes over the network.
public struct LocalLogin: Sendable {
    /// The identity whose access rules hold.
    public enum Identity: Hashable, Sendable {
        /// The broker's own: it may read and write everything that clients may.
        case broker
        /// A user's: the rules of the first listener that has any. Nothing else of a listener holds, neither its mount point nor its limits.
        case user(EncodedString)
    }

    public var identity: Identity
    /// Must live on the shard that the client is attached to, see `ShardPlacement`.
    public var clientIdentifier: EncodedString
    public var cleanStart = true
    /// Seconds that the session outlives the client; `UInt32.max` for ever.
    public var sessionExpiryInterval: UInt32 = 0
    public var will: Will?
    /// How many messages may be handed to the party before it acknowledges the first of them, 1 to 65,535.
    public var messagesMax: UInt16 = 256
    /// The bytes of those; one larger message is handed out alone. What does not fit waits as for any client that does not read.
    public var bytesMax = 1 << 20
    /// How many of the party's own messages of QoS 1 and 2 may be without an outcome, 1 to 65,535.
    public var publicationsMax: UInt16 = 256

    /// Whether the party speaks MQTT 5.0 with the broker itself, CONNECT excepted: it is told `LocalEvent.bytes`, as many as it has opened
    /// room for, and answers by `BrokerShard.relay`. Nothing else of `LocalEvent` but `closed` comes then. `messagesMax` is the Receive
    /// Maximum; `bytesMax` is the room at the beginning.
    public var relays = false

    public init(_ clientIdentifier: EncodedString, identity: Identity = .broker) {
        self.clientIdentifier = clientIdentifier
        self.identity = identity
    }
}
