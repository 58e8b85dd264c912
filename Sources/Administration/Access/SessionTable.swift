internal import Cryptography
internal import MQTTCodec

/// The sessions of browsers that have logged in.
///
/// Invariant: at most `Limits.sessionsMax`, and `Limits.sessionsPerIdentityMax` of one user or token; the hash of a secret finds a session, so that
/// what is in memory lets nobody in. Nobody ends the session of somebody who may do more.
struct SessionTable {
    private struct Session {
        /// With the credential that it began with.
        let identity: Identity
        /// The user who has logged in, and how.
        let owner: String
        let endsAt: UInt64
        var usedAt: UInt64
    }

    private var sessions: [[UInt8]: Session] = [:]

    /// Begins one. Returns what its cookie says, and until when it lasts; nil if there are as many as may be of those who may do more.
    mutating func make(_ identity: Identity, now: Moment) -> (secret: String, identity: Identity)? {
        end(idleAt: now)
        let owner = "\(identity.means) \(identity.name ?? "")"
        guard makeRoom(for: owner, identity.role) else { return nil }
        var identity = identity
        identity.means = .session
        let endsAt = now.milliseconds + Limits.sessionMilliseconds
        identity.expiresAt = min(
            identity.expiresAt ?? .max, now.wallMilliseconds + Limits.sessionMilliseconds)
        let secret = Secret.make()
        sessions[Self.key(secret)] = Session(
            identity: identity, owner: owner, endsAt: endsAt, usedAt: now.milliseconds)
        return (secret, identity)
    }

    /// Ends the session that was used longest ago, where there is no room for one more: of its owner, else of those who may do least.
    private mutating func makeRoom(for owner: String, _ role: AdministrationRole?) -> Bool {
        let own = sessions.filter { $0.value.owner == owner }
        let isShare = own.count >= Limits.sessionsPerIdentityMax
        guard isShare || sessions.count >= Limits.sessionsMax else { return true }
        func rank(_ session: Session) -> (Int, UInt64) { (Self.rank(session.identity.role), session.usedAt) }
        let ending = (isShare ? own : sessions).min { rank($0.value) < rank($1.value) }
        guard let ending, isShare || rank(ending.value).0 <= Self.rank(role) else { return false }
        sessions[ending.key] = nil
        return true
    }

    /// The more somebody may do, the higher.
    private static func rank(_ role: AdministrationRole?) -> Int {
        switch role {
        case nil: 0
        case .metrics: 1
        case .viewer: 2
        case .admin: 3
        }
    }

    /// Finds the identity whose session it is; nil for nobody's, and for one that is over. Being asked for keeps it.
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

    /// Ends those of users for whom `isOver` says so of their name and the role that they began with.
    mutating func end(where isOver: (EncodedString, AdministrationRole?) -> Bool) {
        sessions = sessions.filter { _, session in
            guard case .user(let name) = session.identity.credential else { return true }
            return !isOver(name, session.identity.role)
        }
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
