import BrokerModel
import MQTTCodec

/// Clients for which messages wait, looked at once a second while there are any; nobody else is looked at.
extension BrokerShard {
    /// Something waits for a client.
    @inline(__always)
    func suspect(_ connection: Connection) {
        if settings.slowClients != nil, !connection.isSuspect { addSuspect(connection) }
    }

    @inline(never)
    private func addSuspect(_ connection: Connection) {
        connection.isSuspect = true
        suspects.append(connection.id)
        armSecond()
    }

    /// Looks at some of those for which something waits, and at the others a second later.
    ///
    /// - Returns: whether any are left.
    func sweepSlowClients() -> Bool {
        guard !suspects.isEmpty else { return false }
        let due = suspects.prefix(Limits.suspectsPerSweep)
        suspects.removeFirst(due.count)
        for id in due {
            guard let connection = connections.find(id), connection.state == .connected, let session = connection.session else {
                continue
            }
            let lag = session.lagMilliseconds(now: now)
            guard lag > 0, let policy = settings.slowClients else {
                (connection.isSuspect, connection.isSlow) = (false, false)
                continue
            }
            suspects.append(id)
            if lag >= policy.milliseconds, !connection.isSlow { foundSlow(connection, session, lag, policy) }
        }
        return !suspects.isEmpty
    }

    /// How many are slow, of those that are looked at next.
    var slowClientCount: Int {
        suspects.prefix(Limits.suspectsPerSweep).count { connections.find($0)?.isSlow ?? false }
    }

    private func foundSlow(_ connection: Connection, _ session: Session, _ lag: UInt64, _ policy: SlowClientPolicy) {
        connection.isSlow = true
        reportSlow(session, lagMilliseconds: lag)
        log(.warning) {
            "Client \(session.clientIdentifier) is slow: a message has waited for it for \(lag / 1000) s, "
                + "\(session.outbox.waiting) are queued, and \(connection.output.pendingBytes) bytes are unread."
        }
        guard policy.disconnects else { return }
        refuse(connection, .quotaExceeded, because: "the client has not read a message for \(lag / 1000) seconds.")
    }
}
