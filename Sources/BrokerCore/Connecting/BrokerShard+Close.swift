import BrokerModel
import MQTTCodec

/// How connections end.
extension BrokerShard {
    /// What becomes of the will of a connection that ends.
    enum WillFate {
        /// The client said goodbye: there is none any more. [MQTT-3.14.4-3 v5] [MQTT-3.1.2-10 v3.1.1]
        case discarded
        /// The will is published, after its delay. [MQTT-3.1.2-8 v5]
        case due
        /// The will stays with the session, whose next connection decides.
        case kept
    }

    /// What becomes of the will of a client that has done nothing wrong and is told that the broker goes: it is back soon, here or elsewhere.
    func willFate(ofSentAway connection: Connection) -> WillFate {
        guard !settings.publishesWillsAtStop, connection.version == .v5, !connection.isLocal, let session = connection.session
        else {
            return .due
        }
        // A session that lasts keeps it until its client is back or the session ends. What a cluster has of it would be taken for due.
        return session.expiryIntervalSeconds > 0 && session.willName == nil ? .kept : .discarded
    }

    /// Ends a connection because of what its client did: tells a 5.0 client why, and drops it. [MQTT-4.13.1-1 v5]
    func refuse(_ connection: Connection, _ reason: ReasonCode, because explanation: String, failure: LoginFailure? = nil) {
        // What came before it is valid.
        endFrameBatch()
        switch connection.state {
        case .awaitingConnect, .authenticating:
            logRefusal(of: connection, reason, because: explanation, failure: failure)
        case .connected:
            logRefusal(of: connection, reason, because: explanation, failure: failure)
            sendDisconnect(reason, to: connection, explanation: explanation)
            reportDeparture(of: connection, reason, failure?.words ?? explanation, will: .due)
            detach(connection, will: .due)
        case .closing:
            return
        }
        close(connection)
    }

    func refuse(_ connection: Connection, _ error: WireError) {
        let explanation = "\(error.explanation)"
        if connection.state == .connected {
            refuse(connection, error.reasonCode, because: explanation)
        } else {
            logRefusal(of: connection, error.reasonCode, because: explanation)
            close(connection)
        }
    }

    /// Reads nothing more; the connection ends when its output is drained, at the latest when the linger time is up.
    func close(_ connection: Connection) {
        guard connection.state != .closing else { return }
        if connection.state == .authenticating {
            abandonAuthentication(of: connection)
            _ = cluster?.start?.remove(connection.id)
        }
        connection.state = .closing
        connection.inbound.reset()
        connection.extras?.pendingConnect = nil
        if connection.hasOpenPacket { dropOpenPacket(of: connection) }
        recount(connection)
        wheel.disarm(connection.timer)
        connection.timer = wheel.arm(
            TimerSubject(kind: .connection, index: connection.id.slot, generation: connection.id.generation),
            at: now + settings.lingerMilliseconds)
        markDirty(connection)
    }

    /// Forgets a connection and has its transport closed.
    func end(_ connection: Connection) {
        guard connections.find(connection.id) != nil else { return }
        if connection.state == .authenticating {
            abandonAuthentication(of: connection)
            _ = cluster?.start?.remove(connection.id)
        }
        connection.state = .closing
        let closeReason = connection.extras?.local?.closeReason ?? .unspecifiedError
        release(connection)
        effects.append(connection.isLocal ? .local(connection.id, .closed(closeReason)) : .close(connection.id))
    }

    /// Takes a connection out of the table and frees what it holds.
    func release(_ connection: Connection) {
        wheel.disarm(connection.timer)
        connection.timer = TimerWheel.none
        connection.output.reset(arena: &arena, pool: &pool)
        connection.inbound.reset()
        if !room.ofQueues.isEmpty { room.ofQueues.remove(connection.id) }
        if !room.ofStore.isEmpty { room.ofStore.remove(connection.id) }
        if connection.isTraced { unmark(connection) }
        connection.extras = nil
        connection.hasOpenPacket = false
        recount(connection)
        connections.remove(connection)
    }

    /// Parts a connection from its session: the session waits for the client's return, or ends. [MQTT-4.1.0-2 v5]
    func detach(_ connection: Connection, will fate: WillFate) {
        guard let session = connection.session else { return }
        connection.session = nil
        session.connection = nil
        session.disconnectedAt = now
        reportDrops(of: session)
        statistics.clientsConnected -= 1
        if connection.isLocal { statistics.localClientsConnected -= 1 }
        keepFlows(of: session)
        session.outbox.rewind()
        if mayRefusePublishers { updateFullness(of: session) }
        // A session that ends leaves its groups below, as many in a turn as there is time for.
        if session.expiryIntervalSeconds > 0 { setPresence(of: session, isConnected: false) }
        if fate == .discarded { forgetWill(of: session) }
        if session.expiryIntervalSeconds == 0 {
            // The session ends with the connection, and a will that waits does so no longer. [MQTT-3.1.2-8 v5]
            endSession(session, publishesWill: fate != .kept)
            return
        }
        session.endsAt =
            session.expiryIntervalSeconds == .max ? .max : now + UInt64(session.expiryIntervalSeconds) * 1000
        if fate == .due, let will = session.will {
            let delay = UInt64(will.properties.willDelayInterval ?? 0) * 1000
            if delay == 0 {
                publishWill(of: session)
            } else {
                session.willDueAt = now + delay
            }
        }
        keep(session)
        markPresenceChanged(of: session)
        recount(session)
        armTimer(of: session)
    }

    func markDirty(_ connection: Connection) {
        guard !connection.isDirty else { return }
        connection.isDirty = true
        dirty.append(Reference(connection))
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
