import BrokerModel
import MQTTCodec

/// What the shard keeps from one message to the next while it gives them to the connections of those who receive them.
///
///     QoS 0      one receiver ─► written straight into its output
///                many         ─► one frame of their kind: each points at it, or has a copy
///     QoS 1, 2   one receiver ─► written straight into its output, with a packet identifier
///                many         ─► gathered in the batch, of which each has all frames with one copy
///
/// These are the short ways, which nearly all messages go. A receiver that `Admission` does not admit to them gets the
/// message the long way, by itself: `Dispatcher+Deliver`.
struct DispatchState: ~Copyable {
    /// Messages that wait for those that follow them; empty between any two calls of the shell, and before any session
    /// ends.
    fileprivate(set) var batch = FrameBatch()
    /// The matches of the message routed last.
    private var last: Reference<Matches>?

    /// Whether a message has the matches of the one before, so that its receivers share batches of bytes.
    @inline(__always)
    mutating func isRepeated(_ matches: Reference<Matches>) -> Bool {
        defer { last = matches }
        return last == matches
    }
}

/// Decides which receivers get a message by a short way: made once for a message, and asked for each receiver.
struct Admission {
    /// Whether what waits for a receiver goes first, also to one that has come back. [MQTT-4.6.0-5 v5]
    let isBehindQueue: Bool
    /// Whether the store has a part in what sessions get that outlive their connections.
    let isKept: Bool
    /// Whether the receiver answers, so that it must not overtake what is held for the store.
    let isAcknowledged: Bool

    /// The connection of a receiver that takes the frame that all of its kind have in common; nil for one that is away,
    /// or to which the message goes the long way.
    @inline(__always)
    func connection(of route: Route, _ session: Session) -> Reference<Connection>? {
        guard route.detail == nil, let link = session.connection, !(isBehindQueue && session.queue.waiting > 0),
            !(isKept && session.keepsMessages),
            link.with({ $0.frameKind != .own && !(isAcknowledged && $0.holding.publishCount > 0) })
        else { return nil }
        return link
    }
}

/// Gives a message to all who receive it here: their connections, or their queues.
struct Dispatcher {
    let shard: BrokerShard

    /// Frames below this many bytes are copied to a receiver that does not share its batch with others.
    static let copiedFrameBytesMax = 256

    /// Gives a message to the sessions of this shard that receive it.
    @inline(__always)
    func dispatch(_ publication: inout Publication, to matches: Matches, isRepeated: Bool) {
        guard matches.routeCount > 0 else { return }
        if publication.qos == .atMostOnce, !shard.settings.upgradesOutgoingQoS {
            dispatchAtMostOnce(&publication, to: matches, isRepeated: isRepeated)
        } else {
            dispatchAcknowledged(&publication, to: matches)
        }
    }

    // MARK: QoS 0

    private var admissionAtMostOnce: Admission {
        @inline(__always) get { Admission(isBehindQueue: shard.settings.queuesQoS0, isKept: false, isAcknowledged: false) }
    }

