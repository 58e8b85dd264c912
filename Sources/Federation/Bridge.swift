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
        /// The session here is made and subscribed, so that it gathers messages from now on.
        case creating
        /// The client here is in, and messages are counted.
        case collecting
        case waiting(until: UInt64)
        /// The shell dials.
        case connecting(since: UInt64)
        /// CONNECT is sent.
        case opening(since: UInt64)
        /// The other broker has let the bridge in; its client here comes in, and both sides are subscribed to.
        case joining(since: UInt64)
        case running(since: UInt64)
    }

    /// How far the client here is.
    enum LocalState { case absent, attaching, subscribing, ready }

    public private(set) var settings: BridgeSettings
    /// What takes the place of the settings with the next connection.
    private var nextSettings: BridgeSettings?
    var map: TopicMap
    var state = State.stopped
    var local = LocalState.absent
    public internal(set) var report = BridgeReport()
    /// Bytes for the other broker, to be taken by the shell after each call.
    public var farOutput: [UInt8] = []
    /// Packets for this broker, likewise.
    public var localOutput: [UInt8] = []
    private var effects: [BridgeEffect] = []
    private var random: any RandomNumberGenerator
    var schedule: BridgeSchedule
    /// Whether the operator wants it to run.
    private var isWanted = false
    var now: UInt64 = 0

    // Of the connection to the other broker.
    let far = PacketBuffer()
    /// Bytes that the shell has and the connection has not taken.
    var farPending = 0
    var farSessionPresent = false
    var farPacketBytesMax = Int.max
    var farQoSMax = QoS.exactlyOnce
    var farTakesRetain = true
    /// SUBSCRIBE and UNSUBSCRIBE that are not answered, by packet identifier, and what they ask for.
    var unanswered: [UInt16: String] = [:]
    /// The packet identifier of our own PUBLISH that says that we are there, until it is acknowledged, and its QoS.
    var noticeIdentifier: UInt16?
    var noticeQoS = QoS.atLeastOnce
    var keepAliveMilliseconds: UInt64 = 0
    var lastReceivedAt: UInt64 = 0
    var lastSentAt: UInt64 = 0
    var pingSentAt: UInt64?
    var aliases: [UInt16: [UInt8]] = [:]
    var sentAliases = SentTopicAliases(maximum: 0)
    /// Messages that go out at a lower QoS than this broker sends them: PUBREL is answered here.
    var lowered: Set<UInt16> = []
    var echoes = EchoFilter()
    /// Which brokers messages say that they have been in.
    var path: BrokerPath
    /// Whether the other broker was told by the protocol level that this is a bridge, and whether the next CONNECT does
    /// so.
    var hasAnnounced = false
    var mayAnnounce = true
    /// What a former connection subscribed to there and is no longer wanted.
    var retired: [TopicFilter] = []
    /// Whether the connection is one to another than the first address, and when that is looked for.
    var probeAt: UInt64?

    // Of the client here.
    let near = PacketBuffer()
    /// What it has sent for the other broker before that one was ready: messages come ahead of the answers that are
    /// waited for.
    let early = PacketBuffer()
    /// Bytes that were taken from this broker and no room was opened for.
    var takenBytes = 0
    var nearPacketBytesMax = Int.max
    var nearTakesRetain = true
    var unreleased: [UInt16] = []
    /// Those of them that were released because the other broker has forgotten them, until that is confirmed.
    var ownReleases: Set<UInt16> = []
    /// Filters that the session here has and no topic names.
    var strayFilters: [TopicFilter] = []
    /// SUBSCRIBE and UNSUBSCRIBE here that are not answered.
    var localUnanswered: Set<UInt16> = []
    /// Lazy: QoS 0 messages that have come before there was a connection, and how many messages in all.
    let collected = PacketBuffer()
    var collectedCount = 0
    /// Lazy: whether the pause that it waits for ends with messages being counted anew, for a connection is lost.
    private var collectsAfterPause = false
    var lastMessageAt: UInt64 = 0
    /// The failure that the log has told of last.
    private var toldFailure: String?
    /// What the log has told that would else be told with each message, or each connection.
    private var told: Set<String> = []

    /// Makes one that does not work yet.
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

    // MARK: Orders

    /// Begins to work.
    public func start(now: UInt64) {
        self.now = now
        guard case .stopped = state else { return }
        isWanted = true
        mayAnnounce = true
        (toldFailure, told) = (nil, [])
        if settings.notifies { report("0") }
        begin()
    }

    /// Ends the connection with a goodbye, and rests. Its session here stays.
    public func stop(now: UInt64) {
        self.now = now
        isWanted = false
        sayGoodbye()
        leave()
        if settings.notifies, report.connectedSince != nil { report("0") }
        report.connectedSince = nil
        enter(.stopped, report: .paused)
    }

    /// Works with other settings from now on, or from the next connection on.
    ///
    /// - Parameters:
    ///   - settings: what it is to do.
    ///   - isElsewhere: whether the shell connects in another way, or to another place, than the connection was made.
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
            takeNextSettings()
            return
        case .creating, .collecting, .connecting, .waiting: leave()
        }
        begin()
    }

    private func takeNextSettings() {
        guard let next = nextSettings else { return }
        let kept = Set(next.remoteFilters.map(\.filter))
        retired = (retired + settings.remoteFilters.map(\.filter)).filter { !kept.contains($0) }
        settings = next
        nextSettings = nil
        map = TopicMap(next.topics)
        path = BrokerPath(own: next.brokerIdentifier.map { Array($0.bytes) })
        schedule = BridgeSchedule(next)
        mayAnnounce = true
        told = []
    }

    /// From the beginning, as the settings say.
    private func begin() {
        takeNextSettings()
        if settings.isLazy { return collect() }
        collectsAfterPause = false
        if settings.startsCleanLocally { return enter(.waiting(until: now), report: .waiting) }
        enter(.creating, report: .waiting)
        attach(cleanStart: false)
    }

    func collect() {
        collected.removeAll()
        collectedCount = 0
        collectsAfterPause = false
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
        case .joining(let since): min(since + Limits.joinMillisecondsMax, keepAliveDeadline ?? .max)
        case .running: [keepAliveDeadline, probeAt, idleDeadline].compactMap { $0 }.min()
        }
    }

    private var keepAliveDeadline: UInt64? {
        guard keepAliveMilliseconds > 0 else { return nil }
        return pingSentAt.map { $0 + keepAliveMilliseconds / 2 } ?? min(lastSentAt, lastReceivedAt) + keepAliveMilliseconds
    }

    private var idleDeadline: UInt64? {
        if case .lazy(_, let idle) = settings.start { lastMessageAt + idle } else { nil }
    }

    public func advance(now: UInt64) {
        self.now = now
        guard let deadline = nextDeadline, deadline <= now else { return }
        switch state {
        case .stopped, .creating, .collecting: return
        case .waiting:
            takeNextSettings()
            if collectsAfterPause { return collect() }
            enter(.connecting(since: now), report: .connecting)
            report.address = schedule.address
            effects.append(.dial(address: schedule.address))
        case .connecting: fail("no connection within \(Limits.connectMillisecondsMax / 1000) s")
        case .opening: fail("the other broker does not answer CONNECT within \(Limits.connectMillisecondsMax / 1000) s")
        case .joining(let since):
            if since + Limits.joinMillisecondsMax <= now {
                fail("no answer to SUBSCRIBE within \(Limits.joinMillisecondsMax / 1000) s")
            } else {
                keepAlive()
            }
        case .running:
            if let probeAt, probeAt <= now {
                self.probeAt = now + Limits.probeMilliseconds
                effects.append(.probe)
            }
            if let idleDeadline, idleDeadline <= now { return goIdle() }
            if let keepAliveDeadline, keepAliveDeadline <= now { keepAlive() }
        }
    }

    /// Bytes come, or go: the answer to PINGREQ may be behind many others, and PINGREQ itself too.
    func isAlive() { if pingSentAt != nil { pingSentAt = now } }

    private func keepAlive() {
        guard pingSentAt == nil else { return fail("the other broker does not answer PINGREQ") }
        pingSentAt = now
        send(.pingreq)
    }

    /// Lazy: nothing has crossed for so long.
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

    /// The connection could not be made, or is lost. Says so once, until it is another reason or a connection was made
    /// in between.
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
        if let connectedFor, connectedFor >= Limits.toldMilliseconds { toldFailure = nil }
        if toldFailure != reason {
            toldFailure = reason
            log(.warning, "Warning: Bridge \(settings.name): \(reason). It goes on trying.")
        }
        // What waits decides, as after an end for idleness; without a connection before, it has decided.
        if settings.isLazy, connectedFor != nil { collectsAfterPause = true }
        enter(.waiting(until: now + pause), report: .waiting)
    }

    /// Lets go of both sides.
    func leave() {
        switch state {
        case .connecting, .opening, .joining, .running: effects.append(.hangUp)
        case .stopped, .creating, .collecting, .waiting: break
        }
        far.removeAll()
        farPending = 0
        (aliases, lowered, unanswered, noticeIdentifier, pingSentAt, probeAt, ownReleases) = ([:], [], [:], nil, nil, nil, [])
        detach()
    }

    /// Lets the client out of this broker; its session stays as long as it was to.
    func detach() {
        guard local != .absent else { return }
        local = .absent
        near.removeAll()
        early.removeAll()
        takenBytes = 0
        localUnanswered = []
        ControlPacket.disconnect(DisconnectPacket()).encode(version: .v5, into: &localOutput)
        effects.append(.forget)
    }

    /// What the other broker is told before an end that is wanted: else it would publish the will.
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
        if toldFailure != Self.noRoomThere { toldFailure = nil }
        report.failure = nil
    }

    static let noRoomThere = "the other broker has no room for a message, which is kept here"

    /// Warns of what stays as it is until the settings change.
    func warnOnce(_ text: String) {
        if told.insert(text).inserted { log(.warning, "Warning: Bridge \(settings.name): \(text)") }
    }

    func log(_ level: BridgeLogLevel, _ text: String) { effects.append(.log(level, text)) }

    /// Says here whether it is connected.
    func report(_ text: String) {
        guard let topic = settings.stateTopic else { return }
        effects.append(.publish(topic, payload: Array(text.utf8)))
    }

    func want(_ effect: BridgeEffect) { effects.append(effect) }

    /// What is to be done since the last call, in order; `localOutput` before, `farOutput` before `hangUp`.
    public func takeEffects() -> [BridgeEffect] {
        defer { effects = [] }
        return effects
    }
}

