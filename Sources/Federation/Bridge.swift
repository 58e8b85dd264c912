import MQTTCodec

/// A bridge to another broker, as a value that bytes and time act upon: it decides, a shell connects.
///
/// ```
///        start                      hangUp, failure                        stop
///   ┌──────────► creating ─► waiting ◄────────────────┐             any ─────────► stopped
///   │  persistent           │   ▲                     │
///  stopped                  ▼   │                     │
///   │                   connecting ─► opening ─► joining ─► running
///   │  lazy                 ▲          CONNECT    both sides'       │ idle
///   └──────────► collecting ┘                     sessions ◄────────┘ (lazy: back to collecting)
/// ```
/// It keeps no state of messages. To this broker it is a client inside the process, with a session that is durable as
/// any; to the other one a client over the network. A PUBLISH that this broker sends to the one goes out from the other
/// under the same packet identifier, and so does each answer in the opposite direction:
///
/// ```
///   broker's session            bridge              other broker
///   PUBLISH 7 ─────────────► topic renamed ─────────► PUBLISH 7
///   done with 7 ◄──────────────────────────────────── PUBACK 7
///   PUBLISH 3 taken, durable ◄── topic renamed ◄───── PUBLISH 3
///   PUBACK 3 ────────────────────────────────────────► PUBACK 3
/// ```
/// So each side acknowledges to the other what its own disk holds, and what was under way when anything failed is sent
/// again by the session that still has it: nothing is lost at QoS 1, and nothing comes twice at QoS 2.
///
/// Owned by the thread of the loop that its local session lives on.
public final class Bridge {
    enum State: Equatable {
        case stopped
        /// The session here is created and subscribed, so that it queues messages from now on.
        case creating
        /// The bridge is lazy: its client here is connected, and messages are counted.
        case collecting
        case waiting(until: UInt64)
        /// The shell dials.
        case connecting(since: UInt64)
        /// CONNECT is sent.
        case opening(since: UInt64)
        /// The other broker has accepted the bridge; its client here connects, and the bridge subscribes on both sides.
        case joining(since: UInt64)
        case running(since: UInt64)
    }

    public private(set) var settings: BridgeSettings
    /// The settings that hold from the next connection on, if others were given.
    private var nextSettings: BridgeSettings?
    /// What former settings subscribed to at the other broker and these do not, until a connection has unsubscribed.
    var retired: [TopicFilter] = []
    var map: TopicMap
    var state = State.stopped
    public internal(set) var report = BridgeReport()
    /// Bytes for the other broker, to be taken by the shell after each call.
    public var farOutput: [UInt8] = []
    /// Packets for this broker, to be taken by the shell after each call.
    public var localOutput: [UInt8] = []
    private var effects: [BridgeEffect] = []
    private var random: any RandomNumberGenerator
    var schedule: BridgeSchedule
    /// Whether the operator wants it to run.
    private var isWanted = false
    var now: UInt64 = 0
    var far = FarSide()
    var local = LocalSide()
    var keepAlive = BridgeKeepAlive()
    var announcement = BridgeAnnouncement()
    var collection = BridgeCollection()
    /// Which brokers messages say that they have been in.
    var path: BrokerPath
    var echoes = EchoFilter()
    private var logged = LoggedWarnings()

    /// Makes a bridge that is stopped.
    ///
    /// - Parameters:
    ///   - settings: what it is to do.
    ///   - random: for pauses.
    public init(_ settings: BridgeSettings, random: any RandomNumberGenerator) {
        self.settings = settings
        self.random = random
        map = TopicMap(settings.topics)
        path = BrokerPath(own: settings.brokerIdentifier.map { Array($0.bytes) })
        schedule = BridgeSchedule(settings)
        report.state = .paused
    }

    // MARK: Commands

    /// Starts the bridge, as its settings say: by a connection, or by waiting for messages.
    public func start(now: UInt64) {
        self.now = now
        guard case .stopped = state else { return }
        isWanted = true
        announcement.mayBeMade = true
        logged = LoggedWarnings()
        if settings.notifies { report("0") }
        begin()
    }

    /// Ends the connection with a DISCONNECT and stops the bridge. Its session here stays.
    public func stop(now: UInt64) {
        self.now = now
        isWanted = false
        sayGoodbye()
        leave()
        if settings.notifies, report.connectedSince != nil { report("0") }
        report.connectedSince = nil
        enter(.stopped, report: .paused)
    }

