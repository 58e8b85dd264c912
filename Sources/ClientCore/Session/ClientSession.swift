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
/// offline: QoS 1 and 2 messages may be published, and wait. connecting: CONNECT is sent. online: messages flow.
/// ending: what waits in the output is to be sent, then the transport to be closed; nothing more is read.
///
/// A value without clock, socket or thread: times are milliseconds on the shell's monotonic clock. It outlives
/// connections: messages whose handshake is not complete are sent again on the next one. With a journal it outlives its
/// process as well: the shell stores `takeChanges` before the output leaves, and `init(_:restoring:)` goes on from what
/// they come to.
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
    /// Whether the shell reads nothing now, because what it stores messages in is behind: then silence is not the
    /// server's fault.
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
    /// Restores a session. Its stored messages are sent before all that is published from now on. A message that had
    /// been published and not sent is not stored here: its owner publishes it again.
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

    /// What has changed since the last call, where `ClientOptions.isJournaled`; to be stored before the output of now
    /// leaves.
    public mutating func takeChanges() -> [SessionChange] {
        var taken: [SessionChange] = []
        swap(&taken, &changes)
        return taken
    }

    /// How many bytes for the server wait to be sent.
    public var outputByteCount: Int { output.count }

    /// Lends the bytes for the server. The body returns how many of them, from the front, it has taken; the others
    /// stay, and what is sent later stands behind them.
    public mutating func withOutput(_ body: (UnsafeRawBufferPointer) -> Int) { output.consume(body) }

    /// The bytes for the server since the last call.
    public mutating func takeOutput() -> [UInt8] {
        var bytes: [UInt8] = []
        output.consume {
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

    mutating func emit(_ event: ClientEvent) { events.append(event) }

    mutating func record(_ change: @autoclosure () -> SessionChange) {
        if options.isJournaled { changes.append(change()) }
    }

    /// A message of QoS 1 or 2 has ended.
    mutating func finish(_ ticket: PublishTicket, _ reason: ReasonCode, _ texts: AnswerTexts? = nil) {
        record(.done(ticket, reason))
        emit(.published(ticket, reason, texts))
    }

    /// A message that waits is too old.
    mutating func expire(_ ticket: PublishTicket) {
        record(.done(ticket, .unspecifiedError))
        emit(.expired(ticket))
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

/// What happens because time has passed.
extension ClientSession {
    /// When `advance` must next be called, in milliseconds; nil for never.
    public var nextDeadline: UInt64? {
        let ofRequest = state == .online ? requestDeadline ?? .max : .max
        let deadline = min(pingDue ?? .max, answerDeadline ?? .max, ofRequest, outgoing.waiting.nextExpiry)
        return deadline == .max ? nil : deadline
    }

    /// Tells the session the time: sends PINGREQ when nothing was sent for the Keep Alive, gives up when an answer is
    /// overdue, and messages that have waited too long.
    public mutating func advance(to now: UInt64) {
        beginCounting(now: now)
        for ticket in outgoing.waiting.expire(now: now) { expire(ticket) }
        if let answerDeadline, answerDeadline <= now {
            if isHeldUp, state == .online { return askAgain(now: now) }
            return fail(state == .connecting ? .connectTimeout : .pingTimeout, now: now)
        }
        if state == .online, let requestDeadline {
            // As above, the answer may lie unread.
            if isHeldUp { self.requestDeadline = now + options.requestTimeoutMilliseconds }
            if requestDeadline <= now, !isHeldUp { return fail(.requestTimeout, now: now) }
        }
        guard let pingDue, pingDue <= now else { return }
        trim()
        send(.pingreq, now: now)  // [MQTT-3.1.2-20 v5]
        answerDeadline = now + pingTimeoutMilliseconds
    }

    mutating func beginCounting(now: UInt64) {
        guard awaitsTime else { return }
        awaitsTime = false
        outgoing.count(since: now)
    }

    /// The answer may lie unread: the server hears that we are there, and its answer is awaited anew.
    private mutating func askAgain(now: UInt64) {
        send(.pingreq, now: now)
        answerDeadline = now + pingTimeoutMilliseconds
    }

    /// How long an answer to PINGREQ is awaited: not longer than the Keep Alive, in which the server hears nothing else
    /// from us.
    private var pingTimeoutMilliseconds: UInt64 { min(options.pingTimeoutMilliseconds, keepAliveMilliseconds) }

    /// The Keep Alive that holds, in milliseconds: the server's if it ordered one. [MQTT-3.1.2-21 v5]
    var keepAliveMilliseconds: UInt64 {
        UInt64(serverProperties.serverKeepAlive ?? options.keepAliveSeconds) * 1000
    }

    /// When PINGREQ is due; nil while one is unanswered, or none ever is.
    private var pingDue: UInt64? {
        guard state == .online, keepAliveMilliseconds > 0, answerDeadline == nil else { return nil }
        return lastSentAt + keepAliveMilliseconds
    }
}

/// Messages from the server.
extension ClientSession {
    mutating func receivedPublish(_ view: PublishView, _ bytes: inout ReceivedBytes, now: UInt64) {
        guard let topic = receivedTopics.topic(of: view, aliasMaximum: options.topicAliasMaximum) else {
            return fail(.protocolError(.topicAliasInvalid), now: now)  // [MQTT-3.3.2-10 v5]
        }
        guard view.qos > .atMostOnce else { return emit(.message(message(view, topic, nil, &bytes, now))) }
        let identifier = view.packetIdentifier
        if view.qos == .atLeastOnce, options.acknowledgesAutomatically,
            let token = incoming.passed(identifier, maximum: unacknowledgedMax)
        {
            emit(.message(message(view, topic, token, &bytes, now)))
            return send(.puback, identifier, now: now)  // [MQTT-4.3.2-4 v5]
        }
        switch incoming.received(identifier, view.qos, isDuplicate: view.duplicate, maximum: unacknowledgedMax) {
        case .tooMany:
            return fail(.protocolError(.receiveMaximumExceeded), now: now)
        case .identifierInUse:
            return fail(.protocolError(.protocolError), now: now)
        case .known:
            break
        case .new(let token):
            emit(.message(message(view, topic, token, &bytes, now)))
            if options.acknowledgesAutomatically { incoming.acknowledge(token, .success) }
        }
        sendReceipts(now: now)
    }

    /// Takes or refuses a message of QoS 1 or 2, where that is not done automatically; does nothing for one whose turn
    /// is over: it was answered, or the server has forgotten the session.
    ///
    /// The answer leaves behind those of the messages that came before. Without a connection it is remembered, and
    /// given when the server sends the message again; the message is not told again then. Before MQTT 5.0 nothing can
    /// be refused, and a reason that the standard does not know for this is an unspecified error.
    public mutating func acknowledge(_ token: AcknowledgementToken, _ reason: ReasonCode = .success, now: UInt64) {
        var said = options.version == .v5 ? reason : .success
        if said != .success, !said.isAllowed(in: .puback, from: .client) { said = said.isError ? .unspecifiedError : .success }
        incoming.acknowledge(token, said)
        if state == .online { sendReceipts(now: now) }
    }

    /// The message of QoS 1 or 2 that is to be acknowledged next, and how many messages of this connection are not
    /// acknowledged; nil if none is awaited.
    public var unanswered: (first: AcknowledgementToken, count: Int)? { incoming.unanswered }

    /// Receive Maximum, which is told in MQTT 5.0 only. [MQTT-3.3.4-9 v5]
    private var unacknowledgedMax: Int { options.version == .v5 ? Int(options.receiveMaximum) : Int(UInt16.max) }

    @inline(__always)
    private func message(
        _ view: PublishView, _ topic: TopicName, _ token: AcknowledgementToken?, _ bytes: inout ReceivedBytes, _ now: UInt64
    ) -> ReceivedMessage {
        var (first, count) = (UInt32(0), 0)
        if view.hasSubscriptionIdentifiers {
            PublishView.forEachSubscriptionIdentifier(in: view.properties) { identifier in
                if count == 0 { first = identifier }
                count += 1
            }
        }
        // What is the connection's is not kept.
        let isBare = view.forwardedPropertiesLength == 0 && view.messageExpiryInterval == nil && count < 2
        let properties = isBare ? Payload() : bytes.slice(view.properties)
        var message = ReceivedMessage(
            topic: topic, payload: bytes.slice(view.payload), qos: view.qos, retain: view.retain, duplicate: view.duplicate,
            token: token, propertyBytes: properties)
        message.subscriptionIdentifier = first
        if let seconds = view.messageExpiryInterval { message.expiresAt = now + UInt64(seconds) * 1000 }
        return message
    }

    private mutating func sendReceipts(now: UInt64) {
        while let answer = incoming.nextAnswer() {
            if answer.isReceipt { record(.received(packetIdentifier: answer.packetIdentifier)) }
            // [MQTT-4.3.2-4 v5] [MQTT-4.3.3-8 v5]
            send(answer.qos == .atLeastOnce ? .puback : .pubrec, answer.packetIdentifier, answer.reason, now: now)
        }
    }
}

/// The beginning and the end of a connection.
extension ClientSession {
    /// The transport to the server stands: sends CONNECT.
    public mutating func transportOpened(now: UInt64) {
        precondition(state == .offline, "a client has one connection at a time")
        beginCounting(now: now)
        state = .connecting
        requestDeadline = nil
        carried = []
        output.discard()
        sentAliases = SentTopicAliases()
        receivedTopics.connectionOpened()
        incoming.connectionOpened()
        outgoing.connectionOpened()
        send(.connect(connectPacket), now: now)  // [MQTT-3.1.0-1 v5]
        answerDeadline = now + options.connectTimeoutMilliseconds
    }

    /// The transport is gone. What the server has not acknowledged is kept for the next one.
    public mutating func transportClosed() {
        state = .offline
        answerDeadline = nil
        output.discard()
        carried = []
        trim()
    }

    /// Says goodbye; the transport is to be closed when the output is sent.
    public mutating func disconnect(
        _ reason: ReasonCode = .normalDisconnection, properties: Properties = Properties(), now: UInt64
    ) {
        guard state == .online || state == .connecting else { return }
        if state == .online { sendDisconnect(reason, properties, now: now) }
        state = .ending  // [MQTT-3.14.4-1 v5]
        answerDeadline = nil
    }

    /// What the server would not take is left out: reasons that the standard does not know, texts that make the packet
    /// too large, a Session Expiry Interval where CONNECT had none. [MQTT-3.14.2-1 v5] [MQTT-3.14.2-3 v5]
    /// [MQTT-3.14.2-4 v5]
    private mutating func sendDisconnect(_ reason: ReasonCode, _ properties: Properties, now: UInt64) {
        var packet = DisconnectPacket(reasonCode: reason, properties: properties)
        if !reason.isAllowed(in: .disconnect, from: .client) {
            packet.reasonCode = reason.isError ? .unspecifiedError : .normalDisconnection
        }
        if options.sessionExpiryInterval ?? 0 == 0 { packet.properties.sessionExpiryInterval = nil }
        if !fits(.disconnect(packet)) { (packet.properties.reasonString, packet.properties.userProperties) = (nil, []) }
        send(.disconnect(packet), now: now)
    }

    /// Takes the next step of an extended authentication, whose method CONNECT has named; with Re-authenticate, once
    /// online, begins it again.
    ///
    /// The method is put into the packet. [MQTT-4.12.0-5 v5] Texts that make it too large are left out.
    /// [MQTT-3.15.2-2 v5] Throws `packetTooLarge` if the server does not take it then either. [MQTT-3.2.2-15 v5]
    public mutating func authenticate(_ packet: AuthPacket, now: UInt64) throws(RequestRefusal) {
        guard options.version == .v5, state == .connecting || state == .online else { throw .notConnected }
        // [MQTT-4.12.0-7 v5]
        guard let method = options.connectProperties.authenticationMethod else { throw .notAllowed(.protocolError) }
        // [MQTT-4.12.0-3 v5] [MQTT-4.12.1-1 v5]
        guard packet.reasonCode == .continueAuthentication || (packet.reasonCode == .reauthenticate && state == .online) else {
            throw .notAllowed(.protocolError)
        }
        var packet = packet
        packet.properties.authenticationMethod = method
        if !fits(.auth(packet)) { (packet.properties.reasonString, packet.properties.userProperties) = (nil, []) }
        guard fits(.auth(packet)) else { throw .packetTooLarge }
        send(.auth(packet), now: now)
    }

    private func fits(_ packet: ControlPacket) -> Bool { packet.encoded(version: options.version).count <= packetSizeMax }

    mutating func receivedAuth(_ packet: AuthPacket, now: UInt64) {
        // [MQTT-4.12.0-6 v5] [MQTT-4.12.0-5 v5]
        let method = options.connectProperties.authenticationMethod
        guard method != nil, packet.properties.authenticationMethod ?? method == method,
            packet.reasonCode == .continueAuthentication || state == .online  // [MQTT-4.12.0-2 v5]
        else { return fail(.protocolError(.protocolError), now: now) }
        emit(.authentication(packet))
    }

    /// Whether the session begins anew. Without a name there is none to come back to. [MQTT-3.1.3-7 v3.1.1]
    private var startsClean: Bool { options.cleanStart || (options.version != .v5 && options.clientIdentifier.isEmpty) }

    var connectPacket: ConnectPacket {
        var properties = options.connectProperties
        properties.sessionExpiryInterval = options.sessionExpiryInterval
        properties.receiveMaximum = options.receiveMaximum
        properties.maximumPacketSize = options.maximumPacketSize
        if options.topicAliasMaximum > 0 { properties.topicAliasMaximum = options.topicAliasMaximum }
        // [MQTT-3.1.2-22 v3.1.1]
        let nobody: EncodedString? = options.version != .v5 && options.password != nil ? "" : nil
        return ConnectPacket(
            version: options.version, cleanStart: startsClean, keepAliveSeconds: options.keepAliveSeconds,
            properties: properties, clientIdentifier: options.clientIdentifier, will: options.will,
            userName: options.userName ?? nobody,
            password: options.password, isBridge: options.isBridge)
    }

    mutating func receivedConnack(_ packet: ConnackPacket, now: UInt64) {
        guard state == .connecting else { return fail(.protocolError(.protocolError), now: now) }  // [MQTT-3.2.0-2 v5]
        answerDeadline = nil
        guard packet.isAccepted else {
            state = .ending
            return emit(.refused(packet))
        }
        // A method that CONNECT has not named. [MQTT-4.12.0-5 v5] [MQTT-4.12.0-6 v5]
        if let method = packet.properties.authenticationMethod, method != options.connectProperties.authenticationMethod {
            return fail(.protocolError(.protocolError), now: now)
        }
        // [MQTT-3.2.2-4 v5]
        if packet.sessionPresent, startsClean { return fail(.protocolError(.protocolError), now: now) }
        state = .online
        serverProperties = packet.properties
        sentAliases.allow(options.setsTopicAliases ? packet.properties.topicAliasMaximum ?? 0 : 0)
        outgoing.window = min(options.inFlightMessagesMax, Int(packet.properties.receiveMaximum ?? .max))
        emit(.connected(packet))
        // MQTT 3.1 cannot tell whether the session is there: sending again does no harm, starting over would repeat
        // messages of QoS 2.
        if packet.sessionPresent || (options.version == .v31 && !startsClean) {
            resume(now: now)
        } else {
            startOver()
        }
        sendWaiting(now: now)
    }

    /// The server knows the session: PUBREL goes again at once, and what it had not acknowledged as far as its window
    /// lets it, before anything that is new. [MQTT-4.4.0-1 v5] [MQTT-4.6.0-1 v5]
    private mutating func resume(now: UInt64) {
        for identifier in outgoing.resume() {
            send(.pubrel, identifier, now: now)
        }
    }

    /// The server knows nothing of what was in flight: messages are new to it. [MQTT-3.2.2-5 v5]
    private mutating func startOver() {
        let hadSent = outgoing.hasFlights
        for completed in outgoing.startOver() { finish(completed, .success) }
        if incoming.startOver() || hadSent { record(.startedOver) }
    }

    /// Ends the connection, and tells the server why if it can be told.
    mutating func fail(_ failure: ClientFailure, now: UInt64) {
        guard state != .ending, state != .offline else { return }
        if options.version == .v5, state == .online {
            let reason: ReasonCode? =
                switch failure {
                case .malformed(let error): error.reasonCode
                case .protocolError(let reason): reason
                case .connectTimeout, .requestTimeout, .pingTimeout: nil
                }
            if let reason { send(.disconnect(DisconnectPacket(reasonCode: reason)), now: now) }
        }
        state = .ending
        answerDeadline = nil
        emit(.failed(failure))
    }
}

/// A client's identity, and what it asks of the server.
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
    /// Whether messages are acknowledged when they are told; if not, `acknowledge` is to be called for each of QoS 1
    /// and 2.
    public var acknowledgesAutomatically = true
    /// Whether the session says what changes in it, so that it can go on after a crash; then `takeChanges` is to be
    /// called.
    public var isJournaled = false
    /// How long the server may take to answer CONNECT, in milliseconds.
    public var connectTimeoutMilliseconds: UInt64 = 10_000
    /// How long it may take to answer one of the SUBSCRIBEs and UNSUBSCRIBEs that are unanswered, in milliseconds.
    /// Longer than CONNECT: its answer comes behind the messages that are on their way.
    public var requestTimeoutMilliseconds: UInt64 = 60_000
    /// How long it may take to answer PINGREQ, in milliseconds; the Keep Alive, where that is shorter.
    public var pingTimeoutMilliseconds: UInt64 = 10_000
    /// Whether the connection is another broker's. (mosquitto's bridges say so with the highest bit of the level.)
    public var isBridge = false

    public init() {}
}
