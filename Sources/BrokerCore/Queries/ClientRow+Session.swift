import BrokerModel
import MQTTCodec

extension ClientRow {
    init(_ session: Session, at now: UInt64, _ position: ClientPosition? = nil) {
        let connection = session.connection?.with { ClientConnectionRow($0, at: now) }
        self.init(
            clientIdentifier: session.clientIdentifier, userName: session.userName, version: session.version,
            connection: connection, createdAt: session.createdAt == 0 ? nil : session.createdAt,
            disconnectedAt: connection != nil || session.disconnectedAt == 0 ? nil : session.disconnectedAt,
            sessionExpirySeconds: session.expiryIntervalSeconds, subscriptionCount: session.heldSubscriptions,
            queuedMessages: session.outbox.waiting, queuedBytes: session.outbox.waitingBytes,
            inFlightMessages: session.outbox.inFlight, receivedMessages: session.receivedIdentifiers.count,
            lagMilliseconds: session.lagMilliseconds(now: now), drops: session.drops,
            position: position ?? ClientPosition(value: 0, clientIdentifier: session.clientIdentifier))
    }
}

extension ClientConnectionRow {
    init(_ connection: Connection, at now: UInt64) {
        self.init(
            id: connection.id, address: connection.info.address, port: connection.info.port,
            listener: connection.isLocal ? nil : connection.info.listener, isBridge: connection.isBridge,
            cleanStart: connection.isCleanStart, connectedAt: connection.connectedAt,
            keepAliveSeconds: Int(connection.keepAliveMilliseconds / 1500), outputBytes: connection.output.pendingBytes,
            traffic: connection.traffic, rates: connection.rates(at: now))
    }
}

extension ClientDetail {
    init(_ session: Session, at now: UInt64) {
        self.init(
            row: ClientRow(session, at: now), will: session.will.map { ClientWillRow($0) }, inFlightMax: session.inFlightMax,
            packetBytesMax: session.connection?.with { Int($0.maximumPacketSize) }, mountPoint: session.mountPoint,
            info: session.connection?.with { $0.info })
    }
}

extension ClientWillRow {
    init(_ will: Will) {
        self.init(
            topic: will.topic, qos: will.qos, retain: will.retain, payloadBytes: will.payload.count,
            delayInterval: will.properties.willDelayInterval ?? 0)
    }
}

extension Session {
    /// Its subscriptions, those in share groups included.
    var heldSubscriptions: Int { Int(subscriptionCount) + groups.count }

    /// How long the oldest message that a connected client has not been sent has waited, in milliseconds; 0 for none.
    func lagMilliseconds(now: UInt64) -> UInt64 {
        guard let connection else { return 0 }
        let unwritten = connection.with { $0.isBlocked ? $0.extras?.outputLag.milliseconds(now: now) ?? 0 : 0 }
        guard let first = outbox.firstWaiting, let message = outbox[first].message else { return unwritten }
        return max(unwritten, message.with { now &- min(now, $0.madeAt / 1000) })
    }
}
