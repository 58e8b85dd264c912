import BrokerModel
import MQTTCodec

/// The short ways of QoS 1 and 2, which nearly all messages go: a frame written straight into the output of a message's only receiver, or a
/// copy of a batch of frames to each of many. What needs more than that goes the long way.
extension BrokerShard {
    /// A message of QoS 1 or 2 to all its matches: at once, or with those that follow it in what a client has sent.
    func deliver(_ publication: inout Publication, to matches: Matches) {
        publication.receiverCount = matches.routeCount
        publication.hasManyReceivers = matches.routeCount > 1 && publication.payload.count < Self.sharedPayloadBytesMin
        let isPlain = !publication.retain && !settings.upgradesOutgoingQoS && !settings.logTopics.contains(.debug)
        let fits = publication.hasManyReceivers && isPlain && publication.byteCount < Limits.rowBytesMax
        if !fits || !publication.isOfRow { endFrameBatch() }
        guard fits else {
            if isPlain, matches.routeCount == 1, matches.groups.isEmpty, deliver(publication, toOnly: matches.routes[0]) {
                return
            }
            deliverSpecially(&publication, to: matches)
            return
        }
        frameBatch.append(publication.makeMessage(ledger), mustArrive: publication.mustArrive, for: matches)
        // Whoever publishes to a full queue, or what has to be durable, is told of this message alone.
        let mayWait =
            publication.isOfRow && journal == nil && matches.groups.isEmpty && !room.mayRefusePublishers
        if !mayWait || frameBatch.isFull { deliverFrameBatch() }
    }

    /// A message to its only receiver, if that is connected and has room, and its session ends with its connection or is not stored.
    ///
    /// - Returns: whether it was delivered.
    @inline(__always)
    private func deliver(_ publication: borrowing Publication, toOnly route: Route) -> Bool {
        let qos = min(publication.qos, route.maximumQoS)
        guard qos > .atMostOnce, route.detail == nil, publication.payload.count < Self.sharedPayloadBytesMin,
            publication.byteCount <= Limits.fittingBytesMax
        else { return false }
        return route.session.with { session in
            guard let link = session.connection, session.outbox.waiting == 0, !(journal != nil && session.keepsMessages),
                mayFly(session)
            else { return false }
            return link.with { deliver(publication, qos, to: session, on: $0) }
        }
    }

    /// - Returns: false if the connection takes no more just now.
    private func deliver(
        _ publication: borrowing Publication, _ qos: QoS, to session: Session, on connection: Connection
    ) -> Bool {
        guard connection.frameKind != .own, connection.heldPublishCount == 0,
            connection.output.pendingBytes < Limits.outputBytesForQueueMax
        else { return false }
        let frame = PlainPublishFrame(
            connection.frameKind, qos: qos, retain: false, expirySeconds: expirySeconds(publication.expiresAt))
        let packetIdentifier = session.outbox.appendSent(
            publication.held(ledger), byteCount: publication.byteCount, qos: qos, isSole: publication.message == nil)
        let target = connection.output.appendOwn(frame.size(publication), pool: &pool)
        frame.write(publication, packetIdentifier: packetIdentifier, to: target)
        if !connection.isDirty { markDirty(connection) }
        countSent(1, qos, payloadBytes: publication.payload.count)
        connection.traffic.sentMessages &+= 1
        return true
    }

    /// Delivers what has gathered before anything happens that is not a PUBLISH: it belongs to what was received first. Before a message that
    /// is not the next of the batch, `matches(of:)` does so.
    @inline(__always)
    func endFrameBatch() {
        if !frameBatch.isEmpty { deliverFrameBatch() }
    }

    func deliverFrameBatch() {
        guard let matches = frameBatch.matches else { return }
        matches.with { matches in
            if matches.isObserved { deliverObservedFrameBatch(to: matches) } else { deliverGathered(to: matches) }
        }
        for index in 0..<frameBatch.count {
            let publication = frameBatch[index]
            finish(&publication.pointee)
        }
        frameBatch.removeAll()
    }

    @inline(__always)
    func deliverGathered(to matches: Matches) {
        for position in 0..<matches.routeCount {
            let route = matches.routes[position]
            for index in deliverBlock(to: route)..<frameBatch.count {
                let publication = frameBatch[index]
                deliverSpecially(&publication.pointee, route)
            }
        }
    }

    /// A receiver that is connected and has room, and whose session ends with its connection or is not stored, gets its protocol's frames,
    /// with packet identifiers of its own.
    ///
    /// - Returns: how many messages it got.
    private func deliverBlock(to route: Route) -> Int {
        route.session.with { session in
            guard let link = session.connection, route.detail == nil, route.maximumQoS >= frameBatch.qos,
                session.outbox.waiting == 0,
                !(journal != nil && session.keepsMessages)
            else { return 0 }
            return link.with { connection in
                guard connection.frameKind != .own, connection.heldPublishCount == 0 else { return 0 }
                let block = frameBatch.block(connection.frameKind, now: now)
                let count = countThatFits(block, session, connection)
                guard count > 0 else { return 0 }
                let copy = connection.output.appendOwn(block.byteCount(ofFirst: count), pool: &pool)
                block.copy(first: count, to: copy)
                var payloadBytes = 0
                for index in 0..<count {
                    let byteCount = frameBatch[index].pointee.byteCount
                    let packetIdentifier = session.outbox.appendSent(
                        frameBatch.hold(index), byteCount: byteCount, qos: frameBatch.qos)
                    block.number(index, packetIdentifier, in: copy)
                    payloadBytes &+= frameBatch[index].pointee.payload.count
                }
                if !connection.isDirty { markDirty(connection) }
                countSent(count, frameBatch.qos, payloadBytes: payloadBytes)
                connection.traffic.sentMessages &+= UInt64(count)
                return count
            }
        }
    }

    /// How many messages of the batch a session's window and its output have room for.
    @inline(__always)
    private func countThatFits(_ block: FrameBatch.Block, _ session: Session, _ connection: Connection) -> Int {
        let (pending, inFlight) = (connection.output.pendingBytes, session.outbox.inFlight)
        let limit = min(frameBatch.count, max(0, session.inFlightMax &- inFlight))
        if settings.inFlightBytesMax == 0, pending &+ block.byteCount(ofFirst: limit) < Limits.outputBytesForQueueMax {
            return limit
        }
        var (count, bytes) = (0, session.outbox.inFlightBytes)
        while count < limit {
            let isOnly = inFlight == 0 && count == 0
            guard isOnly || pending &+ block.byteCount(ofFirst: count) < Limits.outputBytesForQueueMax,
                isOnly || settings.inFlightBytesMax == 0 || bytes < settings.inFlightBytesMax
            else { break }
            bytes &+= frameBatch[count].pointee.byteCount
            count &+= 1
        }
        return count
    }
}
