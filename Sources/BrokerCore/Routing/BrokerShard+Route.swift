import BrokerModel
import MQTTCodec

/// From a message to those who receive it.
extension BrokerShard {
    /// Frames below this many bytes are copied to a receiver that does not share its batch with others.
    static let copiedFrameBytesMax = 256

    /// How far a message is routed.
    enum Reach {
        /// To this shard's subscribers, to a member of each share group, and to the other shards that want it.
        case everywhere
        /// To this shard's own subscribers only: another one has sent it.
        case here
    }

    /// The matches of a topic: all who receive its messages. Valid until the next call.
    ///
    /// A look-up may drive out the matches of the batch that has gathered, and what is looked up comes behind it:
    /// unless it is the batch's next message, the batch is delivered first.
    ///
    /// - Parameter qos: of the message that is to be delivered; nil if there is none.
    @inline(__always)
    func matches(of topic: UnsafeRawBufferPointer, _ qos: QoS? = nil) -> Reference<Matches> {
        if !frameBatch.isEmpty, !frameBatch.takes(topic, qos) { deliverFrameBatch() }
        return matchCache.matches(of: topic, in: &tree, sessions: sessions)
    }

    /// Routes a message to those who receive it.
    ///
    /// - Returns: whether anybody subscribes to its topic.
    @discardableResult
    func route(_ publication: inout Publication, _ reach: Reach = .everywhere) -> Bool {
        if publication.retain, shardCount > 1 { scans.arrivals.note(topic: placement.hash(publication.topic), now: now) }
        let matches = matches(of: publication.topic, publication.qos)
        inspection.latencies.routed(publication.qos, readAt: readAt)
        let isRepeated = matches == lastMatches
        lastMatches = matches
        return matches.with { matches in
            if matches.isObserved {
                routeObserved(&publication, to: matches, reach, isRepeated: isRepeated)
            } else {
                deliverHere(&publication, to: matches, isRepeated: isRepeated)
                deliverElsewhere(&publication, to: matches, reach)
            }
            return !matches.isEmpty
        }
    }

    /// To the sessions of this shard.
    @inline(__always)
    func deliverHere(_ publication: inout Publication, to matches: Matches, isRepeated: Bool) {
        guard matches.routeCount > 0 else { return }
        if publication.qos == .atMostOnce, !settings.upgradesOutgoingQoS {
            deliverAtMostOnce(&publication, to: matches, isRepeated: isRepeated)
        } else {
            deliver(&publication, to: matches)
        }
    }

    /// To the other shards, and to share groups.
    @inline(__always)
    func deliverElsewhere(_ publication: inout Publication, to matches: Matches, _ reach: Reach) {
        guard reach == .everywhere else { return }
        if matches.shards != 0 { forward(publication, to: matches.shards) }
        if !matches.groups.isEmpty { routeToGroups(&publication, matches.groups) }
    }

    /// The shards whose sessions subscribe to the topic, a bit each, this one included if its own do.
    func interest(in topic: UnsafeRawBufferPointer) -> UInt64 {
        matches(of: topic).with { matches in
            matches.shards | (matches.routeCount > 0 ? 1 << UInt64(index) : 0)
        }
    }

    /// Gives back what the routing of a message has pinned.
    func finish(_ publication: inout Publication) {
        publication.frames.release(to: &arena)
        if let payload = publication.sharedPayload { arena.release(payload.chunk) }
        publication.sharedPayload = nil
    }

    /// The fan-out loop: a QoS 0 message to all its matches.
    ///
    /// All receivers of a kind point at one encoded frame. When the matches are not those of the message before,
    /// batches would break at every frame, and a small frame costs less copied than as a segment of its own.
    private func deliverAtMostOnce(_ publication: inout Publication, to matches: Matches, isRepeated: Bool) {
        guard publication.byteCount <= Limits.fittingBytesMax else {
            deliverSpecially(&publication, to: matches)
            return
        }
        let count = matches.routeCount
        guard count > 1 else {
            if count == 1 { deliverOnlyAtMostOnce(&publication, matches.routes[0]) }
            return
        }
        let routes = matches.routes
        let outputBytesMax = outputBytesMax
        let queues = settings.queuesQoS0
        var kind = -1
        var frame = SharedFrame(chunk: Reference(arena.placeholder), offset: 0, length: 0)
        var isCopied = false
        var sent = 0
        let logsEach = settings.logTopics.contains(.debug)
        for position in 0..<count {
            let route = routes[position]
            // What waits for a session goes first, also to one that has come back. [MQTT-4.6.0-5 v5]
            let link = route.session.with { queues && $0.outbox.waiting > 0 ? nil : $0.connection }
            guard let link else {
                if queues { deliverSpecially(&publication, route) }
                continue
            }
            let isDelivered = link.with { connection in
                guard connection.frameKind != .own, route.detail == nil else { return false }
                let needed = Int(connection.frameKind.rawValue) &* 2 &+ (route.retainAsPublished && publication.retain ? 1 : 0)
                if needed != kind {
                    kind = needed
                    frame = sharedFrame(&publication, kind)
                    isCopied = !isRepeated && frame.length < Self.copiedFrameBytesMax
                }
                guard connection.output.pendingBytes &+ frame.length <= outputBytesMax else {
                    drop(.outputFull, DroppedMessage(publication), for: connection)
                    return true
                }
                if isCopied {
                    connection.output.appendCopy(of: frame, pool: &pool)
                } else {
                    connection.output.append(frame, pool: &pool)
                }
                if !connection.isDirty { markDirty(connection) }
                connection.traffic.sentMessages &+= 1
                sent &+= 1
                return true
            }
            if !isDelivered {
                deliverSpecially(&publication, route)
            } else if logsEach {
                logSending(publication, route, .atMostOnce)
            }
        }
        countSent(sent, .atMostOnce, payloadBytes: sent &* publication.payload.count)
    }