    /// The fan-out loop: a QoS 0 message to all its matches.
    ///
    /// All receivers of a kind point at one encoded frame. When the matches are not those of the message before,
    /// batches would break at every frame, and a small frame costs less copied than as a segment of its own.
    private func dispatchAtMostOnce(_ publication: inout Publication, to matches: Matches, isRepeated: Bool) {
        guard publication.byteCount <= Limits.fittingBytesMax else {
            deliverToEach(&publication, of: matches)
            return
        }
        let count = matches.routeCount
        guard count > 1 else {
            if count == 1 { sendAtMostOnce(&publication, toOnly: matches.routes[0]) }
            return
        }
        let routes = matches.routes
        let outputBytesMax = shard.memoryBound.outputBytesMax
        let admission = admissionAtMostOnce
        var kind = -1
        var frame = SharedFrame(chunk: Reference(shard.arena.placeholder), offset: 0, length: 0)
        var isCopied = false
        var sent = 0
        let logsEach = shard.settings.logTopics.contains(.debug)
        for position in 0..<count {
            let route = routes[position]
            guard let link = route.session.with({ admission.connection(of: route, $0) }) else {
                deliverOrMiss(&publication, route, admission)
                continue
            }
            link.with { connection in
                let needed = Int(connection.frameKind.rawValue) &* 2 &+ (route.retainAsPublished && publication.retain ? 1 : 0)
                if needed != kind {
                    kind = needed
                    frame = template(&publication, kind, .atMostOnce)
                    isCopied = !isRepeated && frame.length < Self.copiedFrameBytesMax
                }
                guard connection.output.pendingBytes &+ frame.length <= outputBytesMax else {
                    shard.drops.drop(.outputFull, DroppedMessage(publication), for: connection)
                    return
                }
                if isCopied {
                    connection.output.appendCopy(of: frame, pool: &shard.pool)
                } else {
                    connection.output.append(frame, pool: &shard.pool)
                }
                if !connection.isDirty { shard.markDirty(connection) }
                connection.traffic.sentMessages &+= 1
                sent &+= 1
            }
            if logsEach { logSending(publication, route, .atMostOnce) }
        }
        countSent(sent, .atMostOnce, payloadBytes: sent &* publication.payload.count)
    }

    /// A QoS 0 message with one receiver: encoded straight into its output.
    private func sendAtMostOnce(_ publication: inout Publication, toOnly route: Route) {
        let admission = admissionAtMostOnce
        guard let link = route.session.with({ admission.connection(of: route, $0) }) else {
            deliverOrMiss(&publication, route, admission)
            return
        }
        link.with { connection in
            let frame = PlainPublishFrame(
                connection.frameKind, qos: .atMostOnce, retain: route.retainAsPublished && publication.retain,
                expirySeconds: expirySeconds(publication.expiresAt))
            let size = frame.size(publication)
            guard connection.output.pendingBytes &+ size <= shard.memoryBound.outputBytesMax else {
                shard.drops.drop(.outputFull, DroppedMessage(publication), for: connection)
                return
            }
            frame.write(publication, to: connection.output.appendOwn(size, pool: &shard.pool))
            if !connection.isDirty { shard.markDirty(connection) }
            countSent(1, .atMostOnce, payloadBytes: publication.payload.count)
            connection.traffic.sentMessages &+= 1
            if shard.settings.logTopics.contains(.debug) { logSending(publication, route, .atMostOnce) }
        }
    }

    /// A QoS 0 message to a receiver that goes no short way: nothing is left to do for one that is away if none of its
    /// messages are queued.
    @inline(__always)
    private func deliverOrMiss(_ publication: inout Publication, _ route: Route, _ admission: Admission) {
        if admission.isBehindQueue || route.session.with({ $0.connection != nil }) { deliver(&publication, to: route) }
    }

    // MARK: QoS 1 and 2

    private var admissionAcknowledged: Admission {
        @inline(__always) get { Admission(isBehindQueue: true, isKept: shard.journal != nil, isAcknowledged: true) }
    }

    /// A message of QoS 1 or 2 to all its matches: at once, or with those that follow it in what a client has sent.
    private func dispatchAcknowledged(_ publication: inout Publication, to matches: Matches) {
        publication.receiverCount = matches.routeCount
        publication.hasManyReceivers = matches.routeCount > 1 && Self.isSmall(publication)
        let isPlain = !publication.retain && !shard.settings.upgradesOutgoingQoS && !shard.settings.logTopics.contains(.debug)
        guard publication.hasManyReceivers, isPlain, publication.byteCount < Limits.rowBytesMax else {
            assert(shard.dispatchState.batch.isEmpty, "what does not continue the batch has ended it")
            if isPlain, matches.routeCount == 1, matches.groups.isEmpty,
                sendAcknowledged(publication, toOnly: matches.routes[0])
            {
                return
            }
            deliverToEach(&publication, of: matches)
            return
        }
        shard.dispatchState.batch.append(publication.makeMessage(shard.ledger), mustArrive: publication.mustArrive, for: matches)
        // Whoever publishes to a full queue, or what has to be durable, is told of this message alone.
        let mayWait = publication.isOfRow && shard.journal == nil && matches.groups.isEmpty && !shard.room.mayRefusePublishers
        if !mayWait || shard.dispatchState.batch.isFull { dispatchBatch() }
    }

