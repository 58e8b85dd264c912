internal import MQTTCodec
internal import Platform

/// The tokens of programs: who they are, and what their secrets hash to.
///
/// The file has a line for each, `NAME:ROLE[:EXPIRY]:SHA256`, the expiry in seconds since 1970, the hash of the whole
/// secret in hexadecimal; empty lines and those that begin with # are passed over. A secret is `mrt_` and 43
/// characters: of 256 bits nobody guesses one, so a fast hash will do.
public struct TokenTable: Sendable {
    public struct Token: Sendable, Equatable {
        public let name: String
        public let role: AdministrationRole
        /// Seconds since 1970; nil for ever.
        public let expiresAt: UInt64?
        let hash: [UInt8]

        var line: String {
            let digits = hash.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            return "\(name):\(role.rawValue)\(expiresAt.map { ":\($0)" } ?? ""):\(digits)"
        }
    }

    public private(set) var tokens: [Token] = []

    public init() {}

    /// Reads a file's text. Lines that are none are counted, not taken.
    ///
    /// - `refused`: called with the number of each line that is none, from 1.
    public init(_ text: String, refused: (Int) -> Void = { _ in }) {
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (place, line) in lines.enumerated() {
            let line = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
            guard !line.isEmpty, line.first != UInt8(ascii: "#") else { continue }
            guard let token = Self.token(String(decoding: Array(line), as: UTF8.self)),
                tokens.count < Limits.tokensMax,
                !tokens.contains(where: { $0.name == token.name })
            else {
                refused(place + 1)
                continue
            }
            tokens.append(token)
        }
    }

    private static func token(_ line: String) -> Token? {
        let parts = line.split(separator: ":", omittingEmptySubsequences: false).map { String($0) }
        guard parts.count == 3 || parts.count == 4, isName(parts[0]),
            let role = AdministrationRole(rawValue: parts[1]),
            let hash = bytes(parts[parts.count - 1])
        else { return nil }
        guard parts.count == 4 else {
            return Token(name: parts[0], role: role, expiresAt: nil, hash: hash)
        }
        // Up to the year 9999; more is none of seconds.
        guard let expiresAt = UInt64(parts[2]), expiresAt <= 253_402_300_799 else { return nil }
        return Token(name: parts[0], role: role, expiresAt: expiresAt, hash: hash)
    }

    private static func bytes(_ digits: String) -> [UInt8]? {
        let digits = Array(digits.utf8)
        guard digits.count == 64 else { return nil }
        let bytes = stride(from: 0, to: 64, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
        return bytes.count == 32 ? bytes : nil
    }

    static func isName(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    /// The file's text.
    public var text: String { tokens.map { $0.line + "\n" }.joined() }

    /// Finds the token whose secret it is; nil for nobody's, and for one that has expired.
    func find(_ secret: String, now: Moment) -> Token? {
        let hash = HashFunction.sha256.digest(Array(secret.utf8))
        // Which of them it is may show in the time, not how much of a hash is right.
        return tokens.first {
            ConstantTime.equal($0.hash, hash) && ($0.expiresAt ?? .max) > now.wallMilliseconds / 1000
        }
    }

    /// A new one with its secret; nil if there is one of that name or there are too many.
    public mutating func make(_ name: String, _ role: AdministrationRole, expiresAt: UInt64?) -> (
        token: Token, secret: String
    )? {
        guard Self.isName(name), tokens.count < Limits.tokensMax,
            !tokens.contains(where: { $0.name == name })
        else { return nil }
        let secret = "mrt_" + Secret.make()
        let token = Token(
            name: name, role: role, expiresAt: expiresAt,
            hash: HashFunction.sha256.digest(Array(secret.utf8)))
        tokens.append(token)
        return (token, secret)
    }

    /// Forgets one, and returns it; nil if there is none of that name.
    public mutating func remove(_ name: String) -> Token? {
        tokens.firstIndex { $0.name == name }.map { tokens.remove(at: $0) }
    }
}

/// What nobody guesses.
enum Secret {
    /// 256 random bits as 43 characters.
    static func make() -> String {
        Base64URL.encode(
            [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
                RandomBytes.fill(UnsafeMutableRawBufferPointer(buffer))
                count = buffer.count
            })
    }
}

/// The sessions of browsers that have logged in.
///
/// Invariant: at most `Limits.sessionsMax`, and `Limits.sessionsPerIdentityMax` of one user or token; the hash of a
/// secret finds a session, so that what is in memory lets nobody in. Nobody ends the session of somebody who may do
/// more.
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

    /// Begins one. Returns what its cookie says, and until when it lasts; nil if there are as many as may be of those
    /// who may do more.
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

    /// Ends the session that was used longest ago, where there is no room for one more: of its owner, else of those who
    /// may do least.
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

extension Limits {
    /// Sessions of browsers: of those who may do least, the one that was used longest ago goes for the next one. Nobody
    /// ends the session of somebody who may do more: then the next one is refused with 503. Bytes: 8 KiB each at most,
    /// a name is from a head of HTTP.
    static let sessionsMax = 256

    /// Sessions of one user or token: of them the one that was used longest ago goes for the next one. Bytes: 8 KiB
    /// each at most.
    static let sessionsPerIdentityMax = 16

    /// How long a session stays without a request, in milliseconds.
    static let sessionIdleMilliseconds: UInt64 = 60 * 60 * 1000

    /// How long a session stays at most, in milliseconds.
    static let sessionMilliseconds: UInt64 = 12 * 60 * 60 * 1000

    /// Tokens: no more are made. Bytes: 256 each at most.
    static let tokensMax = 1024
}
