public import BrokerModel
import MQTTCodec

/// From bytes to packets.
struct Receiving {
    let shard: BrokerShard

    @inline(__always)
    fileprivate func takeIn(_ bytes: UnsafeRawBufferPointer, on connection: Connection) {
        guard connection.state != .closing else { return }
        shard.statistics.bytesReceived &+= UInt64(bytes.count)
        connection.traffic.receivedBytes &+= UInt64(bytes.count)
        if connection.state == .authenticating {
            keepUnread(bytes, of: connection)
        } else if connection.hasOpenPacket {
            keepBehindOpenPacket(bytes, connection)
        } else if connection.inbound.isEmpty {
            consume(bytes, connection)
        } else {
            completeCutPacket(with: bytes, connection)
        }
        if connection.state != .connected || connection.inbound.capacity != Int(connection.memory.capacity) {
            shard.memoryBound.recount(connection)
        }
    }

    /// Keeps what comes behind a packet that is not worked off yet.
    private func keepBehindOpenPacket(_ bytes: UnsafeRawBufferPointer, _ connection: Connection) {
        if connection.extras?.awaitsDecision == true, connection.inbound.count + bytes.count > Limits.undecidedBytesMax {
            shard.disconnecting.refuse(
                connection, .quotaExceeded, because: "too much was sent while it was asked what the client may do.")
            return
        }
        connection.inbound.append(bytes)
    }