    /// Replaces the settings, from now on or from the next connection on.
    ///
    /// - Parameters:
    ///   - settings: what it is to do.
    ///   - isElsewhere: whether the shell connects in another way, or to other addresses, than when the connection was
    ///     made.
    ///   - atOnce: whether a connection that stands is ended for it.
    ///   - now: in milliseconds.
    public func renew(_ settings: BridgeSettings, isElsewhere: Bool = false, atOnce: Bool, now: UInt64) {
        self.now = now
        guard settings != self.settings || isElsewhere else {
            nextSettings = nil
            return
        }
        nextSettings = settings
        switch state {
        case .opening, .joining, .running:
            guard atOnce else { return }
            sayGoodbye()
            leave()
            if self.settings.notifies { report("0") }
            report.connectedSince = nil
        case .stopped:
            applyNextSettings()
            return
        case .creating, .collecting, .connecting, .waiting: leave()
        }
        begin()
    }

    private func applyNextSettings() {
        guard let next = nextSettings else { return }
        let kept = Set(next.remoteFilters.map(\.filter))
        retired = (retired + settings.remoteFilters.map(\.filter)).filter { !kept.contains($0) }
        settings = next
        nextSettings = nil
        map = TopicMap(next.topics)
        path = BrokerPath(own: next.brokerIdentifier.map { Array($0.bytes) })
        schedule = BridgeSchedule(next)
        announcement.mayBeMade = true
        logged.lasting = []
    }

    /// Begins anew, as the settings say.
    private func begin() {
        applyNextSettings()
        if settings.isLazy { return collect() }
        collection.isDueAfterPause = false
        if settings.startsCleanLocally { return enter(.waiting(until: now), report: .waiting) }
        enter(.creating, report: .waiting)
        attach(cleanStart: false)
    }

    func collect() {
        collection.begin()
        enter(.collecting, report: .idle)
        attach(cleanStart: settings.startsCleanLocally)
    }

    // MARK: Time

    /// When `advance` is due, in milliseconds; nil for never.
    public var nextDeadline: UInt64? {
        switch state {
        case .stopped, .creating, .collecting: nil
        case .waiting(let until): until
        case .connecting(let since), .opening(let since): since + Limits.connectMillisecondsMax
        case .joining(let since): min(since + Limits.joinMillisecondsMax, keepAlive.deadline ?? .max)
        case .running: [keepAlive.deadline, schedule.probeAt, idleDeadline].compactMap { $0 }.min()
        }
    }

    private var idleDeadline: UInt64? {
        if case .lazy(_, let idle) = settings.start { collection.lastMessageAt + idle } else { nil }
    }

    public func advance(now: UInt64) {
        self.now = now
        guard let deadline = nextDeadline, deadline <= now else { return }
        switch state {
        case .stopped, .creating, .collecting: return
        case .waiting:
            applyNextSettings()
            if collection.isDueAfterPause { return collect() }
            enter(.connecting(since: now), report: .connecting)
            report.address = schedule.address
            effects.append(.dial(address: schedule.address))
        case .connecting: fail("no connection within \(Limits.connectMillisecondsMax / 1000) s")
        case .opening: fail("the other broker does not answer CONNECT within \(Limits.connectMillisecondsMax / 1000) s")
        case .joining(let since):
            if since + Limits.joinMillisecondsMax <= now {
                fail("no answer to SUBSCRIBE within \(Limits.joinMillisecondsMax / 1000) s")
            } else {
                ping()
            }
        case .running:
            if let due = schedule.probeAt, due <= now {
                schedule.probeAt = now + Limits.probeMilliseconds
                effects.append(.probe)
            }
            if let idleDeadline, idleDeadline <= now { return goIdle() }
            if let due = keepAlive.deadline, due <= now { ping() }
        }
    }

    private func ping() {
        guard keepAlive.pingSentAt == nil else { return fail("the other broker does not answer PINGREQ") }
        keepAlive.pingSentAt = now
        send(.pingreq)
    }

