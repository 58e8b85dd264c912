import MQTTCodec

/// Packets that take more than one turn, so that nobody waits for one client's filters.
///
/// ```
///     SUBSCRIBE ─► filter by filter, as far as the turn's steps go ─► SUBACK
///                     │ steps used up                      ▲
///                     └─► open: what its client sends      │
///                         waits in `inbound` ─► endTurn ───┘ ─► `inbound`
/// ```
/// Each filter counts as if it had come alone, as the standard has it, so that what others publish meanwhile goes to the filters that are done.
/// SUBACK leaves when all of them are. With a store their rows may stand in several batches: a crash between two leaves the first
/// ones, which nobody was told of; SUBACK waits for the last. If the connection ends before, the rest of its packet is dropped with it.
extension BrokerShard {
    /// A packet has used up the turn's steps.
    ///
    /// - Parameter heldBytes: nil for one that was not open before.
    func keepOpen(_ packet: OpenPacket, of connection: Connection, heldBytes: Int? = nil) {
        connection.makeExtras().openPacket = WaitingPacket(packet, heldBytes: heldBytes)
        connection.hasOpenPacket = true
        openPackets.append(connection.id)
        if heldBytes == nil { recount(connection) }
    }

    /// Forgets the connection's open packet.
    func dropOpenPacket(of connection: Connection) {
        connection.extras?.openPacket = nil
        connection.hasOpenPacket = false
    }

    /// Goes on with the open packets, as far as a turn's steps go, and then with what their clients have sent behind them.
    func stepOpenPackets() {
        var left = Limits.packetStepsPerTurn
        while left > 0, let id = openPackets.takeFirst() {
            guard let connection = connections.find(id), connection.hasOpenPacket else { continue }
            let slice = min(left, Limits.packetStepsPerSlice)
            openPackets.stepsLeft = slice
            goOn(connection)
            left -= max(1, slice - openPackets.stepsLeft)
        }
    }

    private func goOn(_ connection: Connection) {
        let heldBytes = connection.extras?.openPacket?.heldBytes
        // Nothing else holds it meanwhile, so that it changes in place.
        switch takeOpenPacket(of: connection) {
        case nil: return
        case .subscribe(var open):
            if !goOn(with: &open, connection) { keepOpen(.subscribe(open), of: connection, heldBytes: heldBytes) }
        case .unsubscribe(var open):
            if !goOn(with: &open, connection) { keepOpen(.unsubscribe(open), of: connection, heldBytes: heldBytes) }
        }
        // What it sends behind the packet is not read yet: it is not silent.
        connection.lastReceivedAt = now
        if !connection.hasOpenPacket, connection.state == .connected {
            receivingFrom = connection.id
            resumeInbound(connection)
        }
        if connection.state == .connected { recount(connection) }
    }

    private func takeOpenPacket(of connection: Connection) -> OpenPacket? {
        defer { dropOpenPacket(of: connection) }
        return connection.extras?.openPacket?.packet
    }

    /// The next turn's packets and sessions have their steps.
    func beginAllowances() {
        openPackets.stepsLeft = Limits.packetStepsPerTurn
        endedSessions.stepsLeft = Limits.endedStepsPerTurn
    }
}
