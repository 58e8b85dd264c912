internal import Cryptography

/// The sessions of browsers that have logged in.
///
/// Invariant: at most `Limits.sessionsMax`; the hash of a secret finds a session, so that what is in memory lets nobody in.
struct SessionTable {
    private struct Session {
        /// With the credential that it began with.
        let identity: Identity
        let endsAt: UInt64
        var usedAt: UInt64
    }

    private var sessions: [[UInt8]: Session] = [:]

    /// Begins one. Returns what its cookie says, and until when it lasts.
    mutating func make(_ identity: Identity, now: Moment) -> (secret: String, identity: Identity) {
        end(idleAt: now)
        if sessions.count >= Limits.sessionsMax,
            let oldest = sessions.min(by: { $0.value.usedAt < $1.value.usedAt })
        {
            sessions[oldest.key] = nil
        }
        var identity = identity
        identity.means = .session
        let endsAt = now.milliseconds + Limits.sessionMilliseconds
        identity.expiresAt = min(
            identity.expiresAt ?? .max, now.wallMilliseconds + Limits.sessionMilliseconds)
        let secret = Secret.make()
        sessions[Self.key(secret)] = Session(
            identity: identity, endsAt: endsAt, usedAt: now.milliseconds)
        return (secret, identity)
    }

    /// Whose session it is; nil for nobody's, and for one that is over. Being asked for keeps it.
    mutating func find(_ secret: String, now: Moment) -> Identity? {
        let key = Self.key(secret)
        guard let session = sessions[key] else { return nil }
        guard use(key, now: now) else {
            sessions[key] = nil
            return nil
        }
        var identity = session.identity
        identity.credential = .session(key)
        return identity
    }

    /// Whether there is a session with this key: then it is not idle.
    mutating func use(_ key: [UInt8], now: Moment) -> Bool {
        guard let session = sessions[key], !Self.isOver(session, now) else { return false }
        sessions[key]?.usedAt = now.milliseconds
        return true
    }

    mutating func end(_ secret: String) { sessions[Self.key(secret)] = nil }

    /// Ends those that nobody has used.
    mutating func end(idleAt now: Moment) {
        sessions = sessions.filter { !Self.isOver($0.value, now) }
    }

    mutating func endAll() { sessions = [:] }

    /// Ends those that began with a token.
    mutating func end(of token: TokenTable.Token) {
        sessions = sessions.filter { _, session in
            if case .token(token) = session.identity.credential { false } else { true }
        }
    }

    /// Ends those of users whose login or rights are others now.
    mutating func end(ofUsers names: Set<String>) {
        sessions = sessions.filter { $0.value.identity.name.map { !names.contains($0) } ?? true }
    }

    private static func isOver(_ session: Session, _ now: Moment) -> Bool {
        session.endsAt <= now.milliseconds
            || session.usedAt + Limits.sessionIdleMilliseconds <= now.milliseconds
            || (session.identity.expiresAt ?? .max) <= now.wallMilliseconds
    }

    private static func key(_ secret: String) -> [UInt8] {
        HashFunction.sha256.digest(Array(secret.utf8))
    }
}
