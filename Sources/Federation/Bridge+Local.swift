public import MQTTCodec

/// This broker's side.
extension Bridge {
    func attach(cleanStart: Bool, receiveMaximum: UInt16? = nil) {
        local.state = .attaching
        local.clear()
        want(
            .attach(
                LocalJoin(
                    cleanStart: cleanStart, sessionExpiryInterval: endsLocallyWithConnection ? 0 : .max,
                    receiveMaximum: receiveMaximum ?? max(1, settings.receiveMaximum), room: Limits.underwayBytesMax)))
    }

    /// The shell reports that the bridge's client is on its way into this broker.
    ///
    /// - Parameters:
    ///   - unreleased: the packet identifiers of the QoS 2 messages that its session has taken and that are not
    ///     released.
    ///   - filters: what its session is subscribed to.
    ///   - now: in milliseconds.
    public func attached(unreleased: [UInt16], filters: [TopicFilter], now: UInt64) {
        self.now = now
        guard local.state == .attaching else { return }
        local.unreleased = unreleased
        let wanted = Set(settings.localFilters.map(\.filter))
        local.strayFilters = filters.filter { !wanted.contains($0) }
    }

    /// The shell reports that this broker has ended the client.
    public func localClosed(now: UInt64) {
        self.now = now
        guard local.state != .absent else { return }
        local.state = .absent
        local.input.removeAll()
        lose("its client in this broker was ended")
    }

    private func lose(_ reason: String) {
        switch state {
        case .stopped: return
        case .waiting, .connecting, .opening, .joining, .running: fail(reason)
        case .creating, .collecting:
            // Tried again as an attempt would be, which attaches anew.
            fail(reason)
        }
    }

    /// Takes bytes that this broker has sent to the bridge's client.
    public func receivedLocally(_ bytes: UnsafeRawBufferPointer, now: UInt64) {
        self.now = now
        local.takenBytes += bytes.count
        if farOutput.isEmpty { farOutput.reserveCapacity(bytes.count) }
        local.input.append(bytes)
        drainNear()
    }

    /// Handles the packets of this broker that wait, as far as the other broker is ready for them.
    func drainNear() {
        for buffer in [collection.packets, local.early, local.input] {
            let isLegible = buffer.drain { firstByte, body, size in
                guard local.state != .absent, buffer === local.input || isRunning else { return false }
                guard buffer === local.input, !isRunning || local.early.count > 0 else {
                    receiveLocally(firstByte, body)
                    return true
                }
                let packet = UnsafeRawBufferPointer(start: body.baseAddress.map { $0 - (size - body.count) }, count: size)
                let type = PacketType(rawValue: firstByte >> 4)
                // Nothing overtakes what came before the other broker was ready, and is to go out first.
                if isJoining || isRunning, type == .publish || type == .pubrel {
                    local.early.append(packet)
                } else if isCollecting, type == .publish {
                    collect(packet, isAtMostOnce: firstByte & 0x06 == 0)
                } else {
                    receiveLocally(firstByte, body)
                }
                return true
            }
            if !isLegible, local.state != .absent { lose("this broker sends something that is not MQTT") }
        }
        openRoom()
    }

    /// Lets this broker send more, once what it has sent is on its way to the other one.
    func openRoom() {
        // SUBACK comes behind what the session sends again. With no room left it would never come: it is not waited
        // for.
        if isJoining, local.state == .subscribing, local.takenBytes >= Limits.underwayBytesMax {
            local.unanswered = []
            settleLocal()
        }
        // Of `near` only the beginning of a packet is left; without room its end would never come.
        guard local.takenBytes >= Limits.underwayBytesMax / 4,
            local.early.count + farOutput.count + far.pendingBytes <= Limits.underwayBytesMax / 2
        else { return }
        let opened = local.takenBytes - local.early.count
        guard opened > 0 else { return }
        local.takenBytes -= opened
        want(.openRoom(opened))
    }

    private func receiveLocally(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer) {
        guard let type = PacketType(rawValue: firstByte >> 4) else { return }
        do throws(WireError) {
            switch type {
            case .publish:
                let view = try PublishView.decode(firstByte: firstByte, body: body, version: .v5, from: .server)
                sendOut(view)
            case .puback, .pubrec, .pubrel, .pubcomp:
                let view = try AcknowledgementView.decode(type: type, firstByte: firstByte, body: body, version: .v5, from: .server)
                relay(type, view)
            default:
                receiveLocally(try ControlPacket.decode(firstByte: firstByte, body: body, version: .v5, from: .server))
            }
        } catch {
            lose("this broker sends something that is not MQTT: \(error.explanation)")
        }
    }

