internal import Cryptography

/// Credentials for users that do not exist, so that asking for a user's salt does not tell whether there is such a user.
struct ScramStandIn: Sendable {
    private let secret: [UInt8]
    private let iterations: Int
    private let saltCount: Int

    /// Looks like most of the given ones. Its secret comes from them, so that a salt does not change when the broker starts again, and rarely
    /// when a user is added.
    init(for credentials: some Collection<ScramCredentials>) {
        let least = credentials.map(\.serverKey).min { $0.lexicographicallyPrecedes($1) }
        secret = HashFunction.sha256.authenticationCode(
            Array("martlet: users that are not there".utf8), key: least ?? Salt.make(count: 32))
        iterations = Self.mostCommon(credentials.map(\.iterations)) ?? ScramCredentials.iterationsStandard
        saltCount = Self.mostCommon(credentials.map(\.salt.count)) ?? 16
    }

    func credentials(of user: [UInt8]) -> ScramCredentials {
        ScramCredentials(
            iterations: iterations, salt: salt(of: user), storedKey: derived("stored", user), serverKey: derived("server", user))
    }

    private func salt(of user: [UInt8]) -> [UInt8] {
        var salt: [UInt8] = []
        while salt.count < saltCount { salt += derived("salt \(salt.count)", user) }
        return Array(salt.prefix(saltCount))
    }

    private func derived(_ purpose: String, _ user: [UInt8]) -> [UInt8] {
        HashFunction.sha256.authenticationCode(Array(purpose.utf8) + [0] + user, key: secret)
    }

    private static func mostCommon(_ values: [Int]) -> Int? {
        var counts: [Int: Int] = [:]
        for value in values { counts[value, default: 0] += 1 }
        return counts.max { ($0.value, $0.key) < ($1.value, $1.key) }?.key
    }
}
