public import MQTTCodec

/// A connection that has ended, or a client that was not let in. Times are milliseconds on the shard's clock.
public struct ClosedConnectionRow: Sendable {
    /// Where it stands among all of all shards, the later the higher.
    public let position: ClosedPosition
    /// Nil where the client never said; cut if it is long, and so are other names.
    public let clientIdentifier: EncodedString?
    public let userName: EncodedString?
    public let address: String
    public let port: UInt16
    /// An index into `BrokerSettings.listeners`.
    public let listener: Int
    /// Whether the client was let in.
    public let wasAdmitted: Bool
    /// When it was let in, or came.
    public let from: UInt64
    /// What DISCONNECT or CONNACK says or would say, from either side; nil where the network connection ended without it.
    public let reason: ReasonCode?
    public let words: String
    /// Whether the client said goodbye itself.
    public let isByClient: Bool
    public let traffic: ClientTraffic

    package init(
        position: ClosedPosition, clientIdentifier: EncodedString?, userName: EncodedString?, address: String, port: UInt16,
        listener: Int, wasAdmitted: Bool, from: UInt64, reason: ReasonCode?, words: String, isByClient: Bool,
        traffic: ClientTraffic
    ) {
        self.position = position
        self.clientIdentifier = clientIdentifier
        self.userName = userName
        self.address = address
        self.port = port
        self.listener = listener
        self.wasAdmitted = wasAdmitted
        self.from = from
        self.reason = reason
        self.words = words
        self.isByClient = isByClient
        self.traffic = traffic
    }
}

/// Where a closed connection stands among all of all shards.
public struct ClosedPosition: Hashable, Comparable, Sendable {
    /// When it ended, in milliseconds on the shard's clock.
    public var at: UInt64
    /// Of those of one time: the shard's own number, then the shard.
    public var number: UInt64

    public init(at: UInt64, number: UInt64) { (self.at, self.number) = (at, number) }

    public static func < (left: ClosedPosition, right: ClosedPosition) -> Bool {
        (left.at, left.number) < (right.at, right.number)
    }
}

/// Which closed connections are told.
public struct ClosedSelection: Sendable {
    /// Only those of this Client Identifier.
    public var clientIdentifier: EncodedString?
    /// Only those from an address of this network.
    public var network: AddressRange?
    /// Only those that were let in, or only those that were not.
    public var wasAdmitted: Bool?
    /// Only those that ended before this one: the last row of the page before, from any shard.
    public var before: ClosedPosition?

    public init() {}

    package func takes(_ row: ClosedConnectionRow) -> Bool {
        if let before, row.position >= before { return false }
        if let clientIdentifier, row.clientIdentifier != clientIdentifier { return false }
        if let wasAdmitted, row.wasAdmitted != wasAdmitted { return false }
        return network.map { $0.contains(row.address) } ?? true
    }
}