    private func receiveLocally(_ packet: ControlPacket) {
        switch packet {
        case .connack(let answer): enterHere(answer)
        case .suback(let answer):
            local.unanswered.remove(answer.packetIdentifier)
            for (subscription, code) in zip(settings.localFilters, answer.reasonCodes) where code.isError {
                warnOnce("it may not subscribe to \(TextOf(subscription.filter)) here: \(code). Nothing of it goes out.")
            }
            settleLocal()
        case .unsuback(let answer):
            local.unanswered.remove(answer.packetIdentifier)
            settleLocal()
        case .disconnect(let disconnect):
            local.state = .absent
            want(.forget)
            lose("its client in this broker was ended: \(disconnect.reasonCode)")
        case .connect, .publish, .acknowledgement, .subscribe, .unsubscribe, .pingreq, .pingresp, .auth: return
        }
    }

    private func enterHere(_ answer: ConnackPacket) {
        guard answer.isAccepted else {
            local.state = .absent
            want(.forget)
            return lose("this broker does not let it in: \(answer.reasonCode)")
        }
        local.packetBytesMax = answer.properties.maximumPacketSize.map(Int.init) ?? .max
        local.takesRetain = answer.properties.retainAvailable ?? true
        local.state = .subscribing
        if case .joining = state, !far.sessionPresent {
            // The other broker has forgotten what it sent: its identifiers stand for other messages from now on.
            for identifier in local.unreleased {
                self.answer(.pubrel, identifier)
                local.ownReleases.insert(identifier)
            }
        }
        local.unreleased = []
        let wanted = settings.localFilters
        if !wanted.isEmpty {
            let subscriptions = wanted.map { filter, qos in
                Subscription(
                    filter: filter,
                    options: SubscriptionOptions(
                        maximumQoS: qos, noLocal: !filter.isShared, retainAsPublished: settings.sendsRetain,
                        retainHandling: isJoining || state == .collecting ? .sendAtSubscribe : .doNotSend))
            }
            local.unanswered.insert(Self.subscribeIdentifier)
            ControlPacket.subscribe(SubscribePacket(packetIdentifier: Self.subscribeIdentifier, subscriptions: subscriptions))
                .encode(version: .v5, into: &localOutput)
        }
        if !local.strayFilters.isEmpty {
            local.unanswered.insert(Self.unsubscribeIdentifier)
            ControlPacket.unsubscribe(UnsubscribePacket(packetIdentifier: Self.unsubscribeIdentifier, filters: local.strayFilters))
                .encode(version: .v5, into: &localOutput)
            local.strayFilters = []
        }
        settleLocal()
    }

    private var isJoining: Bool { if case .joining = state { true } else { false } }
    private var isRunning: Bool { if case .running = state { true } else { false } }

    /// Whether a lazy bridge gathers messages: its client here stays connected until the other broker has accepted the
    /// connection.
    private var isCollecting: Bool {
        switch state {
        case .collecting, .waiting, .connecting, .opening: true
        case .stopped, .creating, .joining, .running: false
        }
    }

    private func settleLocal() {
        guard local.state == .subscribing, local.unanswered.isEmpty else { return }
        local.state = .ready
        switch state {
        case .creating:
            detach()
            enter(.waiting(until: now), report: .waiting)
        case .joining: settleJoin()
        case .collecting, .stopped, .waiting, .connecting, .opening, .running: return
        }
    }

    /// Goes on when both sides are ready: handles what they have sent meanwhile.
    func settleJoin() {
        guard case .joining = state, local.state == .ready else { return }
        if far.unanswered.isEmpty {
            report.connectedSince = now
            report.connectionCount += 1
            collection.lastMessageAt = now
            connected()
            schedule.probeAt = schedule.address != 0 && !settings.isRoundRobin ? now + schedule.awayMilliseconds : nil
            log(.connection, "Bridge \(settings.name) is connected.")
            if settings.notifies { report("1") }
            (collection.count, retired) = (0, [])
            echoes.goOn(now: now)
            enter(.running(since: now), report: .connected)
        }
        want(.resume)
    }

    /// Answers the effect `resume`: handles what has waited until both sides were ready.
    public func resume(now: UInt64) {
        self.now = now
        drainFar()
        drainNear()
    }

    // MARK: Messages

    /// Sends a message of this broker to the other one, under its name there.
    private func sendOut(_ view: PublishView) {
        // In all other states the session is being made, or left: it is there to keep messages of QoS 1 and 2, and
        // sends these again.
        guard case .running = state else { return }
        collection.lastMessageAt = now
        guard let renaming = map.out(view.topic) else { return refuseLocally(view, .success) }
        guard !renaming.isReserved else {
            warnOnce(
                "without its prefix, the topic of a message would begin with $ at the other broker, where such topics are not for clients. "
                    + "Such messages are not forwarded.")
            return refuseLocally(view, .success)
        }
        renaming.withName(of: view.topic) { sendOut(view, as: $0) }
    }