    /// Ends the connection of a lazy bridge that nothing has crossed for its idle time.
    private func goIdle() {
        log(.connection, "Bridge \(settings.name) is idle, and ends its connection.")
        sayGoodbye()
        leave()
        if settings.notifies { report("0") }
        report.connectedSince = nil
        schedule.settled()
        collect()
    }

    // MARK: Ends

    /// Handles a connection that could not be made or is lost. Logs the reason once, until it is another one or a
    /// connection was made in between.
    func fail(_ reason: String) {
        let connectedFor = report.connectedSince.map { now - $0 }
        if connectedFor != nil, settings.notifies { report("0") }
        leave()
        report.connectedSince = nil
        report.failure = reason
        guard isWanted else { return enter(.stopped, report: .paused) }
        if settings.start == .once {
            log(.warning, "Warning: Bridge \(settings.name): \(reason). With start_type once it does not connect again.")
            return enter(.stopped, report: .ended)
        }
        if settings.isLazy, let connectedFor, connectedFor >= Limits.stableMilliseconds {
            schedule.settled()
            return collect()
        }
        let pause = schedule.failed(connectedFor: connectedFor, random: &random)
        if let connectedFor, connectedFor >= Limits.loggedFailureMilliseconds { logged.failure = nil }
        if logged.failure != reason {
            logged.failure = reason
            log(.warning, "Warning: Bridge \(settings.name): \(reason). It goes on trying.")
        }
        // What waits decides, as after an end for idleness; without a connection before, it has decided.
        if settings.isLazy, connectedFor != nil { collection.isDueAfterPause = true }
        enter(.waiting(until: now + pause), report: .waiting)
    }

    /// Ends the connection, and lets the client out of this broker.
    func leave() {
        switch state {
        case .connecting, .opening, .joining, .running: effects.append(.hangUp)
        case .stopped, .creating, .collecting, .waiting: break
        }
        far.clear()
        local.ownReleases = []
        (keepAlive.pingSentAt, schedule.probeAt) = (nil, nil)
        detach()
    }

    /// Lets the client out of this broker; its session stays as long as it was to.
    func detach() {
        guard local.state != .absent else { return }
        local.state = .absent
        local.clear()
        ControlPacket.disconnect(DisconnectPacket()).encode(version: .v5, into: &localOutput)
        effects.append(.forget)
    }

    /// Sends DISCONNECT before an end that is wanted: else the other broker would publish the will.
    private func sayGoodbye() {
        switch state {
        case .joining, .running: break
        case .stopped, .creating, .collecting, .waiting, .connecting, .opening: return
        }
        if tellsThere { sendNotice("0", qos: .atMostOnce) }
        send(.disconnect(DisconnectPacket()))
    }

    // MARK: Words

    func enter(_ state: State, report: BridgeReport.State) {
        self.state = state
        self.report.state = report
        effects.append(.changed)
    }

    func connected() {
        // The next message will say whether there is room.
        if logged.failure != Self.noRoomThere { logged.failure = nil }
        report.failure = nil
    }

    static let noRoomThere = "the other broker has no room for a message, which is kept here"

    /// Logs a warning once, about something that stays as it is until the settings change.
    func warnOnce(_ text: String) {
        if logged.lasting.insert(text).inserted { log(.warning, "Warning: Bridge \(settings.name): \(text)") }
    }

    func log(_ level: BridgeLogLevel, _ text: String) { effects.append(.log(level, text)) }

    /// Publishes in this broker whether the bridge is connected.
    func report(_ text: String) {
        guard let topic = settings.stateTopic else { return }
        effects.append(.publish(topic, payload: Array(text.utf8)))
    }

    func want(_ effect: BridgeEffect) { effects.append(effect) }

    /// The effects since the last call, in order; `localOutput` before, `farOutput` before `hangUp`.
    public func takeEffects() -> [BridgeEffect] {
        defer { effects = [] }
        return effects
    }
}

/// Messages that the other broker sends.
extension Bridge {
    /// Forwards a message of the other broker to this one.
    func forward(_ view: PublishView) throws(WireError) {
        if view.topicAlias != 0 {
            guard view.topicAlias <= settings.topicAliasMaximum else { throw .topicAliasZero }
            if view.topic.isEmpty {
                guard let known = far.aliases[view.topicAlias] else { throw .emptyTopic }
                return known.withUnsafeBytes { forward(view, topic: $0) }
            }
            far.aliases[view.topicAlias] = Array(view.topic)
        }
        forward(view, topic: view.topic)
    }

