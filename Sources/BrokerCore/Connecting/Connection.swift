import BrokerModel
import MQTTCodec

/// One Network Connection, from accept to close.
///
///     awaitingConnect ──► authenticating ──► connected ──► closing
///            └──────────────────────┴─────────────┴──────────▲
///
/// Owned by its shard's `ConnectionTable`. Its stored properties are internal and used inside this module only: one
/// seen from another module costs 23 ns at each access.
final class Connection {
    enum State: UInt8 {
        /// Nothing but CONNECT may come; a timer closes the connection if it does not. [MQTT-3.1.0-1 v5]
        case awaitingConnect
        /// CONNECT came and its answer waits for a decision from outside; what the client sends meanwhile is kept.
        case authenticating
        /// CONNACK with success was sent.
        case connected
        /// Nothing is read any more; it ends when its output is drained or the linger time is up.
        case closing
    }

    /// How PUBLISH packets to this connection are encoded: those of the first two kinds are shared among connections.
    enum FrameKind: UInt8 {
        case shared3 = 0
        case shared5 = 1
        /// MQTT 5.0 with topic aliases or a Maximum Packet Size: frames of its own.
        case own = 2
    }

    let id: ConnectionID
    var info: ConnectionInfo
    var state = State.awaitingConnect
    var version = ProtocolVersion.v311
    var frameKind = FrameKind.shared3
    /// Whether it stands in the shard's list of connections to flush.
    var isDirty = false
    /// Milliseconds without a packet after which the client is taken for gone; 0 for never.
    var keepAliveMilliseconds: UInt32 = 0
    // The order of the values leaves no gap between them: FootprintTests count the bytes.
    var client = ConnectedClient()
    /// Whether its packets may be traced: `Tracer` says.
    var isTraced = false
    /// Whether one of its packets is still being worked off; those behind it wait in `inbound`.
    var hasOpenPacket = false
    /// Whether an end mark waits behind its session's queue.
    var hasQueuedEndsOfRetained = false
    /// What the shard has counted for what came of it and is kept.
    var memory = CountedMemory()
    var pace = ConnectionPace()
    var holding = HoldingState()
    /// Whether what it holds was counted as a newcomer's.
    var isCountedAsNewcomer = false
    var timer = TimerWheel.none
    var session: Session?
    var output = OutputBuffer()
    var inbound = InboundBuffer()
    var lastReceivedAt: UInt64
    /// The largest packet that the client takes, in bytes; at most the largest that there can be. [MQTT-3.1.2-24 v5]
    private(set) var maximumPacketSize = UInt32(BrokerSettings.packetBytesLargest)
    /// QoS 2 messages received on it and not released: bounded by our Receive Maximum, which counts from each
    /// connection anew. [MQTT-3.3.4-7 v5] [MQTT-4.9.0-1 v5]
    var receivedInFlight: UInt32 = 0
    /// What CONNACK told it of the limits.
    var advertisedLimits: AdvertisedLimits?
    /// When its client was let in, in milliseconds.
    var connectedAt: UInt64 = 0
    /// Rises with each connection of a client.
    var arrivalNumber: UInt64 = 0
    var traffic = ClientTraffic()
    var trafficSample: TrafficSample?
    /// What few connections need.
    var extras: ConnectionExtras?

    init(id: ConnectionID, info: ConnectionInfo, now: UInt64) {
        self.id = id
        self.info = info
        lastReceivedAt = now
    }

    /// What of `memory` it held while its client was not let in.
    var newcomerBytes: Int { isCountedAsNewcomer ? memory.bytes : 0 }

    /// Whether its client lives on another shard, so that it is handed over at the end of the turn, or when its output
    /// is sent.
    var isLeaving: Bool { extras?.pendingConnect?.awaited == .otherShard }

    /// Whether its client is not let in yet.
    var isNewcomer: Bool { state == .awaitingConnect || state == .authenticating }

    /// The session, not retained: valid until the turn ends.
    @inline(__always) var currentSession: Reference<Session>? { session.map { Reference($0) } }
    /// What CONNACK told of the limits, not retained: valid until the connection is told of others, which it is not.
    @inline(__always) var currentAdvertisedLimits: Reference<AdvertisedLimits>? {
        advertisedLimits.map { Reference($0) }
    }

    /// Notes the Maximum Packet Size of the client's CONNECT.
    func setMaximumPacketSize(asked: UInt32?) {
        maximumPacketSize = min(asked ?? .max, UInt32(BrokerSettings.packetBytesLargest))
    }

    /// The rarely used part, made when it is first needed.
    func makeExtras() -> ConnectionExtras {
        if let extras { return extras }
        let made = ConnectionExtras()
        extras = made
        return made
    }
}

/// Who is at a connection's other end.
struct ConnectedClient {
    var userName: EncodedString?
    /// Whether it asked for a new session.
    var isCleanStart = false
    /// Whether reason strings and user properties may go with any packet. [MQTT-3.1.2-29 v5]
    var requestsProblemInformation = true
    var isBridge = false
    /// Whether CONNECT's remaining length had more bytes than it needed.
    var hasOverlongLength = false
    /// Whether it is a `LocalClient`.
    var isLocal = false
}

/// Whether a client takes what it is sent.
struct ConnectionPace {
    /// Whether the transport took less than it was given: the next flush waits until it is writable.
    var isBlocked = false
    /// Whether it is known since when its output waits.
    var isLagging = false
    /// Whether it is looked at as to whether it is slow.
    var isSuspect = false
    /// Whether it was found to be.
    var isSlow = false
}