    private func sendOut(_ view: PublishView, as name: UnsafeRawBufferPointer) {
        let stay = settings.version == .v5 ? path.out(view.properties, local: view.topic, remote: name) : []
        guard let stay else {
            report.echoes += 1
            return refuseLocally(view, .success, counts: false)
        }
        let qos = min(view.qos, far.qosMax)
        func write(as name: UnsafeRawBufferPointer, alias: UInt16?) -> Int {
            let property: [UInt8] = alias.map { [0x23, UInt8($0 >> 8), UInt8($0 & 255)] } ?? []
            return view.write(
                as: name, adding: property + stay, version: settings.version, qos: qos,
                retain: view.retain && settings.sendsRetain && far.takesRetain, duplicate: view.duplicate && qos != .atMostOnce,
                bytesMax: far.packetBytesMax, into: &farOutput)
        }
        let alias = far.sentAliases.alias(for: name)
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        var size = write(as: alias?.isSet == true ? nothing : name, alias: alias?.number)
        if let alias, !alias.isSet {
            // With the alias beside it, the topic may be what is too large.
            if size > 0 { far.sentAliases.set(alias.number, for: name) } else { size = write(as: name, alias: nil) }
        }
        guard size > 0 else {
            warnOnce("a message, or its topic, is larger than the other broker takes. Such messages are not forwarded.")
            return refuseLocally(view, .implementationSpecificError)
        }
        keepAlive.lastSentAt = now
        report.messagesOut += 1
        report.bytesOut += UInt64(size)
        if qos != view.qos { lower(view, to: qos) }
        if needsEchoFilter, map.in(name) != nil { echoes.sent(view, name, now: now) }
    }

    /// Answers this broker for a message that has gone out at a lower QoS than its own, since the other broker will
    /// not.
    private func lower(_ view: PublishView, to qos: QoS) {
        if view.qos == .exactlyOnce { far.lowered.insert(view.packetIdentifier) }
        if qos == .atMostOnce { answer(view.qos == .atLeastOnce ? .puback : .pubrec, view.packetIdentifier) }
    }

    /// Acknowledges a message that does not go out, so that its session is done with it.
    private func refuseLocally(_ view: PublishView, _ reason: ReasonCode, counts: Bool = true) {
        if counts { report.droppedOut += 1 }
        switch view.qos {
        case .atMostOnce: return
        case .atLeastOnce: answer(.puback, view.packetIdentifier, reason)
        case .exactlyOnce:
            answer(.pubrec, view.packetIdentifier, reason)
            if !reason.isError { far.lowered.insert(view.packetIdentifier) }
        }
    }

    /// Counts a message of a lazy bridge that is not connected yet. Messages of QoS 0 are kept here until it is; the
    /// session sends the others again.
    private func collect(_ packet: UnsafeRawBufferPointer, isAtMostOnce: Bool) {
        guard case .lazy(let threshold, _) = settings.start else { return }
        collection.count += 1
        if isAtMostOnce, collection.packets.count + packet.count <= Limits.underwayBytesMax { collection.packets.append(packet) }
        if state == .collecting, collection.count >= min(threshold, Int(max(1, settings.receiveMaximum))) {
            enter(.waiting(until: now), report: .waiting)
        }
    }

    /// Whether the client here ends with the connection. A lazy bridge's does not: it gathers messages before there is
    /// a connection, and its session goes on into it.
    var endsLocallyWithConnection: Bool {
        if case .lazy = settings.start { false } else { settings.startsCleanLocally }
    }

    /// Passes an acknowledgement of this broker on: the answer to a message of the other broker, or the release of one
    /// that it has taken.
    private func relay(_ type: PacketType, _ view: AcknowledgementView) {
        switch state {
        // The first PUBCOMP of an identifier may be that of our own release.
        case .running, .joining: if type == .pubcomp, local.ownReleases.remove(view.packetIdentifier) != nil { return }
        case .stopped, .creating, .collecting, .waiting, .connecting, .opening: return
        }
        if type == .pubrel, far.lowered.remove(view.packetIdentifier) != nil {
            return answer(.pubcomp, view.packetIdentifier)
        }
        if view.reasonCode == .quotaExceeded, type == .puback || type == .pubrec {
            // Not acknowledged: the other broker keeps it, and sends it again on the next connection.
            return lose("this broker has no room for a message")
        }
        if view.reasonCode.isError, type == .puback || type == .pubrec { report.droppedIn += 1 }
        acknowledge(type, view.packetIdentifier, Self.known(view.reasonCode, type))
    }

    /// The reason code as the packet may carry it. PUBCOMP says 0x92 only of our own doing: see `refuse`.
    private static func known(_ reason: ReasonCode, _ type: PacketType) -> ReasonCode {
        type == .pubcomp || type == .pubrel ? .success : reason
    }