    private func forward(_ view: PublishView, topic: UnsafeRawBufferPointer) {
        collection.lastMessageAt = now
        guard let renaming = map.in(topic) else { return refuse(view, .success) }
        guard !renaming.isReserved else {
            warnOnce(
                "the other broker sends a message whose topic, without its prefix, would begin with $ here, where such topics are not for "
                    + "clients. Such messages are not forwarded.")
            return refuse(view, .success)
        }
        renaming.withName(of: topic) { forward(view, from: topic, as: $0) }
    }

    private func forward(_ view: PublishView, from topic: UnsafeRawBufferPointer, as name: UnsafeRawBufferPointer) {
        let stay = settings.version == .v5 ? path.in(view.properties, local: name, remote: topic) : []
        guard let stay, !needsEchoFilter || !echoes.isEcho(view, topic, now: now) else {
            report.echoes += 1
            return refuse(view, .success, counts: false)
        }
        let written = view.write(
            as: name, adding: stay, version: .v5, qos: view.qos, retain: view.retain && local.takesRetain,
            duplicate: view.duplicate && view.qos != .atMostOnce, bytesMax: local.packetBytesMax, into: &localOutput)
        guard written > 0 else {
            warnOnce(
                "the other broker sends a message that is, or whose topic is, larger than this broker takes. Such messages are not forwarded."
            )
            return refuse(view, .implementationSpecificError)
        }
        report.messagesIn += 1
    }

    /// Refuses a message of the other broker for good: it must not send it again.
    private func refuse(_ view: PublishView, _ reason: ReasonCode, counts: Bool = true) {
        refuse(view.qos, view.packetIdentifier, reason, counts: counts)
    }

    func refuse(_ qos: QoS, _ packetIdentifier: UInt16, _ reason: ReasonCode, counts: Bool = true) {
        if counts { report.droppedIn += 1 }
        switch qos {
        case .atMostOnce: return
        case .atLeastOnce: acknowledge(.puback, packetIdentifier, reason)
        // Its PUBREL goes to this broker, which answers that it knows of no such message.
        case .exactlyOnce: acknowledge(.pubrec, packetIdentifier, reason)
        }
    }

    /// Whether own messages may come back.
    var needsEchoFilter: Bool { settings.version != .v5 && !announcement.isMade && settings.mayEcho }
}

/// When the other broker has to be heard from, and we by it; in milliseconds.
struct BridgeKeepAlive {
    /// 0 for never: as CONNACK says, else CONNECT.
    var milliseconds: UInt64 = 0
    var lastReceivedAt: UInt64 = 0
    var lastSentAt: UInt64 = 0
    /// When PINGREQ was sent that is not answered, or bytes went or came after that.
    var pingSentAt: UInt64?

    /// When PINGREQ is to be sent, or has been without an answer for too long.
    var deadline: UInt64? {
        guard milliseconds > 0 else { return nil }
        return pingSentAt.map { $0 + milliseconds / 2 } ?? min(lastSentAt, lastReceivedAt) + milliseconds
    }

    /// Bytes come, or go: the answer to PINGREQ may be behind many others, and PINGREQ itself too.
    mutating func isAlive(now: UInt64) { if pingSentAt != nil { pingSentAt = now } }
}

/// Whether the other broker is told by the protocol level that this is a bridge, which not every broker supports.
struct BridgeAnnouncement {
    /// The connection's CONNECT says so.
    var isMade = false
    /// The next CONNECT may say so.
    var mayBeMade = true
}

/// What was logged, so that it is not logged with each message or each attempt.
private struct LoggedWarnings {
    /// The failure that was logged last; nil when the next is to be logged, whichever it is.
    var failure: String?
    /// What stays as it is until the settings change.
    var lasting: Set<String> = []
}

extension Limits {
    /// Milliseconds from the beginning of an attempt to CONNACK.
    static let connectMillisecondsMax: UInt64 = 30_000

    /// Milliseconds from CONNACK until both sides have answered all that a bridge begins with.
    static let joinMillisecondsMax: UInt64 = 30_000

    /// Milliseconds that a connection has to last before the same failure is logged again.
    static let loggedFailureMilliseconds: UInt64 = 300_000
}
