public import MQTTCodec

/// What a shard has counted: totals since its start, and how much it holds now.
public struct ShardStatistics: Sendable, Equatable {
    // Totals since the start.
    public var bytesReceived: UInt64 = 0
    public var bytesSent: UInt64 = 0
    /// Packets of any type.
    public var messagesReceived: UInt64 = 0
    public var messagesSent: UInt64 = 0
    public var messagesReceivedByQoS = QoSCounts()
    public var messagesSentByQoS = QoSCounts()
    public var drops = DropCounts()
    public var publishBytesReceived: UInt64 = 0
    public var publishBytesSent: UInt64 = 0
    public var socketsOpened: UInt64 = 0
    public var connectionsAccepted: UInt64 = 0
    /// Turned away as soon as they came: too many, or too many a second.
    public var connectionsRefused: UInt64 = 0
    /// Connections that came to nothing, these among them.
    public var refusals = Tally<RefusedConnection>()
    public var logins = Tally<LoginTally>()
    public var disconnects = Tally<DisconnectTally>()
    public var denials = Tally<DeniedAction>()
    /// What users were refused because they have as many as they may.
    public var userRefusals = Tally<UserBound>()
    public var clientsExpired: UInt64 = 0

    public var packetsReceived = PacketCounts()
    /// Without PUBLISH, see `publishSent`.
    public var packetsSent = PacketCounts()

    // What there is now.
    public var connections = 0
    /// Bytes that wait for sockets with room.
    public var outputBytes = 0
    public var clientsConnected = 0
    /// The connected clients that are parts of this process.
    public var localClientsConnected = 0
    public var clientsTotal = 0
    public var subscriptions = 0
    public var sharedSubscriptions = 0
    /// Clients that do not take what they are sent, as `BrokerSettings.slowClients` has it.
    public var slowClients = 0
    /// TLS handshakes that have begun, and clients that wait to begin theirs; told by the shard's loop.
    public var handshakes = 0
    public var handshakesWaiting = 0
    /// Sessions whose position the cluster's log is to be told.
    public var pendingPositions = 0
    public var retainedMessages = 0
    public var storedMessages = 0
    public var storedBytes = 0
    /// Of the whole process; told by the first shard.
    public var heapBytes = 0
    /// Of the store, which all shards have in common; told by the first one, nil without a store.
    public var store: StoreFigures?
    /// What was measured, for those who ask for it.
    public var latencies = LatencyReport()

    public init() {}

    /// PUBLISH packets received, of any QoS.
    public var publishReceived: UInt64 { messagesReceivedByQoS.total }
    public var publishSent: UInt64 { messagesSentByQoS.total }

    /// How many packets of a type were sent.
    public func packetsSent(of type: PacketType) -> UInt64 { type == .publish ? publishSent : packetsSent[type] }

    /// Messages that were dropped, for any reason.
    public var publishDropped: UInt64 { drops.total }

    /// How many packets wait for sockets with room, reckoned from their bytes and the mean size of all packets:
    /// connections share runs of bytes, in which nobody tells one packet from the next.
    public var packetsWaiting: UInt64 {
        let waiting = Double(outputBytes)
        guard waiting > 0, messagesSent > 0 else { return 0 }
        // What is waiting counts as sent already, but for its bytes.
        let meanBytes = (Double(bytesSent) + waiting) / Double(messagesSent)
        return UInt64((waiting / meanBytes).rounded(.up))
    }

    /// Adds another shard's counts.
    public mutating func add(_ other: ShardStatistics) {
        bytesReceived += other.bytesReceived
        bytesSent += other.bytesSent
        messagesReceived += other.messagesReceived
        messagesSent += other.messagesSent
        messagesReceivedByQoS.add(other.messagesReceivedByQoS)
        messagesSentByQoS.add(other.messagesSentByQoS)
        drops.add(other.drops)
        publishBytesReceived += other.publishBytesReceived
        publishBytesSent += other.publishBytesSent
        socketsOpened += other.socketsOpened
        connectionsAccepted += other.connectionsAccepted
        connectionsRefused += other.connectionsRefused
        refusals.add(other.refusals)
        logins.add(other.logins)
        disconnects.add(other.disconnects)
        denials.add(other.denials)
        userRefusals.add(other.userRefusals)
        clientsExpired += other.clientsExpired
        packetsReceived.add(other.packetsReceived)
        packetsSent.add(other.packetsSent)
        connections += other.connections
        outputBytes += other.outputBytes
        clientsConnected += other.clientsConnected
        localClientsConnected += other.localClientsConnected
        clientsTotal += other.clientsTotal
        subscriptions += other.subscriptions
        sharedSubscriptions += other.sharedSubscriptions
        slowClients += other.slowClients
        handshakes += other.handshakes
        handshakesWaiting += other.handshakesWaiting
        pendingPositions += other.pendingPositions
        retainedMessages += other.retainedMessages
        storedMessages += other.storedMessages
        storedBytes += other.storedBytes
        heapBytes += other.heapBytes
        store = store ?? other.store
        latencies.add(other.latencies)
    }
}

