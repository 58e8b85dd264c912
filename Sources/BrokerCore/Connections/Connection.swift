import BrokerModel
import MQTTCodec

/// One Network Connection, from accept to close.
///
///     awaitingConnect ──► authenticating ──► connected ──► closing
///            └──────────────────────┴─────────────┴──────────▲
///
/// Owned by its shard's `ConnectionTable`. Its stored properties are internal and used inside this module only: one seen from
/// another module costs 23 ns at each access.
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
    /// Whether the transport took less than it was given: the next flush waits until it is writable.
    var isBlocked = false
    /// Whether it is known since when its output waits.
    var isLagging = false
    /// Whether it is looked at as to whether it is slow, and was found to be.
    var isSuspect = false
    var isSlow = false
    /// Whether CONNACK stands in the output, which must not be sent before the session is durable.
    var isAwaitingStore = false
    /// Whether acknowledgements wait until what they stand for is durable.
    var holdsPromises = true
    /// Whether its client asked for a new session.
    var isCleanStart = false
    /// Whether what it holds was counted as a newcomer's.
    var isCountedAsNewcomer = false
    /// How many packets to it are held until then.
    var heldCount: UInt32 = 0
    /// How many of those are messages.
    var heldPublishCount: UInt32 = 0
    /// Milliseconds without a packet after which the client is taken for gone; 0 for never.
    var keepAliveMilliseconds: UInt32 = 0
    /// Whether reason strings and user properties may go with any packet. [MQTT-3.1.2-29 v5]
    var requestsProblemInformation = true
    var isBridge = false
    /// Whether CONNECT's remaining length had more bytes than it needed.
    var hasOverlongLength = false
    /// Whether its client lives on another shard, so that it is handed over at the end of the turn, or when its output is sent.
    var isLeaving = false
    /// Whether its far end is a `LocalClient`.
    var isLocal = false
    /// Whether its packets may be traced: `Tracer` says.
    var isTraced = false
    /// Whether one of its packets is still being worked off; those behind it wait in `inbound`.
    var hasOpenPacket = false
    /// Whether an end mark waits behind its session's queue.
    var hasQueuedEndMarks = false
    var session: Session?
    var output = OutputBuffer()
    var inbound = InboundBuffer()
    /// The bytes that the shard has counted for what came of it and is kept, and the room in `inbound` at that time.
    var countedBytes = 0
    var countedCapacity: UInt32 = 0
    var timer = TimerWheel.none
    var lastReceivedAt: UInt64
    /// The largest packet that the client takes, in bytes; at most the largest that there can be. [MQTT-3.1.2-24 v5]
    private(set) var maximumPacketSize = UInt32(BrokerSettings.packetBytesLargest)
    /// QoS 2 messages received on it and not released: bounded by our Receive Maximum, which counts from each connection anew.
    /// [MQTT-3.3.4-7 v5] [MQTT-4.9.0-1 v5]
    var receivedInFlight: UInt32 = 0
    /// What CONNACK told it of the limits.
    var advertisedLimits: AdvertisedLimits?
    var userName: EncodedString?
    /// When its client was let in, in milliseconds.
    var connectedAt: UInt64 = 0
    /// Rises with each connection of a client.
    var arrivalNumber: UInt64 = 0
    var traffic = ClientTraffic()
    var trafficMark: TrafficMark?
    /// What few connections need.
    var extras: ConnectionExtras?

    init(id: ConnectionID, info: ConnectionInfo, now: UInt64) {
        self.id = id
        self.info = info
        lastReceivedAt = now
    }

    /// What of `countedBytes` it held while its client was not let in.
    var newcomerBytes: Int { isCountedAsNewcomer ? countedBytes : 0 }

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
