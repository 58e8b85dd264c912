import MQTTCodec

/// The loops in which QoS 1 and 2 spend their time when messages have many receivers: a copy of a run of frames to each, and runs of PUBACK
/// back. What needs more than that goes the long way.
extension BrokerShard {
    /// A message of QoS 1 or 2 to everybody in its audience: at once, or with those that follow it in what a client has sent.
    func deliver(_ publication: inout Publication, to audience: Audience) {
        publication.receiverCount = audience.routeCount
        publication.hasManyReceivers = audience.routeCount > 1 && publication.payload.count < Self.sharedPayloadBytesMin
        let isPlain = !publication.retain && !settings.upgradesOutgoingQoS && !settings.logTopics.contains(.debug)
        guard publication.hasManyReceivers, isPlain, publication.byteCount < Self.rowBytesMax else {
            endRun()
            for position in 0..<audience.routeCount { deliverSpecially(&publication, audience.routes[position]) }
            return
        }
        if !publication.isOfRow { endRun() }
        run.append(publication.makeMessage(ledger), for: audience)
        // Whoever publishes to a full queue, or what has to be durable, is told of this message alone.
        let mayWait =
            publication.isOfRow && journal == nil && audience.groups.isEmpty && settings.queueOverflow != .refusesPublisher
        if !mayWait || run.isFull { deliverRun() }
    }

    /// Delivers what has gathered before anything happens that is not the next message of the run: it belongs to what was received first,
    /// and its audience is only known for now.
    @inline(__always)
    func endRun() {
        if !run.isEmpty { deliverRun() }
    }

    private func deliverRun() {
        guard let audience = run.audience else { return }
        audience._withUnsafeGuaranteedRef { audience in
            for position in 0..<audience.routeCount {
                let route = audience.routes[position]
                for index in deliverBlock(to: route)..<run.count { deliverSpecially(&run[index].pointee, route) }
            }
        }
        for index in 0..<run.count { finish(&run[index].pointee) }
        run.removeAll()
    }

    /// A receiver that is connected and has room, and whose session ends with its connection or is not stored, gets its protocol's frames,
    /// with packet identifiers of its own.
    ///
    /// - Returns: how many messages it got.
    private func deliverBlock(to route: Route) -> Int {
        route.session._withUnsafeGuaranteedRef { session in
            guard let link = session.connection, route.detail == nil, route.maximumQoS >= run.qos, session.outbox.waiting == 0,
                !(journal != nil && session.keepsMessages)
            else { return 0 }
            return link._withUnsafeGuaranteedRef { connection in
                guard connection.frameKind != .own, connection.heldPublishCount == 0 else { return 0 }
                let block = run.block(connection.frameKind, now: now)
                let count = countThatFits(block, session, connection)
                guard count > 0 else { return 0 }
                let target = connection.output.appendOwn(block.ends[count], pool: &pool)
                target.copyMemory(from: block.start, byteCount: block.ends[count])
                var payloadBytes = 0
                for index in 0..<count {
                    let message = run[index].pointee.makeMessage(ledger)
                    let packetIdentifier = session.outbox.appendSent(message, qos: run.qos)
                    target.storeBytes(of: packetIdentifier.bigEndian, toByteOffset: block.identifiers[index], as: UInt16.self)
                    payloadBytes &+= run[index].pointee.payload.count
                }
                if !connection.isDirty { markDirty(connection) }
                countSent(count, payloadBytes: payloadBytes)
                return count
            }
        }
    }

    /// How many messages of the run a session's window and its output have room for.
    @inline(__always)
    private func countThatFits(_ block: PublicationRun.Block, _ session: Session, _ connection: Connection) -> Int {
        let (pending, inFlight) = (connection.output.pendingBytes, session.outbox.inFlight)
        let limit = min(run.count, max(0, session.inFlightMax &- inFlight))
        if settings.inFlightBytesMax == 0, pending &+ block.ends[limit] < Self.outputBytesForQueueMax { return limit }
        var (count, bytes) = (0, session.outbox.inFlightBytes)
        while count < limit {
            let isOnly = inFlight == 0 && count == 0
            let size = run[count].pointee.byteCount
            guard isOnly || pending &+ block.ends[count] < Self.outputBytesForQueueMax,
                isOnly || settings.inFlightBytesMax == 0 || bytes &+ size <= settings.inFlightBytesMax
            else { break }
            bytes &+= size
            count &+= 1
        }
        return count
    }

    /// Works off the PUBACK packets without a reason at the front of `bytes`, as long as each is for the oldest message in flight.
    ///
    /// - Returns: how many bytes they are.
    func consumeAcknowledgements(_ bytes: UnsafeRawBufferPointer, _ connection: Connection) -> Int {
        guard connection.state == .connected, !settings.logTopics.contains(.debug), let session = connection.session else {
            return 0
        }
        var offset = 0
        while bytes.count &- offset >= Self.plainPuback.count {
            let word = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self).bigEndian
            guard word >> 16 == Self.plainPuback.head, session.outbox.completeFirst(UInt16(truncatingIfNeeded: word)) else { break }
            offset &+= Self.plainPuback.count
        }
        guard offset > 0 else { return 0 }
        let count = UInt64(offset / Self.plainPuback.count)
        connection.lastReceivedAt = now
        statistics.messagesReceived &+= count
        statistics.packetsReceived[.puback] &+= count
        if session.outbox.waiting > 0 { pump(session, on: connection) }
        return offset
    }

    /// Larger messages, by their properties, go the long way.
    private static let rowBytesMax = 4096

    /// PUBACK with nothing but a packet identifier: its first two bytes, and its length.
    private static let plainPuback: (head: UInt32, count: Int) = (0x4002, 4)
}
