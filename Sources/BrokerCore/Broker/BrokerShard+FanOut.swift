import MQTTCodec

/// The loops in which QoS 1 and 2 spend their time when a message has many receivers: a copy of one frame to each, and runs of PUBACK back.
/// What needs more than that goes the long way.
extension BrokerShard {
    /// A message of QoS 1 or 2 to everybody in its audience.
    func deliver(_ publication: inout Publication, to audience: Audience) {
        publication.receiverCount = audience.routeCount
        publication.hasManyReceivers = audience.routeCount > 1 && publication.payload.count < Self.sharedPayloadBytesMin
        let isPlain = !publication.retain && !settings.upgradesOutgoingQoS && !settings.logTopics.contains(.debug)
        guard publication.hasManyReceivers, isPlain else {
            for position in 0..<audience.routeCount { deliverSpecially(&publication, audience.routes[position]) }
            return
        }
        deliverCopies(&publication, to: audience)
    }

    /// Each receiver that is connected and has room, and whose session ends with its connection or is not stored, gets a copy of its
    /// protocol's frame with a packet identifier of its own.
    private func deliverCopies(_ publication: inout Publication, to audience: Audience) {
        let routes = audience.routes
        let (qos, byteCount) = (publication.qos, publication.byteCount)
        let isDurable = journal != nil
        var kind: Connection.FrameKind?
        var (source, length, identifierOffset) = (UnsafeRawPointer(bitPattern: 8).unsafelyUnwrapped, 0, 0)
        var sent = 0
        for position in 0..<audience.routeCount {
            let route = routes[position]
            let isSent = route.session._withUnsafeGuaranteedRef { session in
                guard let link = session.connection, route.detail == nil, route.maximumQoS >= qos, session.outbox.waiting == 0,
                    hasRoom(session, byteCount), !(isDurable && session.keepsMessages)
                else { return false }
                return link._withUnsafeGuaranteedRef { connection in
                    guard connection.frameKind != .own, connection.heldPublishCount == 0,
                        connection.output.pendingBytes < Self.outputBytesForQueueMax || session.outbox.inFlight == 0
                    else { return false }
                    if connection.frameKind != kind {
                        kind = connection.frameKind
                        let template = template(&publication, for: connection)
                        source = UnsafeRawPointer(template.chunk._withUnsafeGuaranteedRef { $0.base } + template.offset)
                        (length, identifierOffset) = (template.length, template.identifierOffset)
                    }
                    let packetIdentifier = session.outbox.appendSent(publication.makeMessage(ledger), qos: qos)
                    let target = connection.output.appendOwn(length, pool: &pool)
                    target.copyMemory(from: source, byteCount: length)
                    target.storeBytes(of: packetIdentifier.bigEndian, toByteOffset: identifierOffset, as: UInt16.self)
                    if !connection.isDirty { markDirty(connection) }
                    return true
                }
            }
            if isSent {
                sent &+= 1
            } else {
                deliverSpecially(&publication, route)
            }
        }
        countSent(sent, payloadBytes: sent &* publication.payload.count)
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

    /// PUBACK with nothing but a packet identifier: its first two bytes, and its length.
    private static let plainPuback: (head: UInt32, count: Int) = (0x4002, 4)
}
