import MQTTCodec

/// Telling who comes and goes, if anybody wants to know.
extension BrokerShard {
    /// A client was let in.
    @inline(__always)
    func tellArrival(of connection: Connection, _ packet: ConnectPacket, sessionPresent: Bool) {
        if settings.tellsPresence { tellArrivalNow(of: connection, packet, sessionPresent) }
    }

    @inline(never)
    private func tellArrivalNow(of connection: Connection, _ packet: ConnectPacket, _ sessionPresent: Bool) {
        guard let session = connection.session else { return }
        effects.append(
            .presence(
                .connected(
                    ClientArrival(
                        clientIdentifier: session.clientIdentifier, session: session.key, userName: connection.userName,
                        connection: connection.id, info: connection.info, version: packet.version, cleanStart: packet.cleanStart,
                        sessionPresent: sessionPresent, keepAliveSeconds: UInt16(clamping: connection.keepAliveMilliseconds / 1500),
                        sessionExpirySeconds: session.expiryIntervalSeconds, at: now))))
    }

    /// A client's connection is about to be parted from its session.
    @inline(__always)
    func tellDeparture(of connection: Connection, _ reason: ReasonCode?, isByClient: Bool = false) {
        if settings.tellsPresence { tellDepartureNow(of: connection, reason, isByClient) }
    }

    @inline(never)
    private func tellDepartureNow(of connection: Connection, _ reason: ReasonCode?, _ isByClient: Bool) {
        guard let session = connection.session else { return }
        effects.append(
            .presence(
                .disconnected(
                    ClientDeparture(
                        clientIdentifier: session.clientIdentifier, session: session.key, userName: connection.userName,
                        connection: connection.id, info: connection.info, reason: reason, isByClient: isByClient,
                        drops: session.drops, at: now))))
    }

    /// A session is about to end.
    @inline(__always)
    func tellEnd(of session: Session) {
        if settings.tellsPresence {
            effects.append(.presence(.sessionEnded(clientIdentifier: session.clientIdentifier, session: session.key)))
        }
    }
}