/// Messages that the other broker sends, and how one is written as the other side calls it.
extension Bridge {
    /// A message for this broker.
    func takeIn(_ view: PublishView) throws(WireError) {
        if view.topicAlias != 0 {
            guard view.topicAlias <= settings.topicAliasMaximum else { throw .topicAliasZero }
            if view.topic.isEmpty {
                guard let known = aliases[view.topicAlias] else { throw .emptyTopic }
                return known.withUnsafeBytes { takeIn(view, topic: $0) }
            }
            aliases[view.topicAlias] = Array(view.topic)
        }
        takeIn(view, topic: view.topic)
    }

    private func takeIn(_ view: PublishView, topic: UnsafeRawBufferPointer) {
        lastMessageAt = now
        guard let renaming = map.in(topic) else { return refuse(view, .success) }
        guard !renaming.isReserved else {
            warnOnce(
                "the other broker sends a message whose topic, without its prefix, would begin with $ here, where such topics are not for "
                    + "clients. Such messages are not forwarded.")
            return refuse(view, .success)
        }
        renaming.withName(of: topic) { takeIn(view, from: topic, as: $0) }
    }

    private func takeIn(_ view: PublishView, from topic: UnsafeRawBufferPointer, as name: UnsafeRawBufferPointer) {
        let stay = settings.version == .v5 ? path.in(view.properties, local: name, remote: topic) : []
        guard let stay, !needsEchoFilter || !echoes.isEcho(view, topic, now: now) else {
            report.echoes += 1
            return refuse(view, .success, counts: false)
        }
        let written = write(
            view, as: name, adding: stay, version: .v5, qos: view.qos, retain: view.retain && nearTakesRetain,
            duplicate: view.duplicate && view.qos != .atMostOnce, bytesMax: nearPacketBytesMax, into: &localOutput)
        guard written > 0 else {
            warnOnce(
                "the other broker sends a message that is, or whose topic is, larger than this broker takes. Such messages are not forwarded."
            )
            return refuse(view, .implementationSpecificError)
        }
        report.messagesIn += 1
    }