/// How many packets of each type there were. Numbers in place: they are counted on the way of every packet.
public struct PacketCounts: Sendable, Equatable {
    /// By the packet type's number, 1 to 15.
    @usableFromInline package var counts = InlineArray<16, UInt64>(repeating: 0)

    public init() {}

    public subscript(type: PacketType) -> UInt64 {
        @inlinable @inline(__always) get { counts[Int(type.rawValue)] }
        @inlinable @inline(__always) set { counts[Int(type.rawValue)] = newValue }
    }

    /// Adds another shard's counts.
    package mutating func add(_ other: PacketCounts) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
    }

    public static func == (left: PacketCounts, right: PacketCounts) -> Bool {
        left.counts.indices.allSatisfy { left.counts[$0] == right.counts[$0] }
    }
}

/// How many messages of each QoS there were. Numbers in place: they are counted on the way of every message.
public struct QoSCounts: Sendable, Equatable {
    @usableFromInline package var counts = InlineArray<3, UInt64>(repeating: 0)

    public init() {}

    public subscript(qos: QoS) -> UInt64 {
        @inlinable @inline(__always) get { counts[Int(qos.rawValue)] }
        @inlinable @inline(__always) set { counts[Int(qos.rawValue)] = newValue }
    }

    public var total: UInt64 { counts[0] &+ counts[1] &+ counts[2] }

    /// Adds another shard's counts.
    package mutating func add(_ other: QoSCounts) {
        for index in counts.indices { counts[index] &+= other.counts[index] }
    }

    public static func == (left: QoSCounts, right: QoSCounts) -> Bool {
        left.counts.indices.allSatisfy { left.counts[$0] == right.counts[$0] }
    }
}

/// A time that is measured.
public enum Latency: Hashable, Sendable {
    /// From the turn that reads a PUBLISH of QoS 1 or 2 to its PUBACK or PUBREC in the transport.
    case acknowledge(QoS)
    /// From the turn that reads a PUBLISH to the message in its receivers' transports; of one message in 64.
    case delivery(QoS)
    /// How long a message stood in a client's queue.
    case queueWait
    /// From a batch given to the store to its confirmation.
    case storeCommit
    /// From CONNECT to the decision, by who decides, such as `password_file`.
    case login(backend: String)
    /// From the connection to its first packet.
    case tlsHandshake
    /// A turn of a loop, without the wait for the next one.
    case loopTurn
}

/// The latencies that were measured on a shard, or on several.
public struct LatencyReport: Sendable, Equatable {
    public private(set) var histograms: [Latency: Histogram] = [:]

    public init() {}

    /// Adds what was measured elsewhere.
    public mutating func add(_ histogram: Histogram, as latency: Latency) {
        histograms[latency, default: Histogram()].add(histogram)
    }

    /// Adds another shard's.
    public mutating func add(_ other: LatencyReport) {
        for (latency, histogram) in other.histograms { add(histogram, as: latency) }
    }
}

/// How long something took, counted in buckets with fixed bounds: what Prometheus calls a histogram.
///
/// 17 bounds from 50 µs to 10 s, and a bucket for what took longer. Belongs to the loop that records, which adds to its
/// own memory and takes no lock; copied out for whoever asks.
public struct Histogram: Sendable, Equatable {
    /// The upper bounds of the buckets but the last, each bound included, in microseconds.
    public static let boundsMicroseconds: [UInt64] = [
        50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
        10_000_000,
    ]

    private var counts = InlineArray<18, UInt64>(repeating: 0)
    /// Of all that was recorded.
    public private(set) var sumMicroseconds: UInt64 = 0

    public init() {}

    /// How often something took longer than the bound before, and no longer than the bound with this index: 0 to 17.
    public func count(inBucket bucket: Int) -> UInt64 { counts[bucket] }

    /// How many there are.
    public var count: UInt64 { counts.indices.reduce(0) { $0 &+ counts[$1] } }

    /// Something took so long, `times` times.
    @inline(__always)
    public mutating func record(_ microseconds: UInt64, times: UInt64 = 1) {
        counts[Self.bucket(of: microseconds)] &+= times
        sumMicroseconds &+= microseconds &* times
    }

    /// Adds another one.
    public mutating func add(_ other: Histogram) {
        for bucket in counts.indices { counts[bucket] &+= other.counts[bucket] }
        sumMicroseconds &+= other.sumMicroseconds
    }

    public static func == (left: Histogram, right: Histogram) -> Bool {
        left.sumMicroseconds == right.sumMicroseconds && left.counts.indices.allSatisfy { left.counts[$0] == right.counts[$0] }
    }

    /// No two bounds have the same number of binary digits, so that number tells all but one of them apart from the
    /// value. Looked up, not branched upon: nobody can guess how long the next one took.
    @inline(__always)
    package static func bucket(of microseconds: UInt64) -> Int {
        let digits = min(UInt64.bitWidth &- microseconds.leadingZeroBitCount, 25)
        return Int(below[digits]) &+ (microseconds > bounds[digits] ? 1 : 0)
    }

