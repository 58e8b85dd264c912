public import MQTTCodec

/// Which sessions of a shard are told, and in which order.
public struct ClientSelection: Sendable, Equatable {
    /// Only those whose Client Identifier or user name has these bytes in it; case does not matter for ASCII letters. Nil for all.
    public var text: [UInt8]? {
        didSet { text = text?.map(Self.folded) }
    }
    /// Only those whose Client Identifier begins with this.
    public var prefix: EncodedString?
    public var userName: EncodedString?
    /// Only those connected from an address of this network.
    public var network: AddressRange?
    /// Only those connected through this listener, an index into `BrokerSettings.listeners`.
    public var listener: Int?
    public var isConnected: Bool?
    public var version: ProtocolVersion?
    /// Only those that have lost at least so many messages.
    public var dropsMin: UInt64 = 0
    /// Only those for which at least so many messages wait.
    public var queuedMin = 0
    /// Only those whose oldest unwritten message has waited so long, in milliseconds.
    public var lagMillisecondsMin: UInt64 = 0

    /// Nil for the order of the shard's table, with pages by `ShardCursor`: the cheapest. In any other order a page is the best rows behind
    /// `after` among all sessions.
    public var order: ClientOrder?
    public var isDescending = false
    /// The last row of the page before, from any shard; nil for the first page.
    public var after: ClientPosition?

    public init() {}

    /// In this order.
    public init(order: ClientOrder, isDescending: Bool = false, after: ClientPosition? = nil) {
        (self.order, self.isDescending, self.after) = (order, isDescending, after)
    }

    package static func folded(_ byte: UInt8) -> UInt8 { (65...90).contains(byte) ? byte | 0x20 : byte }
}

/// What clients are sorted by; those that are equal in it, by Client Identifier.
public enum ClientOrder: Sendable, CaseIterable {
    case clientIdentifier
    case drops
    case queuedMessages
    case queuedBytes
    case outputBytes
    case lag
    /// Messages a second, see `ClientTraffic`.
    case receivedRate
    case sentRate
    case subscriptions
    /// The time; clients that are away count as 0.
    case connectedAt
}

/// A client's place in an order.
public struct ClientPosition: Hashable, Sendable {
    /// What it is sorted by; 0 in the order of Client Identifiers.
    public var value: UInt64
    public var clientIdentifier: EncodedString

    public init(value: UInt64, clientIdentifier: EncodedString) {
        (self.value, self.clientIdentifier) = (value, clientIdentifier)
    }

    /// Whether it stands before another one. O(bytes of the identifiers).
    public func precedes(_ other: ClientPosition, isDescending: Bool) -> Bool {
        if value != other.value { return (value < other.value) != isDescending }
        let (mine, others) = (clientIdentifier.bytes, other.clientIdentifier.bytes)
        return isDescending ? others.lexicographicallyPrecedes(mine) : mine.lexicographicallyPrecedes(others)
    }
}