    private static let subscribeIdentifier: UInt16 = 65_535
    private static let unsubscribeIdentifier: UInt16 = 65_534
}

/// The bridge's client in this broker.
struct LocalSide {
    /// How far it is.
    enum State { case absent, attaching, subscribing, ready }

    var state = State.absent
    let input = PacketBuffer()
    /// What it has sent for the other broker before that one was ready: messages come ahead of the answers that are
    /// waited for.
    let early = PacketBuffer()
    /// Bytes that were taken from this broker and no room was opened for.
    var takenBytes = 0

    // What CONNACK has said.
    var packetBytesMax = Int.max
    var takesRetain = true

    /// The messages of QoS 2 that its session had taken and that were not released.
    var unreleased: [UInt16] = []
    /// Those of them that were released because the other broker has forgotten them, until that is confirmed.
    var ownReleases: Set<UInt16> = []
    /// Filters that the session has and no topic names.
    var strayFilters: [TopicFilter] = []
    /// SUBSCRIBE and UNSUBSCRIBE that are not answered.
    var unanswered: Set<UInt16> = []

    /// Forgets what has passed between this broker and a client that is out.
    mutating func clear() {
        input.removeAll()
        early.removeAll()
        takenBytes = 0
        unanswered = []
    }
}

/// What a lazy bridge gathers before it connects.
struct BridgeCollection {
    /// Messages of QoS 0, which the session would not send again.
    let packets = PacketBuffer()
    /// How many messages have come, of any QoS.
    var count = 0
    /// Whether the pause that the bridge waits for ends with messages being counted anew, for a connection is lost.
    var isDueAfterPause = false
    /// When the last message crossed, or the connection was made, in milliseconds.
    var lastMessageAt: UInt64 = 0

    /// Counts from nothing.
    mutating func begin() {
        packets.removeAll()
        count = 0
        isDueAfterPause = false
    }
}

/// What a bridge wants done, in order. What it has for either side waits in `Bridge.farOutput` and
/// `Bridge.localOutput`.
public enum BridgeEffect: Sendable {
    /// Connect to the address with this index; `connected` or `dialFailed` is the answer.
    case dial(address: Int)
    /// See whether the first address can be connected to, and let go of the connection; `probed` is the answer.
    case probe
    /// Write what there is, end the connection, or give up dialling.
    case hangUp
    /// Let the bridge's client into this broker; `attached` is the answer, and what it says.
    case attach(LocalJoin)
    /// The client in this broker may send so many bytes more.
    case openRoom(Int)
    /// Call `resume` when this call has returned.
    case resume
    /// The client has left by what was written; drop what it still sends.
    case forget
    /// Publish a retained message here, as the broker's own.
    case publish(TopicName, payload: [UInt8])
    case log(BridgeLogLevel, String)
    /// What `Bridge.report` says of the state has changed.
    case changed
}

/// How the bridge's client connects to this broker.
public struct LocalJoin: Hashable, Sendable {
    public var cleanStart: Bool
    /// The Session Expiry Interval of its session, in seconds; `UInt32.max` for ever.
    public var sessionExpiryInterval: UInt32
    /// Its Receive Maximum.
    public var receiveMaximum: UInt16
    /// The bytes that it accepts before it opens more room.
    public var room: Int
}

public enum BridgeLogLevel: Sendable {
    case debug
    /// A line about connections that come and go, which is not written without `connection_messages`.
    case connection
    case warning
    case error
}

/// What an operator sees of a bridge.
public struct BridgeReport: Hashable, Sendable {
    public enum State: String, Sendable {
        case paused
        case waiting
        case connecting
        case connected
        /// The bridge is lazy and has nothing to do.
        case idle
        /// The bridge was to connect once, and that connection is over.
        case ended
    }

    public var state = State.waiting
    /// The index of the address that is connected or tried.
    public var address = 0
    /// When the connection was made, in milliseconds of the bridge's clock; nil without one.
    public var connectedSince: UInt64?
    /// The reason why it is not connected, in words.
    public var failure: String?
    public var connectionCount: UInt64 = 0
    public var messagesOut: UInt64 = 0
    public var messagesIn: UInt64 = 0
    public var bytesOut: UInt64 = 0
    public var bytesIn: UInt64 = 0
    /// How often the other broker had no room for a message, which is sent again later.
    public var postponedOut: UInt64 = 0
    /// Messages that were not forwarded: too large, without a name at the other end, or refused there.
    public var droppedOut: UInt64 = 0
    public var droppedIn: UInt64 = 0
    /// Messages that were not forwarded because they had come back, or would have gone to a broker where they had been.
    public var echoes: UInt64 = 0
}
