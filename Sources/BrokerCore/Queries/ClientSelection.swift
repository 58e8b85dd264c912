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

    static func folded(_ byte: UInt8) -> UInt8 { (65...90).contains(byte) ? byte | 0x20 : byte }
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

extension ClientSelection {
    /// Whether a session is meant.
    func takes(_ session: Session, now: UInt64) -> Bool {
        if let isConnected, (session.connection != nil) != isConnected { return false }
        if let version, session.version != version { return false }
        if let prefix, !session.clientIdentifier.bytes.starts(with: prefix.bytes) { return false }
        if let userName, session.userName != userName { return false }
        if dropsMin > 0, session.drops.total < dropsMin { return false }
        if queuedMin > 0, session.outbox.waiting < queuedMin { return false }
        if lagMillisecondsMin > 0, session.lagMilliseconds(now: now) < lagMillisecondsMin { return false }
        if listener != nil || network != nil {
            guard let info = session.connection?.with({ $0.isLocal ? nil : $0.info }) else { return false }
            if let listener, info.listener != listener { return false }
            if let network, !network.contains(info.address) { return false }
        }
        guard let text else { return true }
        return Self.has(text, in: session.clientIdentifier.bytes) || session.userName.map { Self.has(text, in: $0.bytes) } ?? false
    }

    /// Where a session stands.
    func position(of session: Session, now: UInt64) -> ClientPosition {
        ClientPosition(value: value(of: session, now: now), clientIdentifier: session.clientIdentifier)
    }

    private func value(of session: Session, now: UInt64) -> UInt64 {
        switch order {
        case .clientIdentifier, nil: 0
        case .drops: session.drops.total
        case .queuedMessages: UInt64(session.outbox.waiting)
        case .queuedBytes: UInt64(session.outbox.waitingBytes)
        case .outputBytes: session.connection?.with { UInt64($0.output.pendingBytes) } ?? 0
        case .lag: session.lagMilliseconds(now: now)
        case .receivedRate: session.connection?.with { $0.rates(at: now).received } ?? 0
        case .sentRate: session.connection?.with { $0.rates(at: now).sent } ?? 0
        case .subscriptions: UInt64(session.heldSubscriptions)
        case .connectedAt: session.connection?.with { $0.connectedAt } ?? 0
        }
    }

    /// - Parameter text: folded, not empty.
    private static func has(_ text: [UInt8], in bytes: [UInt8]) -> Bool {
        guard bytes.count >= text.count else { return false }
        return bytes.withUnsafeBufferPointer { bytes in
            text.withUnsafeBufferPointer { text in
                (0...bytes.count - text.count).contains { start in
                    text.indices.allSatisfy { folded(bytes[start + $0]) == text[$0] }
                }
            }
        }
    }
}
