public import BrokerModel
import MQTTCodec

/// How connections end.
///
///     a client that is in: dismiss, handleDisconnect, closed ─► leave ─► detach ─┐
///     one that is not:     refuseConnect, refuse ────────────────────────────────┴─► close ─► end
///
/// `detach` decides what becomes of the session and its will. `close` reads nothing more, and has the connection end
/// when its output is drained, at the latest when the linger time is up: so what a client is told goes out. `end` has
/// the transport closed and frees the memory. A transport that has ended is owed nothing, and ends at once.
struct Disconnecting {
    let shard: BrokerShard

    /// What becomes of the will of a connection that ends.
    enum WillFate {
        /// The client said goodbye: there is none any more. [MQTT-3.14.4-3 v5] [MQTT-3.1.2-10 v3.1.1]
        case discarded
        /// The will is published, after its delay. [MQTT-3.1.2-8 v5]
        case due
        /// The will stays with the session, whose next connection decides.
        case kept
    }

    // MARK: Causes

    /// Ends a connection because of what its client did: tells a 5.0 client why, and drops it. [MQTT-4.13.1-1 v5]
    func refuse(_ connection: Connection, _ reason: ReasonCode, because explanation: String, failure: LoginFailure? = nil) {
        // What came before it is valid.
        shard.dispatcher.endBatch()
        guard connection.state != .closing else { return }
        shard.logRefusal(of: connection, reason, because: explanation, failure: failure)
        guard connection.state == .connected else { return close(connection) }
        dismiss(connection, reason, telling: explanation, failure?.words ?? explanation, will: .due)
    }

    /// Ends a connection because of what its client sent; one that is not let in is told nothing.
    func refuse(_ connection: Connection, _ error: WireError) {
        let explanation = "\(error.explanation)"
        if connection.state == .connected {
            refuse(connection, error.reasonCode, because: explanation)
        } else {
            shard.logRefusal(of: connection, error.reasonCode, because: explanation)
            close(connection)
        }
    }

    /// DISCONNECT from a client.
    func handleDisconnect(_ packet: DisconnectPacket, _ connection: Connection) {
        guard let session = connection.session else { return }
        shard.log(.debug) { "Received DISCONNECT from \(connection.name)" }
        if let asked = packet.properties.sessionExpiryInterval {
            // A session that was to end with its connection cannot be prolonged now (section 3.14.2.2.2).
            if session.expiryIntervalSeconds == 0, asked != 0 {
                refuse(
                    connection, .protocolError, because: "DISCONNECT sets a Session Expiry Interval, and CONNECT had set none.")
                return
            }
            session.expiryIntervalSeconds = min(asked, shard.settings.sessionExpirySecondsMax)
        }
        if !connection.client.isLocal {
            shard.logConnection(.notice, of: connection) { "Client \(connection.name) \(connection.logPosition) disconnected." }
        }
        let fate: WillFate = packet.reasonCode == .normalDisconnection ? .discarded : .due
        leave(connection, packet.reasonCode, "the client disconnected", will: fate, isByClient: true)
        connection.output.reset(arena: &shard.arena, pool: &shard.pool)
        close(connection)
    }

    fileprivate static func closedLine(_ connection: Connection) -> String {
        let name = connection.session?.clientIdentifier ?? EncodedString()
        let place = connection.logPosition
        return .line(room: 64 + LineWriter.room(for: name) + place.utf8.count) { line in
            line.write("Client ")
            line.write(name)
            line.write(" ")
            line.write(place)
            line.write(" disconnected: connection closed by client.")
        }
    }

    /// What becomes of the will of a client that has done nothing wrong and is told that the broker goes: it is back
    /// soon, here or elsewhere.
    func willFate(ofSentAway connection: Connection) -> WillFate {
        guard !shard.settings.publishesWillsAtStop, connection.version == .v5, !connection.client.isLocal,
            let session = connection.session
        else {
            return .due
        }
        // A session that lasts keeps it until its client is back or the session ends. What a cluster has of it would be
        // taken for due.
        return session.expiryIntervalSeconds > 0 && session.willName == nil ? .kept : .discarded
    }

    // MARK: Steps

    /// Ends the connection of a client that is in, because the broker wants it so.
    ///
    /// - Parameters:
    ///   - connection: of a client that is in.
    ///   - reason: what a 5.0 client is told.
    ///   - explanation: what such a client is told in words; nil for nothing.
    ///   - reference: where it is told to go instead.
    ///   - words: why, for administrators.
    ///   - fate: what becomes of its will.
    ///   - isOwnReturn: whether its own client has come back on another connection, rather than somebody else with its
    ///     name.
    func dismiss(
        _ connection: Connection, _ reason: ReasonCode, telling explanation: String? = nil, reference: EncodedString? = nil,
        _ words: String, will fate: WillFate, isOwnReturn: Bool = false
    ) {
        shard.sending.sendDisconnect(reason, to: connection, explanation: explanation, reference: reference)
        leave(connection, reason, words, will: fate, isOwnReturn: isOwnReturn)
        close(connection)
    }

    /// Parts a client that is in from its connection, and says so to whoever wants to know.
    ///
    /// - Parameter reason: nil if nobody has given one: the transport has ended.
    fileprivate func leave(
        _ connection: Connection, _ reason: ReasonCode?, _ words: String, will fate: WillFate, isByClient: Bool = false,
        isOwnReturn: Bool = false
    ) {
        shard.presence.reportDeparture(of: connection, reason, words, will: fate, isByClient: isByClient, isOwnReturn: isOwnReturn)
        detach(connection, will: fate)
    }