    /// A message is not taken; the other broker must not send it again.
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
    var needsEchoFilter: Bool { settings.version != .v5 && !hasAnnounced && settings.mayEcho }

    /// Writes a message as it is called on the other side.
    ///
    /// - Parameters:
    ///   - view: the message.
    ///   - name: its topic there; empty if `addition` has an alias for it.
    ///   - addition: bytes of properties that it gets on top in MQTT 5.0.
    ///   - version: of the packet, with `qos`, `retain` and `duplicate`.
    ///   - bytesMax: the most that the packet may have.
    ///   - output: where it goes.
    /// - Returns: its bytes; 0 if nothing is written, because there would be more than `bytesMax`, or no such topic.
    func write(
        _ view: PublishView, as name: UnsafeRawBufferPointer, adding addition: [UInt8], version: ProtocolVersion, qos: QoS,
        retain: Bool, duplicate: Bool, bytesMax: Int, into output: inout [UInt8]
    ) -> Int {
        guard name.count <= Int(UInt16.max) else { return 0 }
        let expiryLength = view.messageExpiryInterval == nil ? 0 : 5
        let propertiesLength = version == .v5 ? view.forwardedPropertiesLength + addition.count + expiryLength : 0
        let size = PublishHeader.encodedSize(
            version: version, qos: qos, topicLength: name.count, propertiesLength: propertiesLength,
            payloadLength: view.payload.count)
        guard size <= bytesMax, size <= Self.packetBytesLargest else { return 0 }
        let header = PublishHeader(version: version, qos: qos, retain: retain, duplicate: duplicate)
        withUnsafeTemporaryAllocation(byteCount: size - view.payload.count, alignment: 1) { head in
            guard let packet = head.baseAddress else { return }
            let offsets = header.write(
                to: packet, topic: name, packetIdentifier: view.packetIdentifier, propertiesLength: propertiesLength,
                payloadLength: view.payload.count)
            if version == .v5 {
                var place = packet + offsets.propertiesOffset
                if let interval = view.messageExpiryInterval {
                    place.storeBytes(of: 0x02, as: UInt8.self)
                    (place + 1).storeBytes(of: interval.bigEndian, as: UInt32.self)
                    place += 5
                }
                view.copyForwardedProperties(to: place)
                place += view.forwardedPropertiesLength
                // Behind those of its publisher, whose order stands. [MQTT-3.3.2-18 v5]
                addition.withUnsafeBytes { bytes in
                    if let base = bytes.baseAddress { place.copyMemory(from: base, byteCount: bytes.count) }
                }
            }
            output.append(contentsOf: UnsafeRawBufferPointer(head))
        }
        output.append(contentsOf: view.payload)
        return size
    }

    private static let packetBytesLargest = 268_435_460
}

extension Limits {
    /// Milliseconds from the beginning of an attempt to CONNACK.
    static let connectMillisecondsMax: UInt64 = 30_000

    /// Milliseconds from CONNACK until both sides have answered all that a bridge begins with.
    static let joinMillisecondsMax: UInt64 = 30_000

    /// How long a connection lasts after which the log tells again that the other broker has no room, in milliseconds.
    static let toldMilliseconds: UInt64 = 300_000
}