    /// Whether a payload is copied to each receiver.
    @inline(__always)
    private static func isSmall(_ publication: borrowing Publication) -> Bool {
        publication.payload.count < sharedPayloadBytesMin
    }

    /// A message to its only receiver, if that is admitted and has room.
    ///
    /// - Returns: whether it was sent.
    @inline(__always)
    private func sendAcknowledged(_ publication: borrowing Publication, toOnly route: Route) -> Bool {
        let qos = min(publication.qos, route.maximumQoS)
        guard qos > .atMostOnce, Self.isSmall(publication), publication.byteCount <= Limits.fittingBytesMax else { return false }
        return route.session.with { session in
            guard let link = admissionAcknowledged.connection(of: route, session), mayFly(session) else { return false }
            return link.with { sendAcknowledged(publication, qos, to: session, on: $0) }
        }
    }

    /// - Returns: false if the connection takes no more just now.
    private func sendAcknowledged(
        _ publication: borrowing Publication, _ qos: QoS, to session: Session, on connection: Connection
    ) -> Bool {
        guard connection.output.pendingBytes < Limits.outputBytesForQueueMax else { return false }
        let frame = PlainPublishFrame(
            connection.frameKind, qos: qos, retain: false, expirySeconds: expirySeconds(publication.expiresAt))
        let packetIdentifier = session.queue.appendSent(
            publication.held(shard.ledger), byteCount: publication.byteCount, qos: qos, isSole: publication.message == nil)
        let target = connection.output.appendOwn(frame.size(publication), pool: &shard.pool)
        frame.write(publication, packetIdentifier: packetIdentifier, to: target)
        if !connection.isDirty { shard.markDirty(connection) }
        countSent(1, qos, payloadBytes: publication.payload.count)
        connection.traffic.sentMessages &+= 1
        return true
    }

    // MARK: The batch

    /// Whether a message is the next one of the batch that has gathered.
    @inline(__always)
    func continuesBatch(_ publication: borrowing Publication) -> Bool {
        publication.isOfRow && !publication.retain && Self.isSmall(publication) && publication.byteCount < Limits.rowBytesMax
            && shard.dispatchState.batch.takes(publication.topic, publication.qos)
    }

    /// Delivers what has gathered before anything happens that is not the next PUBLISH in a row: it belongs to what was
    /// received first. Before another message is routed, `matches(of:)` does so.
    @inline(__always)
    func endBatch() {
        if !shard.dispatchState.batch.isEmpty { dispatchBatch() }
    }

    private func dispatchBatch() {
        guard let matches = shard.dispatchState.batch.matches else { return }
        matches.with { matches in
            if matches.isObserved { shard.topicMetrics.sendObservedBatch(to: matches) } else { sendBatch(to: matches) }
        }
        for index in 0..<shard.dispatchState.batch.count {
            let publication = shard.dispatchState.batch[index]
            finish(&publication.pointee)
        }
        shard.dispatchState.batch.removeAll()
    }

    @inline(__always)
    func sendBatch(to matches: Matches) {
        let admission = admissionAcknowledged
        for position in 0..<matches.routeCount {
            let route = matches.routes[position]
            for index in sendBatch(to: route, admission)..<shard.dispatchState.batch.count {
                let publication = shard.dispatchState.batch[index]
                deliver(&publication.pointee, to: route)
            }
        }
    }

