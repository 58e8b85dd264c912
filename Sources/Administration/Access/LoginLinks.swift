/// Links that each let one browser in as administrator, once: the one in the log of a broker without a configuration, and those that `martlet ctl
/// dashboard` asks for.
///
/// Invariant: at most `Limits.loginLinksMax`; the oldest gives way to another one.
struct LoginLinks {
    private struct Link {
        let secret: String
        /// Whom it was made for; nil for whoever reads the log.
        let owner: String?
        /// Milliseconds since 1970; nil for as long as the broker runs.
        let expiresAt: UInt64?
    }

    private var links: [Link] = []

    /// Makes one, and returns its secret.
    mutating func make(for owner: String?, until expiresAt: UInt64?) -> String {
        if links.count >= Limits.loginLinksMax { links.removeFirst() }
        let secret = Secret.make()
        links.append(Link(secret: secret, owner: owner, expiresAt: expiresAt))
        return secret
    }

    /// Takes the identity that comes in by a secret, which is worth nothing from then on; nil for nobody.
    mutating func take(_ secret: String, at now: UInt64) -> Identity? {
        links.removeAll { $0.expiresAt.map { $0 <= now } ?? false }
        guard let index = links.firstIndex(where: { Administration.equal($0.secret, secret) }) else { return nil }
        return Identity(name: links.remove(at: index).owner, role: .admin, means: .token)
    }
}