    /// A QoS 0 message with one receiver: encoded straight into its output.
    private func deliverOnlyAtMostOnce(_ publication: inout Publication, _ route: Route) {
        let queues = settings.queuesQoS0
        let link = route.session.with { queues && $0.outbox.waiting > 0 ? nil : $0.connection }
        guard let link else {
            if queues { deliverSpecially(&publication, route) }
            return
        }
        link.with { connection in
            guard connection.frameKind != .own, route.detail == nil else {
                deliverSpecially(&publication, route)
                return
            }
            let frame = PlainPublishFrame(
                connection.frameKind, qos: .atMostOnce, retain: route.retainAsPublished && publication.retain,
                expirySeconds: expirySeconds(publication.expiresAt))
            let size = frame.size(publication)
            guard connection.output.pendingBytes &+ size <= outputBytesMax else {
                drop(.outputFull, DroppedMessage(publication), for: connection)
                return
            }
            frame.write(publication, to: connection.output.appendOwn(size, pool: &pool))
            if !connection.isDirty { markDirty(connection) }
            countSent(1, .atMostOnce, payloadBytes: publication.payload.count)
            connection.traffic.sentMessages &+= 1
            if settings.logTopics.contains(.debug) { logSending(publication, route, .atMostOnce) }
        }
    }

    /// A message to all its matches, with all that their subscriptions ask for.
    func deliverSpecially(_ publication: inout Publication, to matches: Matches) {
        for position in 0..<matches.routeCount { deliverSpecially(&publication, matches.routes[position]) }
    }

    /// A message to one receiver, with all that its subscriptions ask for.
    func deliverSpecially(_ publication: inout Publication, _ route: Route) {
        route.session.with { session in
            var maximumQoS = route.maximumQoS
            var retainAsPublished = route.retainAsPublished
            var identifiers: SubscriptionIdentifiers?
            if let detail = route.detail {
                let isOwn = publication.publisher == session.publisherKey
                guard let terms = detail.with({ isOwn ? $0.own : $0.all }) else {
                    if inspection.tracer != nil {
                        traceFate(.own, publication, qos: publication.qos, retain: publication.retain, for: session)
                    }
                    return
                }
                maximumQoS = terms.maximumQoS
                retainAsPublished = terms.retainAsPublished
                identifiers = terms.encodedIdentifiers
            }
            deliver(
                &publication, to: session, qos: deliveryQoS(of: publication, maximumQoS),
                retain: publication.retain && retainAsPublished, identifiers: identifiers, group: 0)
        }
    }

    /// The QoS with which a subscription that grants `maximumQoS` gets a message. [MQTT-3.8.4-8 v5]
    @inline(__always)
    func deliveryQoS(of publication: borrowing Publication, _ maximumQoS: QoS) -> QoS {
        settings.upgradesOutgoingQoS ? maximumQoS : min(publication.qos, maximumQoS)
    }

    /// The frame that all receivers of a kind share: protocol 3 or 5, with or without RETAIN. Apart, because the fan-out loop has eight instructions
    /// more a receiver when it stands in it.
    @inline(never)
    private func sharedFrame(_ publication: inout Publication, _ kind: Int) -> SharedFrame {
        if let known = publication.frames[kind] { return known }
        let frame = PlainPublishFrame(
            kind < 2 ? .shared3 : .shared5, qos: .atMostOnce, retain: kind & 1 == 1,
            expirySeconds: expirySeconds(publication.expiresAt))
        let size = frame.size(publication)
        let (chunk, offset) = arena.allocate(size)
        chunk.with { frame.write(publication, to: $0.base + offset) }
        let made = SharedFrame(chunk: chunk, offset: offset, length: size)
        publication.frames[kind] = made
        return made
    }

    func expirySeconds(_ deadline: UInt64) -> UInt32? { Message.expirySeconds(until: deadline, now: now) }

    @inline(__always)
    func countSent(_ messages: Int, _ qos: QoS, payloadBytes: Int) {
        statistics.messagesSentByQoS[qos] &+= UInt64(messages)
        statistics.messagesSent &+= UInt64(messages)
        statistics.publishBytesSent &+= UInt64(payloadBytes)
    }

    /// Whether a message is a line of the log, of which no line must tell.
    static func isLogTopic(_ topic: UnsafeRawBufferPointer) -> Bool { topic.starts(with: "$SYS/broker/log/".utf8) }

    func logSending(_ publication: borrowing Publication, _ route: Route, _ qos: QoS) {
        guard !Self.isLogTopic(publication.topic) else { return }
        let (topic, count) = (LoggedText(publication.topic), publication.payload.count)
        let name = route.session.with { $0.clientIdentifier }
        log(.debug) { "Sending PUBLISH to \(name) (d0, q\(qos.rawValue), r0, m0, '\(topic)', ... (\(count) bytes))" }
    }
}