    /// A receiver that is admitted and has room gets its protocol's frames, with packet identifiers of its own.
    ///
    /// - Returns: how many messages it got.
    private func sendBatch(to route: Route, _ admission: Admission) -> Int {
        route.session.with { session in
            guard route.maximumQoS >= shard.dispatchState.batch.qos, let link = admission.connection(of: route, session) else {
                return 0
            }
            return link.with { connection in
                let block = shard.dispatchState.batch.block(connection.frameKind, now: shard.now)
                let count = countThatFits(block, session, connection)
                guard count > 0 else { return 0 }
                let copy = connection.output.appendOwn(block.byteCount(ofFirst: count), pool: &shard.pool)
                block.copy(first: count, to: copy)
                var payloadBytes = 0
                for index in 0..<count {
                    let byteCount = shard.dispatchState.batch[index].pointee.byteCount
                    let packetIdentifier = session.queue.appendSent(
                        shard.dispatchState.batch.hold(index), byteCount: byteCount, qos: shard.dispatchState.batch.qos)
                    block.number(index, packetIdentifier, in: copy)
                    payloadBytes &+= shard.dispatchState.batch[index].pointee.payload.count
                }
                if !connection.isDirty { shard.markDirty(connection) }
                countSent(count, shard.dispatchState.batch.qos, payloadBytes: payloadBytes)
                connection.traffic.sentMessages &+= UInt64(count)
                return count
            }
        }
    }

    /// How many messages of the batch a session's window and its output have room for.
    @inline(__always)
    private func countThatFits(_ block: FrameBatch.Block, _ session: Session, _ connection: Connection) -> Int {
        let (pending, inFlight) = (connection.output.pendingBytes, session.queue.inFlight)
        let limit = min(shard.dispatchState.batch.count, max(0, session.inFlightMax &- inFlight))
        if shard.settings.inFlightBytesMax == 0, pending &+ block.byteCount(ofFirst: limit) < Limits.outputBytesForQueueMax {
            return limit
        }
        var (count, bytes) = (0, session.queue.inFlightBytes)
        while count < limit {
            let isOnly = inFlight == 0 && count == 0
            guard isOnly || pending &+ block.byteCount(ofFirst: count) < Limits.outputBytesForQueueMax,
                isOnly || shard.settings.inFlightBytesMax == 0 || bytes < shard.settings.inFlightBytesMax
            else { break }
            bytes &+= shard.dispatchState.batch[count].pointee.byteCount
            count &+= 1
        }
        return count
    }

    // MARK: What receivers share

    /// The frame that all receivers of a kind have in common, encoded when the first of them needs it. Apart, because
    /// the fan-out loop has eight instructions more a receiver when it stands in it.
    ///
    /// - Parameters:
    ///   - kind: protocol 3 or 5, and with QoS 0 the RETAIN flag, which others do not have then; with QoS 1 and 2 which
    ///     of them.
    ///   - qos: with which it is sent. The packet identifier of QoS 1 and 2 is each receiver's own.
    @inline(never)
    func template(_ publication: inout Publication, _ kind: Int, _ qos: QoS) -> SharedFrame {
        if let known = publication.frames[kind] { return known }
        let frame = PlainPublishFrame(
            kind < 2 ? .shared3 : .shared5, qos: qos, retain: qos == .atMostOnce && kind & 1 == 1,
            expirySeconds: expirySeconds(publication.expiresAt))
        let size = frame.size(publication)
        let (chunk, offset) = shard.arena.allocate(size)
        chunk.with { frame.write(publication, to: $0.base + offset) }
        let made = SharedFrame(
            chunk: chunk, offset: offset, length: size,
            identifierOffset: qos > .atMostOnce ? frame.packetIdentifierOffset(publication) : 0)
        publication.frames[kind] = made
        return made
    }

    /// Gives back what the routing of a message has pinned.
    func finish(_ publication: inout Publication) {
        publication.frames.release(to: &shard.arena)
        if let payload = publication.sharedPayload { shard.arena.release(payload.chunk) }
        publication.sharedPayload = nil
    }

    @inline(__always)
    func countSent(_ messages: Int, _ qos: QoS, payloadBytes: Int) {
        shard.statistics.messagesSentByQoS[qos] &+= UInt64(messages)
        shard.statistics.messagesSent &+= UInt64(messages)
        shard.statistics.publishBytesSent &+= UInt64(payloadBytes)
    }
}