    /// By the number of digits: how many bounds have less of them.
    private static let below: InlineArray<26, UInt8> = [
        0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14, 15, 16, 17,
    ]

    /// By the number of digits: the bound that has so many, or one that no value of so many exceeds.
    private static let bounds: InlineArray<26, UInt64> = [
        .max, .max, .max, .max, .max, .max, 50, 100, 250, 500, 1_000, .max, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
        500_000, 1_000_000, .max, 2_500_000, 5_000_000, 10_000_000, .max,
    ]
}

/// How often each of a few things has happened. Not for the way of a message: each addition looks its key up.
public struct Tally<Key: Hashable & Sendable>: Sendable, Equatable {
    /// What has happened at least once.
    public private(set) var counts: [Key: UInt64] = [:]

    public init() {}

    public subscript(key: Key) -> UInt64 { counts[key] ?? 0 }

    /// Counts it once.
    public mutating func count(_ key: Key) { counts[key, default: 0] &+= 1 }

    /// Counts it so many times.
    public mutating func add(_ key: Key, _ count: UInt64) { counts[key, default: 0] &+= count }

    /// Adds what was counted elsewhere.
    public mutating func add(_ other: Tally) { counts.merge(other.counts, uniquingKeysWith: &+) }
}

/// A login that was decided: by whom, and how.
public struct LoginTally: Hashable, Sendable {
    public enum Result: String, Sendable {
        case accepted
        case refused
        /// The login was not decided: as many wait as may.
        case unavailable
    }

    /// The authority that has decided: `password_file`, `dynamic_security`, the name of an Authentication Method,
    /// `certificate`, `pre_shared_key`, or `anonymous` where nothing was checked. No peer can choose another one.
    public let backend: String
    public let result: Result

    public init(_ backend: String, _ result: Result) { (self.backend, self.result) = (backend, result) }

    /// The counts that most brokers have.
    public static var usual: [LoginTally] {
        [LoginTally("anonymous", .accepted), LoginTally("password_file", .accepted), LoginTally("password_file", .refused)]
    }
}

/// The end of a client's connection.
public struct DisconnectTally: Hashable, Sendable {
    public let listener: Int
    /// nil for a connection that its client closed, or that broke, without a word.
    public let reason: ReasonCode?

    public init(listener: Int, reason: ReasonCode?) { (self.listener, self.reason) = (listener, reason) }

    /// The counts that every listener has.
    public static func usual(of listener: Int) -> [DisconnectTally] {
        [nil, .normalDisconnection, .keepAliveTimeout].map { DisconnectTally(listener: listener, reason: $0) }
    }

    /// The reason as the metrics call it.
    public var label: String {
        switch reason {
        case nil: "connection_closed"
        case .normalDisconnection?: "normal_disconnection"
        case let reason?: reason.label
        }
    }
}

/// Why a connection came to nothing, as the metrics call it.
public enum RefusedConnection: Hashable, Sendable {
    /// `max_connections` or `global_max_connections`.
    case tooMany
    /// `martlet_max_connections_per_second_per_address`
    case tooFast
    /// `martlet_max_connections_per_second`
    case tooFastTogether
    /// `martlet_max_connections_per_address`
    case tooManyOfAddress
    /// `martlet_max_connections_per_network`
    case tooManyOfNetwork
    /// `martlet_allow_from`, `martlet_deny_from`
    case addressDenied
    /// `martlet_proxy_trusted`
    case untrustedProxy
    /// What goes before MQTT was not as it should be.
    case proxyProtocol, tls, webSocket
    /// No CONNECT came in time.
    case silence
    /// CONNECT, or what came in its place, was refused.
    case connect(ReasonCode)

    /// The counts that are not of single clients.
    public static var usual: [RefusedConnection] { [.tooMany, .tooFast, .tls, .silence] }

    public var label: String {
        switch self {
        case .tooMany: "too_many_connections"
        case .tooFast: "too_many_per_second"
        case .tooFastTogether: "rate"
        case .tooManyOfAddress: "too_many_of_address"
        case .tooManyOfNetwork: "too_many_of_network"
        case .addressDenied: "address_denied"
        case .untrustedProxy: "untrusted_proxy"
        case .proxyProtocol: "proxy_protocol"
        case .tls: "tls"
        case .webSocket: "websocket"
        case .silence: "connect_timeout"
        case .connect(let reason): reason.label
        }
    }
}

/// What a user may have so many of at once.
public enum UserBound: String, CaseIterable, Hashable, Sendable {
    case connections
    case sessions
    case subscriptions
}

/// What a client may not do.
public enum DeniedAction: String, CaseIterable, Hashable, Sendable {
    case publish
    case subscribe
    /// A message that waited for its client was dropped, for the rules are others now.
    case receive
    /// A will was not published, for the rules are others now.
    case will
}

extension ReasonCode {
    /// The standard's words as one word of a metric, `keep_alive_timeout`.
    public var label: String { String(description.lowercased().map { $0 == " " || $0 == "-" ? "_" : $0 }) }
}
