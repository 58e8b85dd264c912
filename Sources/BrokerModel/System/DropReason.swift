public import MQTTCodec

/// Why a message did not get where it was going.
public enum DropReason: UInt8, CaseIterable, Sendable {
    // On its way to a client.
    /// As many messages or bytes wait for its receiver as may. `max_queued_messages`, `max_queued_bytes`
    case queueFull
    /// The message's receiver does not read what it is sent. `martlet_output_bytes_max`
    case outputFull
    /// The message is larger than its receiver's Maximum Packet Size, or than any packet can be.
    case tooLargeForClient
    /// Its Message Expiry Interval ended while it waited.
    case expired
    /// The store cannot give it back.
    case unreadable

    // On its way from a client, or to one.
    /// Its publisher may not write to its topic; or its receiver may not read it any more, but might when it was
    /// queued.
    case notAuthorised

    // On its way from a client.
    /// `message_size_limit`
    case payloadTooLarge
    /// The broker has no room: `memory_limit`, a disk that is full, or a receiver's queue with
    /// `martlet_queue_drop refuse`; or a cluster's log has none for what goes on to another node.
    case noRoom
    /// Its topic is too long or has too many levels, which ends the connection, or its payload is not what it says.
    /// `martlet_max_topic_length`, `martlet_max_topic_levels`, `martlet_validate_payload_format`. Or the nodes of a
    /// cluster have passed it on to each other's share groups as often as may be.
    case refused

    /// How the log calls it.
    public var words: String {
        switch self {
        case .queueFull: "queue full"
        case .outputFull: "output full"
        case .tooLargeForClient: "too large for the client"
        case .expired: "expired"
        case .unreadable: "unreadable"
        case .notAuthorised: "not authorised"
        case .payloadTooLarge: "payload too large"
        case .noRoom: "no room"
        case .refused: "refused"
        }
    }

    /// The last level of its topic below `$SYS`.
    public var level: String { String(words.map { $0 == " " ? "_" : $0 }) }
}

/// How many messages were dropped for each reason. Empty, and without memory of its own, as long as there are none.
public struct DropCounts: Sendable, Equatable {
    /// By the reason's number, or nothing.
    private var counts: [UInt64] = []

    public init() {}

    public subscript(reason: DropReason) -> UInt64 {
        get { counts.isEmpty ? 0 : counts[Int(reason.rawValue)] }
        set {
            if counts.isEmpty { counts = Array(repeating: 0, count: DropReason.allCases.count) }
            counts[Int(reason.rawValue)] = newValue
        }
    }

    public var total: UInt64 { counts.reduce(0, &+) }

    /// Adds another shard's counts.
    public mutating func add(_ other: DropCounts) {
        for reason in DropReason.allCases where other[reason] > 0 { self[reason] &+= other[reason] }
    }

    /// `2 queue full, 1 expired`.
    package var words: String {
        DropReason.allCases.filter { self[$0] > 0 }.map { "\(self[$0]) \($0.words)" }.joined(separator: ", ")
    }
}

/// A message that did not get where it was going.
public struct DropRow: Hashable, Sendable {
    /// Milliseconds on the shard's clock.
    public package(set) var at: UInt64
    /// The first 256 bytes of it.
    public package(set) var topic: [UInt8]
    /// The client that the drop concerns: its receiver, or its publisher where nobody else was to get it; nil for
    /// nobody. A long name is cut.
    public package(set) var clientIdentifier: EncodedString?
    public package(set) var reason: DropReason
    public package(set) var qos: QoS
    /// Of topic, properties and payload.
    public package(set) var byteCount: Int

    package init(
        at: UInt64, topic: [UInt8], clientIdentifier: EncodedString? = nil, reason: DropReason, qos: QoS, byteCount: Int
    ) {
        self.at = at
        self.topic = topic
        self.clientIdentifier = clientIdentifier
        self.reason = reason
        self.qos = qos
        self.byteCount = byteCount
    }
}

/// What was dropped on a shard.
public struct DropReport: Sendable {
    /// The last ones, last first: at most 100.
    public let last: [DropRow]
    /// By the first two levels of their topics, most first: at most 256 prefixes.
    public let byPrefix: [(prefix: [UInt8], drops: DropCounts)]
    /// Of other prefixes, which came when so many were known.
    public let ofOtherPrefixes: DropCounts
    /// By listener of the client that they concern, an index into `BrokerSettings.listeners`.
    public let byListener: [DropCounts]

    package init(
        last: [DropRow], byPrefix: [(prefix: [UInt8], drops: DropCounts)], ofOtherPrefixes: DropCounts, byListener: [DropCounts]
    ) {
        self.last = last
        self.byPrefix = byPrefix
        self.ofOtherPrefixes = ofOtherPrefixes
        self.byListener = byListener
    }
}

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
    /// What DISCONNECT or CONNACK says or would say, from either side; nil where the network connection ended without
    /// it.
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

    package func selects(_ row: ClosedConnectionRow) -> Bool {
        if let before, row.position >= before { return false }
        if let clientIdentifier, row.clientIdentifier != clientIdentifier { return false }
        if let wasAdmitted, row.wasAdmitted != wasAdmitted { return false }
        return network.map { $0.contains(row.address) } ?? true
    }
}