/// What is held back until the store has something.
struct HoldingState {
    /// How many packets to it are held.
    var count: UInt32 = 0
    /// How many of those are messages.
    var publishCount: UInt32 = 0
    /// Whether CONNACK stands in the output, which must not be sent before the session is durable.
    var isAwaitingStore = false
    /// Whether acknowledgements wait until what they stand for is durable.
    var holdsAcknowledgements = true
}

/// Where a connection's counts stood when somebody asked for its rates, and what those were. Made when somebody does.
final class TrafficSample {
    fileprivate var at: UInt64
    fileprivate var (received, sent): (UInt64, UInt64) = (0, 0)
    fileprivate var rates: (received: UInt64, sent: UInt64) = (0, 0)

    fileprivate init(connectedAt: UInt64) { at = connectedAt }

    /// Milliseconds within which a rate that is asked for again is answered the same: a shorter time says nothing of a
    /// rate.
    fileprivate static let millisecondsMin: UInt64 = 1000
}

extension Connection {
    /// Messages a second, since the last time that this was asked at least a second ago, else since the connection is
    /// there.
    func rates(at now: UInt64) -> (received: UInt64, sent: UInt64) {
        let mark = trafficSample ?? TrafficSample(connectedAt: connectedAt)
        trafficSample = mark
        let elapsed = now &- min(now, mark.at)
        guard elapsed >= TrafficSample.millisecondsMin else { return mark.rates }
        mark.rates = (
            (traffic.receivedMessages &- mark.received) &* 1000 / elapsed, (traffic.sentMessages &- mark.sent) &* 1000 / elapsed
        )
        (mark.at, mark.received, mark.sent) = (now, traffic.receivedMessages, traffic.sentMessages)
        return mark.rates
    }
}

/// What CONNACK tells a client of the broker's limits.
///
/// It holds for as long as the connection does, also when the operator lowers a limit meanwhile: the client cannot
/// know. One object for all connections that came through a listener under the same settings.
final class AdvertisedLimits {
    let packetBytesMax: Int
    let inFlightMessagesMax: Int
    let topicAliasMaximum: UInt16
    let maximumQoS: QoS
    let retainAvailable: Bool
    private let takesAll: Bool
    let subscriptionIdentifiersAvailable: Bool

    init(_ settings: BrokerSettings, _ policy: ListenerPolicy) {
        packetBytesMax = settings.packetBytesMax
        inFlightMessagesMax = settings.inFlightMessagesMax
        topicAliasMaximum = policy.topicAliasMaximum
        maximumQoS = policy.maximumQoS
        retainAvailable = settings.retainAvailable
        takesAll = policy.maximumQoS == .exactlyOnce && settings.retainAvailable
        subscriptionIdentifiersAvailable = settings.subscriptionIdentifiersAvailable
    }

    /// Whether a message is welcome whatever its QoS and RETAIN, from a client with that many QoS 2 messages in flight.
    @inline(__always)
    func takesAny(whenInFlight count: Int) -> Bool { takesAll && (inFlightMessagesMax == 0 || count < inFlightMessagesMax) }

    /// One for each listener.
    static func all(_ settings: BrokerSettings) -> [AdvertisedLimits] { settings.listeners.map { AdvertisedLimits(settings, $0) } }
}

/// The connections of a shard, by slot. Owns them.
///
/// A slot whose connection has ended is not given away before the turn is over: the shell may still hold its number.
struct ConnectionTable: ~Copyable {
    private var slots: [Connection?] = []
    private var generations: [UInt32] = []
    private var free: [UInt32] = []
    private var graveyard: [Connection] = []
    /// The connections whose packets take more than one turn.
    var openPackets = OpenPackets()
    /// The connections that are handed over when nothing is left to be sent here: their clients live on other shards.
    var leaving: [ConnectionID] = []
    /// The connections of local clients that have answered what they were sent.
    var replyingLocals: [ConnectionID] = []
    private(set) var count = 0

    var all: some Sequence<Connection> { slots.lazy.compactMap { $0 } }

    /// Slots, in use or not.
    var slotCount: Int { slots.count }

    func connection(inSlot slot: Int) -> Connection? { slots[slot] }

    @inline(__always)
    func find(_ id: ConnectionID) -> Connection? {
        guard id.slot < slots.count, let connection = slots[Int(id.slot)], connection.id.generation == id.generation else {
            return nil
        }
        return connection
    }

    mutating func takeLeaving() -> [ConnectionID] {
        defer { leaving = [] }
        return leaving
    }

    mutating func takeReplyingLocals() -> [ConnectionID] {
        defer { replyingLocals = [] }
        return replyingLocals
    }

    /// Above every slot in use.
    var slotEnd: Int { slots.count }

    /// The connection in a slot below `slotEnd`, where it stays as long as it lives; nil if there is none now.
    func connection(at slot: Int) -> Connection? { slots[slot] }

    mutating func make(_ info: ConnectionInfo, now: UInt64) -> Connection {
        let slot = free.popLast() ?? UInt32(slots.count)
        if slot == slots.count {
            slots.append(nil)
            generations.append(0)
        }
        let connection = Connection(id: ConnectionID(slot: slot, generation: generations[Int(slot)]), info: info, now: now)
        slots[Int(slot)] = connection
        count += 1
        return connection
    }

    /// Takes the connection out; it and its slot stay reserved until `endTurn`.
    mutating func remove(_ connection: Connection) {
        // The graveyard first: the slot may hold the only reference.
        graveyard.append(connection)
        slots[Int(connection.id.slot)] = nil
        generations[Int(connection.id.slot)] &+= 1
        count -= 1
    }

    mutating func endTurn() {
        guard !graveyard.isEmpty else { return }
        // One that is still to be flushed stays: the shard's list of those holds no reference.
        for connection in graveyard where !connection.isDirty { free.append(connection.id.slot) }
        graveyard.removeAll { !$0.isDirty }
    }
}
