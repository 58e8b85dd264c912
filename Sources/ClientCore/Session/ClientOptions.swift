public import MQTTCodec

/// Who a client is, and what it asks of the server.
public struct ClientOptions: Sendable {
    public var version: ProtocolVersion = .v5
    public var clientIdentifier: EncodedString = ""
    public var userName: EncodedString?
    public var password: [UInt8]?
    public var will: Will?
    /// Whether the server forgets what it knew of this client. (Clean Session before MQTT 5.0.)
    public var cleanStart = true
    /// In seconds; nil ends the session with the connection.
    public var sessionExpiryInterval: UInt32?
    /// In seconds; 0 for none. The server may order another.
    public var keepAliveSeconds: UInt16 = 60
    /// How many QoS 1 and 2 messages of the server may be unacknowledged.
    public var receiveMaximum: UInt16 = 1000
    /// The largest packet accepted, in bytes; nil for the standard's own limit.
    public var maximumPacketSize: UInt32?
    /// How many Topic Aliases the server may set.
    public var topicAliasMaximum: UInt16 = 16
    /// Whether the client sets Topic Aliases itself, as far as the server lets it.
    public var setsTopicAliases = true
    /// Other properties of CONNECT, such as User Properties and the Authentication Method.
    public var connectProperties = Properties()
    /// How many QoS 1 and 2 messages are sent before one is acknowledged. The server's Receive Maximum may lower it.
    public var inFlightMessagesMax = 100
    /// How many messages wait for that or for a connection; beyond it `publish` refuses.
    public var waitingMessagesMax = 10_000
    /// Whether messages are acknowledged when they are told; if not, `acknowledge` is to be called for each of QoS 1 and 2.
    public var acknowledgesAutomatically = true
    /// Whether the session says what changes in it, so that it can go on after a crash; then `takeChanges` is to be called.
    public var isJournaled = false
    /// How long the server may take to answer CONNECT, in milliseconds.
    public var connectTimeoutMilliseconds: UInt64 = 10_000
    /// How long it may take to answer one of the SUBSCRIBEs and UNSUBSCRIBEs that are unanswered, in milliseconds. Longer than CONNECT: its answer
    /// comes behind the messages that are on their way.
    public var requestTimeoutMilliseconds: UInt64 = 60_000
    /// How long it may take to answer PINGREQ, in milliseconds; the Keep Alive, where that is shorter.
    public var pingTimeoutMilliseconds: UInt64 = 10_000
    /// Whether the connection is another broker's. (mosquitto's bridges say so with the highest bit of the level.)
    public var isBridge = false

    public init() {}
}
