public import MQTTCodec

/// One MQTT client, without its transport: what the server sent goes in, events and bytes for the server come out.
///
/// ```
///            transportOpened             CONNACK accepted
///   offline ────────────────► connecting ────────────────► online
///      ▲                          │                           │
///      │                          │ refused, broken, too late │ disconnect(), server's DISCONNECT, broken, no PINGRESP
///      │     transportClosed      ▼                           ▼
///      └────────────────────── ending ◄───────────────────────┘
/// ```
/// offline: QoS 1 and 2 messages may be published, and wait. connecting: CONNECT is sent. online: messages flow. ending: what waits in
/// the output is to be sent, then the transport to be closed; nothing more is read.
///
/// A value without clock, socket or thread: times are milliseconds on the shell's monotonic clock. It outlives connections: messages
/// whose handshake is not complete are sent again on the next one.
public struct ClientSession: Sendable {
    public enum State: Sendable {
        case offline
        case connecting
        case online
        case ending
    }

    public internal(set) var state = State.offline
    public var options: ClientOptions
    /// What the server let us know when it let us in; of no meaning while not online.
    public internal(set) var serverProperties = Properties()

    var outgoing = OutgoingFlow()
    var incoming = IncomingFlow()
    var identifiers = PacketIdentifierSource()
    /// SUBSCRIBE and UNSUBSCRIBE that are unanswered.
    var requests: Set<UInt16> = []
    var sentAliases = SentTopicAliases()
    var receivedAliases = ReceivedTopicAliases()
    var output: [UInt8] = []
    /// How many of these bytes the shell has taken.
    var outputStart = 0
    var events: [ClientEvent] = []
    var nextEventIndex = 0
    /// The beginning of a packet whose rest has not come.
    var carried: [UInt8] = []
    var lastTicket: UInt64 = 0
    /// When something was sent last.
    var lastSentAt: UInt64 = 0
    /// When CONNACK or PINGRESP must have come; nil when none is awaited.
    var answerDeadline: UInt64?

    public init(_ options: ClientOptions) {
        self.options = options
    }

    /// The next event, nil when there is none. To be asked after each call until there is none.
    public mutating func nextEvent() -> ClientEvent? {
        guard nextEventIndex < events.count else {
            events.removeAll(keepingCapacity: true)
            nextEventIndex = 0
            return nil
        }
        nextEventIndex += 1
        return events[nextEventIndex - 1]
    }

    /// How many bytes for the server wait to be sent.
    public var outputByteCount: Int { output.count - outputStart }

    /// Lends the bytes for the server. The body returns how many of them, from the front, it has taken; the others stay, and what is sent
    /// later stands behind them.
    public mutating func withOutput(_ body: (UnsafeRawBufferPointer) -> Int) {
        let taken = output.withUnsafeBytes { body(UnsafeRawBufferPointer(rebasing: $0[outputStart...])) }
        precondition(taken >= 0 && taken <= outputByteCount, "a body takes bytes that were lent")
        outputStart += taken
        if outputStart == output.count { discardOutput() }
    }

    /// The bytes for the server since the last call.
    public mutating func takeOutput() -> [UInt8] {
        defer { discardOutput() }
        return Array(output[outputStart...])
    }

    mutating func discardOutput() {
        output.removeAll(keepingCapacity: true)
        outputStart = 0
    }

    /// How many QoS 1 and 2 messages are on their way to the server or wait.
    public var unacknowledgedCount: Int { outgoing.count }

    mutating func send(_ packet: ControlPacket, now: UInt64) {
        packet.encode(version: options.version, into: &output)
        lastSentAt = now
    }

    mutating func tell(_ event: ClientEvent) { events.append(event) }
}