    /// Parts a connection from its session: the session waits for the client's return, or ends. [MQTT-4.1.0-2 v5]
    func detach(_ connection: Connection, will fate: WillFate) {
        guard let session = connection.session else { return }
        connection.session = nil
        session.connection = nil
        session.times.disconnectedAt = shard.now
        shard.drops.reportDrops(of: session)
        shard.userBounds.connectionEnded(session)
        shard.statistics.clientsConnected -= 1
        if connection.client.isLocal { shard.statistics.localClientsConnected -= 1 }
        shard.sessionRows.keepFlows(of: session)
        session.queue.rewind()
        if shard.room.mayRefusePublishers { shard.queueRoom.updateFullness(of: session) }
        // A session that ends leaves its groups below, as many in a turn as there is time for.
        if session.expiryIntervalSeconds > 0 { shard.shareGroups.setPresence(of: session, isConnected: false) }
        if fate == .discarded { shard.moves.forgetWill(of: session) }
        if session.expiryIntervalSeconds == 0 {
            // The session ends with the connection, and a will that waits does so no longer. [MQTT-3.1.2-8 v5]
            shard.lifecycle.endSession(session, publishesWill: fate != .kept)
        } else {
            keepWaiting(session, will: fate)
        }
    }

    /// A session whose client has gone waits for it, and its will for its time.
    private func keepWaiting(_ session: Session, will fate: WillFate) {
        session.times.endsAt =
            session.expiryIntervalSeconds == .max ? .max : shard.now + UInt64(session.expiryIntervalSeconds) * 1000
        if fate == .due, let will = session.will {
            let delay = UInt64(will.properties.willDelayInterval ?? 0) * 1000
            if delay == 0 {
                shard.lifecycle.publishWill(of: session)
            } else {
                session.willDueAt = shard.now + delay
            }
        }
        shard.sessionRows.keep(session)
        shard.saves.markPresenceChanged(of: session)
        shard.memoryBound.recount(session)
        shard.lifecycle.armTimer(of: session)
    }

    /// Reads nothing more; the connection ends when its output is drained, at the latest when the linger time is up.
    func close(_ connection: Connection) {
        guard connection.state != .closing else { return }
        abandonConnect(of: connection)
        connection.state = .closing
        connection.inbound.reset()
        connection.extras?.pendingConnect = nil
        if connection.hasOpenPacket { shard.receiving.dropOpenPacket(of: connection) }
        shard.memoryBound.recount(connection)
        shard.rearm(connection, at: shard.now + shard.settings.lingerMilliseconds)
        shard.markDirty(connection)
    }

    /// Forgets a connection and has its transport closed.
    func end(_ connection: Connection) {
        guard shard.connections.find(connection.id) != nil else { return }
        abandonConnect(of: connection)
        connection.state = .closing
        let closeReason = connection.extras?.local?.closeReason ?? .unspecifiedError
        release(connection)
        shard.effects.append(connection.client.isLocal ? .local(connection.id, .closed(closeReason)) : .close(connection.id))
    }

    /// Nobody need go on with a CONNECT whose connection ends.
    private func abandonConnect(of connection: Connection) {
        guard connection.state == .authenticating else { return }
        shard.authentication.abandonAuthentication(of: connection)
        _ = shard.cluster?.start?.remove(connection.id)
    }

    /// Takes a connection out of the table and frees what it holds.
    func release(_ connection: Connection) {
        shard.wheel.disarm(connection.timer)
        connection.timer = TimerWheel.none
        connection.output.reset(arena: &shard.arena, pool: &shard.pool)
        connection.inbound.reset()
        if !shard.room.ofQueues.isEmpty { shard.room.ofQueues.remove(connection.id) }
        if !shard.room.ofStore.isEmpty { shard.room.ofStore.remove(connection.id) }
        if connection.isTraced { shard.tracing.unmark(connection) }
        connection.extras = nil
        connection.hasOpenPacket = false
        shard.memoryBound.recount(connection)
        shard.connections.remove(connection)
    }
}

extension Connection {
    /// What the log calls the connection.
    var name: String {
        knownName ?? "<unknown>"
    }

    /// Its identifier; nil before it has one.
    var knownName: String? { (session?.clientIdentifier).map { LoggedText($0.bytes).description } ?? pendingIdentifier }

    private var pendingIdentifier: String? {
        guard let identifier = extras?.pendingConnect?.clientIdentifier, !identifier.isEmpty else { return nil }
        return LoggedText(identifier.bytes).description
    }
}

extension BrokerShard {
    /// The transport has ended: the peer closed it, or it failed.
    public func closed(_ id: ConnectionID) {
        guard let connection = connections.find(id) else { return }
        if connection.state == .connected {
            // Of a bridge's client here there is nothing to tell: the bridge tells of its connection.
            if !connection.client.isLocal { logConnection(.notice, of: connection) { Disconnecting.closedLine(connection) } }
            disconnecting.leave(connection, nil, "the client closed its connection", will: .due)
        }
        disconnecting.end(connection)
    }

    /// Stops taking connections' messages: v5 clients get DISCONNECT with Server shutting down, and all connections end
    /// when their output is drained or the linger time is up.
    public func stop() {
        // What passing members leave stays on the disk then.
        if !groups.newlyLasting.isEmpty { shareGroups.keepDispatched() }
        policy.isStopping = true
        clusterLogReading.writeLogPositions()
        for connection in Array(connections.all) {
            if connection.state == .connected {
                let fate = disconnecting.willFate(ofSentAway: connection)
                disconnecting.dismiss(connection, .serverShuttingDown, "the broker is shutting down", will: fate)
            } else {
                disconnecting.close(connection)
            }
        }
    }
}
