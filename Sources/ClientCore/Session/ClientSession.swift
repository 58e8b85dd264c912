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
/// whose handshake is not complete are sent again on the next one. With a journal it outlives its process as well: the shell stores
/// `takeChanges` before the output leaves, and `init(_:restoring:)` goes on from what they come to.
///
/// Small while idle: memory grows with use, and is given back when nothing was sent for a Keep Alive.
public struct ClientSession: Sendable {
    public enum State: Sendable {
        case offline
        case connecting
        case online
        case ending
    }

    public internal(set) var state = State.offline
    public var options: ClientOptions
    /// Whether the shell reads nothing now, because what it stores messages in is behind: then silence is not the server's fault.
    public var isHeldUp = false
    /// What the server let us know when it let us in; of no meaning while not online.
    public internal(set) var serverProperties = Properties()

    var outgoing = OutgoingFlow()
    var incoming = IncomingFlow()
    var sentAliases = SentTopicAliases()
    var receivedTopics = ReceivedTopics()
    var output = SessionOutput()
    var events: [ClientEvent] = []
    var nextEventIndex = 0
    var changes: [SessionChange] = []
    /// The beginning of a packet whose rest has not come.
    var carried: [UInt8] = []
    var lastTicket = PublishTicket(number: 0)
    /// Whether messages that were restored begin to get old with the first time that is told.
    var awaitsTime = false
    /// When something was sent last.
    var lastSentAt: UInt64 = 0
    /// When CONNACK or PINGRESP must have come; nil when none is awaited.
    var answerDeadline: UInt64?
    /// When SUBACK or UNSUBACK must have come; nil when none is awaited.
    var requestDeadline: UInt64?

    public init(_ options: ClientOptions) {
        self.options = options
    }

    /// Goes on after a crash with what is stored of a session of the same client identifier.
    ///
    /// What is stored is sent before all that is published now. What had been published and not sent is not stored here: its owner publishes
    /// it again.
    public init(_ options: ClientOptions, restoring stored: StoredClientSession) {
        self.options = options
        outgoing.restore(stored.outgoing)
        incoming.restore(stored.received)
        lastTicket = stored.lastTicket
        awaitsTime = true
    }

    /// The next event, nil when there is none. To be asked after each call until there is none.
    public mutating func nextEvent() -> ClientEvent? {
        guard nextEventIndex < events.count else {
            if nextEventIndex > 0 { discardEvents() }
            return nil
        }
        // Moved out, not copied.
        var event = ClientEvent.taken
        swap(&event, &events[nextEventIndex])
        nextEventIndex += 1
        return event
    }

    /// What has changed since the last call, where `ClientOptions.isJournaled`; to be stored before the output of now leaves.
    public mutating func takeChanges() -> [SessionChange] {
        var taken: [SessionChange] = []
        swap(&taken, &changes)
        return taken
    }

    /// How many bytes for the server wait to be sent.
    public var outputByteCount: Int { output.count }

    /// Lends the bytes for the server. The body returns how many of them, from the front, it has taken; the others stay, and what is sent
    /// later stands behind them.
    public mutating func withOutput(_ body: (UnsafeRawBufferPointer) -> Int) { output.take(body) }

    /// The bytes for the server since the last call.
    public mutating func takeOutput() -> [UInt8] {
        var bytes: [UInt8] = []
        output.take {
            bytes = Array($0)
            return $0.count
        }
        return bytes
    }

    /// Whether the server owes an answer: to CONNECT, PINGREQ, SUBSCRIBE, UNSUBSCRIBE, or a message of QoS 1 or 2.
    public var awaitsAnswer: Bool { answerDeadline != nil || outgoing.hasRequests || outgoing.count > 0 }

    /// How many QoS 1 and 2 messages are on their way to the server or wait.
    public var unacknowledgedCount: Int { outgoing.count }

    mutating func send(_ packet: ControlPacket, now: UInt64) {
        output.append(packet, version: options.version)
        lastSentAt = now
    }

    mutating func send(_ type: PacketType, _ identifier: UInt16, _ reason: ReasonCode = .success, now: UInt64) {
        output.append(type, identifier, reason, version: options.version)
        lastSentAt = now
    }

    mutating func tell(_ event: ClientEvent) { events.append(event) }

    mutating func note(_ change: @autoclosure () -> SessionChange) {
        if options.isJournaled { changes.append(change()) }
    }

    /// A message of QoS 1 or 2 has ended.
    mutating func finish(_ ticket: PublishTicket, _ reason: ReasonCode, _ texts: AnswerTexts? = nil) {
        note(.done(ticket, reason))
        tell(.published(ticket, reason, texts))
    }

    /// A message that waits is too old.
    mutating func expire(_ ticket: PublishTicket) {
        note(.done(ticket, .unspecifiedError))
        tell(.expired(ticket))
    }

    /// Gives back memory that nothing lies in.
    mutating func trim() {
        outgoing.trim()
        incoming.trim()
        receivedTopics.trim()
        output.trim()
        if nextEventIndex == events.count { (events, nextEventIndex) = ([], 0) }
    }

    /// Keeps the memory for what comes next, unless much less came now than it could hold.
    private mutating func discardEvents() {
        if events.capacity > Self.eventsKeptMin, events.count * 8 < events.capacity {
            events = []
        } else {
            events.removeAll(keepingCapacity: true)
        }
        nextEventIndex = 0
    }

    private static let eventsKeptMin = 8
}