    /// Works off the packets in `bytes`; keeps a cut one at the end.
    private func consume(_ bytes: UnsafeRawBufferPointer, _ connection: Connection) {
        var offset = 0
        // What the client itself gets is flushed behind what others get of it: a publisher that hears first goes on
        // before they do.
        let isClean = !connection.isDirty
        connection.isDirty = true
        defer {
            shard.dispatcher.endBatch()
            if isClean {
                connection.isDirty = false
                if !connection.output.isEmpty || connection.state == .closing { shard.markDirty(connection) }
            }
        }
        while offset < bytes.count {
            var rest = UnsafeRawBufferPointer(rebasing: bytes[offset...])
            if rest[0] >> 4 != PacketType.publish.rawValue { shard.dispatcher.endBatch() }
            if Self.acknowledgementBytes.contains(rest[0]), !connection.isTraced {
                let count = shard.acknowledging.consumeAcknowledgements(rest, connection)
                offset &+= count
                if count == rest.count { break }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
            guard let size = packetSize(at: rest, connection), size.total <= rest.count else { break }
            let body = UnsafeRawBufferPointer(
                start: rest.baseAddress.unsafelyUnwrapped + size.header, count: size.total &- size.header)
            handle(firstByte: rest[0], body: body, connection, isOfRow: true)
            offset &+= size.total
            if connection.state != .connected || connection.hasOpenPacket { break }
        }
        keepRest(bytes, offset, connection)
    }

    /// The first bytes of PUBACK, PUBREC, PUBREL and PUBCOMP, whatever their flags.
    private static let acknowledgementBytes: ClosedRange<UInt8> = 0x40...0x7f

    /// Keeps what was not worked off, as far as the connection's state still has a use for it.
    private func keepRest(_ bytes: UnsafeRawBufferPointer, _ offset: Int, _ connection: Connection) {
        guard offset < bytes.count, connection.state != .closing else { return }
        connection.inbound.append(UnsafeRawBufferPointer(rebasing: bytes[offset...]))
    }

    /// Puts the kept front of a packet and what follows together, works the packet off, then the rest in place.
    private func completeCutPacket(with bytes: UnsafeRawBufferPointer, _ connection: Connection) {
        var offset = 0
        while !connection.inbound.isEmpty, connection.state != .closing {
            guard let size = packetSize(at: connection.inbound.bytes, connection) else {
                // The last byte may have completed a length: of a packet without body, or of one that is too large.
                if connection.state == .closing || offset == bytes.count { return }
                // The length itself is cut: byte by byte, at most four of them.
                connection.inbound.append(UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + 1]))
                offset += 1
                continue
            }
            let missing = max(0, size.total - connection.inbound.count)
            let taken = min(missing, bytes.count - offset)
            connection.inbound.append(UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + taken]))
            offset += taken
            guard taken == missing else {
                // A large packet on a slow line is a sign of life, as mosquitto takes it.
                if size.total - connection.inbound.count > 1000 { connection.lastReceivedAt = shard.now }
                return
            }
            handleKept(size, connection)
            if connection.hasOpenPacket { break }
        }
        if connection.hasOpenPacket {
            if offset < bytes.count { connection.inbound.append(UnsafeRawBufferPointer(rebasing: bytes[offset...])) }
        } else if connection.inbound.isEmpty, connection.state == .connected || connection.state == .awaitingConnect {
            consume(UnsafeRawBufferPointer(rebasing: bytes[offset...]), connection)
        } else if connection.state == .authenticating {
            keepUnread(UnsafeRawBufferPointer(rebasing: bytes[offset...]), of: connection)
        }
    }

    private func handleKept(_ size: (header: Int, total: Int), _ connection: Connection) {
        // The packet's memory must outlive what it causes, which may include the end of the connection.
        var packet = connection.inbound
        connection.inbound = InboundBuffer()
        handle(
            firstByte: packet.bytes[0], body: UnsafeRawBufferPointer(rebasing: packet.bytes[size.header..<size.total]), connection,
            isOfRow: false)
        if packet.count > size.total, connection.state != .closing {
            connection.inbound.append(UnsafeRawBufferPointer(rebasing: packet.bytes[size.total...]))
        }
        packet.reset()
    }

    /// Works off what was kept while a decision was awaited, or an earlier packet was worked off.
    func resumeInbound(_ connection: Connection) {
        guard !connection.inbound.isEmpty else { return }
        var kept = connection.inbound
        connection.inbound = InboundBuffer()
        consume(kept.bytes, connection)
        kept.reset()
    }

    /// The lengths of header and packet at the front of `bytes`; nil if they are not known yet, or wrong, which ends
    /// the connection.
    @inline(__always)
    private func packetSize(at bytes: UnsafeRawBufferPointer, _ connection: Connection) -> (header: Int, total: Int)? {
        switch FrameScan.scan(bytes) {
        case .packet(_, let headerLength, let bodyLength):
            let total = headerLength &+ bodyLength
            if headerLength > 2, !acceptsLength(headerLength, bodyLength, connection) { return nil }
            if total > shard.settings.packetBytesMax, total > connection.advertisedLimits?.packetBytesMax ?? 0 {
                shard.disconnecting.refuse(
                    connection, .packetTooLarge,
                    because: "a packet of \(total) bytes is larger than \(shard.settings.packetBytesMax).")
                return nil
            }
            return (headerLength, total)
        case .incomplete:
            return nil
        case .malformed(let error):
            shard.disconnecting.refuse(connection, error)
            return nil
        }
    }

    /// 5.0 wants the remaining length in as few bytes as it needs; earlier versions do not say. Before CONNECT is read
    /// the version is not known, so that the mistake is noted for then. [MQTT-1.5.5-1 v5]
    private func acceptsLength(_ headerLength: Int, _ bodyLength: Int, _ connection: Connection) -> Bool {
        if connection.state != .connected, !acceptsBeforeLogin(bodyLength, connection) { return false }
        guard VariableByteInteger.encodedSize(bodyLength) != headerLength - 1 else { return true }
        if connection.state == .awaitingConnect { connection.client.hasOverlongLength = true }
        guard connection.state == .connected, connection.version == .v5 else { return true }
        shard.disconnecting.refuse(connection, .nonMinimalVariableByteInteger)
        return false
    }

    /// Before the login no packet is larger than a CONNECT with the largest Will Payload.
    private func acceptsBeforeLogin(_ bodyLength: Int, _ connection: Connection) -> Bool {
        guard connection.isNewcomer, bodyLength > shard.settings.connectBytesMax + Limits.willPayloadBytesMax else { return true }
        shard.disconnecting.refuse(
            connection, .packetTooLarge, because: "a packet of \(bodyLength) bytes before the login is too large.")
        return false
    }

    /// Keeps what a client sends before its CONNECT is answered, within bounds. [MQTT-3.1.4-6 v5]
    private func keepUnread(_ bytes: UnsafeRawBufferPointer, of connection: Connection) {
        guard bytes.count > 0 else { return }
        guard connection.inbound.count + bytes.count <= shard.settings.packetBytesMax else {
            shard.disconnecting.refuse(connection, .packetTooLarge, because: "too much was sent before CONNACK.")
            return
        }
        connection.inbound.append(bytes)
        handleAuthWhileUnanswered(connection)
    }

    /// AUTH packets are worked off while CONNECT is not answered yet; everything else waits. [MQTT-3.1.2-30 v5]
    private func handleAuthWhileUnanswered(_ connection: Connection) {
        guard connection.extras?.authenticationMethod != nil, !connection.isLeaving else { return }
        while connection.state == .authenticating, !connection.inbound.isEmpty,
            let size = packetSize(at: connection.inbound.bytes, connection), size.total <= connection.inbound.count
        {
            handleKept(size, connection)
        }
    }

    @inline(__always)
    private func handle(firstByte: UInt8, body: UnsafeRawBufferPointer, _ connection: Connection, isOfRow: Bool) {
        connection.lastReceivedAt = shard.now
        shard.statistics.messagesReceived &+= 1
        if connection.isTraced { shard.tracing.traceReceived(firstByte, body, connection) }
        if firstByte >> 4 == PacketType.publish.rawValue, connection.state == .connected {
            shard.statistics.packetsReceived[.publish] &+= 1
            handlePublish(firstByte, body, connection, isOfRow: isOfRow)
        } else {
            handleOther(firstByte, body, connection)
        }
    }

    /// What most packets are, apart from the others: these need much room on the stack.
    private func handlePublish(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection, isOfRow: Bool) {
        do throws(WireError) {
            let view = try PublishView.decode(firstByte: firstByte, body: body, version: connection.version, from: .client)
            connection.currentSession?.with { shard.publishing.handlePublish(view, $0, connection, isOfRow: isOfRow) }
            if connection.hasOpenPacket { keepOpen(firstByte, body, of: connection) }
        } catch {
            shard.disconnecting.refuse(connection, error)
        }
    }

    /// A PUBLISH has waited for what is decided about its topic.
    func readAgain(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) {
        guard connection.state == .connected else { return }
        handlePublish(firstByte, body, connection, isOfRow: false)
    }

    private func handleOther(_ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) {
        guard let type = PacketType(rawValue: firstByte >> 4) else {
            let stranger = connection.state == .awaitingConnect ? shard.connecting.strangerWords(firstByte, body, connection) : nil
            shard.disconnecting.refuse(connection, .malformedPacket, because: stranger ?? "packet type 0 is reserved.")
            return
        }
        shard.statistics.packetsReceived[type] &+= 1
        switch connection.state {
        case .connected: handleConnected(type, firstByte, body, connection)
        case .awaitingConnect: handleFirst(type, firstByte, body, connection)
        case .authenticating: shard.authentication.handleUnanswered(type, firstByte, body, connection)
        case .closing: return
        }
    }

    /// The first packet must be CONNECT. [MQTT-3.1.0-1 v5] [MQTT-3.1.0-1 v3.1.1]
    private func handleFirst(_ type: PacketType, _ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) {
        guard type == .connect else {
            shard.disconnecting.refuse(
                connection, .protocolError,
                because: shard.connecting.strangerWords(firstByte, body, connection) ?? "the first packet was \(type), not CONNECT."
            )
            return
        }
        do {
            let packet = try ConnectPacket.decode(firstByte: firstByte, body: body)
            guard body.count - (packet.will?.payload.count ?? 0) <= shard.settings.connectBytesMax else {
                connection.version = packet.version
                shard.connecting.refuseConnect(
                    connection, .packetTooLarge, "CONNECT is larger than \(shard.settings.connectBytesMax) bytes.")
                return
            }
            shard.connecting.handleConnect(packet, connection)
        } catch {
            shard.connecting.refuseConnect(connection, error, body, firstByte: firstByte)
        }
    }

    private func handleConnected(
        _ type: PacketType, _ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection
    ) {
        do throws(WireError) {
            switch type {
            // Has been told apart before.
            case .publish: return
            case .puback, .pubrec, .pubrel, .pubcomp:
                let view = try AcknowledgementView.decode(
                    type: type, firstByte: firstByte, body: body, version: connection.version, from: .client)
                connection.currentSession?.with { shard.acknowledging.handleAcknowledgement(view, type, $0, connection) }
            case .connect:
                // A second CONNECT, whatever it holds. [MQTT-3.1.0-2 v5] [MQTT-3.1.0-2 v3.1.1]
                shard.disconnecting.refuse(connection, .protocolError, because: "CONNECT was sent twice.")
            case .pingreq, .subscribe, .unsubscribe, .disconnect, .auth, .connack, .suback, .unsuback, .pingresp:
                handleControl(
                    try ControlPacket.decode(firstByte: firstByte, body: body, version: connection.version, from: .client),
                    connection)
            }
        } catch {
            shard.disconnecting.refuse(connection, error)
        }
    }

    private func handleControl(_ packet: ControlPacket, _ connection: Connection) {
        switch packet {
        case .pingreq: handlePing(connection)
        case .subscribe(let subscribe): shard.subscribing.handleSubscribe(subscribe, connection)
        case .unsubscribe(let unsubscribe): shard.subscribing.handleUnsubscribe(unsubscribe, connection)
        case .disconnect(let disconnect): shard.disconnecting.handleDisconnect(disconnect, connection)
        case .auth(let auth): shard.authentication.handleAuth(auth, connection)
        case .connect, .connack, .publish, .acknowledgement, .suback, .unsuback, .pingresp:
            shard.disconnecting.refuse(connection, .protocolError, because: "a client does not send this packet.")
        }
    }

    /// [MQTT-3.12.4-1 v5] [MQTT-3.12.4-1 v3.1.1]
    private func handlePing(_ connection: Connection) {
        shard.log(.debug) { "Received PINGREQ from \(connection.name)" }
        connection.output.appendPingresp(pool: &shard.pool)
        shard.statistics.messagesSent &+= 1
        shard.statistics.packetsSent[.pingresp] &+= 1
        shard.markDirty(connection)
        shard.log(.debug) { "Sending PINGRESP to \(connection.name)" }
    }
}

extension Limits {
    /// Bytes of a will's payload: it has a length of two bytes. So many may come on top of the bound for the rest of a
    /// CONNECT.
    static let willPayloadBytesMax = 65_535
}

extension BrokerShard {
    /// Bytes have arrived on a connection: works off every packet that is complete and keeps the rest. What comes on a
    /// connection that is to be handed over goes with it.
    public func received(_ bytes: UnsafeRawBufferPointer, from id: ConnectionID) {
        // The table or its graveyard keeps the connection until the turn ends.
        guard let connection = connections.find(id).map({ Reference($0) }) else { return }
        connection.with { receiving.takeIn(bytes, on: $0) }
    }
}
