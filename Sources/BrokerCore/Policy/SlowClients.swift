import BrokerModel
import MQTTCodec

/// The connections for which something waits, while slow clients matter, in the order in which they are looked at.
///
/// Invariant: a connection stands here once, as long as its `isSuspect` is set.
struct SlowClients {
    private var suspects: [ConnectionID] = []

    var isEmpty: Bool { suspects.isEmpty }

    /// The connections that are looked at next.
    var due: ArraySlice<ConnectionID> { suspects.prefix(Limits.suspectsPerSweep) }

    mutating func add(_ connection: ConnectionID) { suspects.append(connection) }

    /// Takes out those that are looked at now.
    mutating func takeDue() -> ArraySlice<ConnectionID> {
        let taken = due
        suspects.removeFirst(taken.count)
        return taken
    }
}

/// Clients for which messages wait, looked at once a second while there are any; nobody else is looked at.
struct SlowClientWatch {
    let shard: BrokerShard

    /// Something waits for a client.
    @inline(__always)
    func suspect(_ connection: Connection) {
        if shard.settings.slowClients != nil, !connection.pace.isSuspect { addSuspect(connection) }
    }

    @inline(never)
    private func addSuspect(_ connection: Connection) {
        connection.pace.isSuspect = true
        shard.policy.slowClients.add(connection.id)
        shard.presence.armSecond()
    }

    /// Looks at some of those for which something waits, and at the others a second later.
    ///
    /// - Returns: whether any are left.
    func sweepSlowClients() -> Bool {
        for id in shard.policy.slowClients.takeDue() {
            guard let connection = shard.connections.find(id), connection.state == .connected, let session = connection.session
            else {
                continue
            }
            let lag = session.lagMilliseconds(now: shard.now)
            guard lag > 0, let rule = shard.settings.slowClients else {
                (connection.pace.isSuspect, connection.pace.isSlow) = (false, false)
                continue
            }
            shard.policy.slowClients.add(id)
            if lag >= rule.milliseconds, !connection.pace.isSlow { foundSlow(connection, session, lag, rule) }
        }
        return !shard.policy.slowClients.isEmpty
    }

    /// How many are slow, of those that are looked at next.
    var slowClientCount: Int {
        shard.policy.slowClients.due.count { shard.connections.find($0)?.pace.isSlow ?? false }
    }

    private func foundSlow(_ connection: Connection, _ session: Session, _ lag: UInt64, _ rule: SlowClientPolicy) {
        connection.pace.isSlow = true
        shard.presence.reportSlow(session, lagMilliseconds: lag)
        shard.log(.warning) {
            "Client \(session.clientIdentifier) is slow: a message has waited for it for \(lag / 1000) s, "
                + "\(session.queue.waiting) are queued, and \(connection.output.pendingBytes) bytes are unread."
        }
        guard rule.disconnects else { return }
        shard.disconnecting.refuse(
            connection, .quotaExceeded, because: "the client has not read a message for \(lag / 1000) seconds.")
    }
}

extension Limits {
    /// Clients for which something waits that are looked at in one go, for whether they are slow; the others are a
    /// second later.
    static let suspectsPerSweep = 2000
}
