internal import Cryptography

/// How passwords are hashed: the kind of hash and what it costs.
enum PasswordRecipe: Sendable, Hashable {
    case sha512
    case pbkdf2(iterations: Int)
    case argon2id(Argon2.Cost)

    /// A new hash of a password, with a salt of its own; nil when there is no memory for it.
    func hash(of password: [UInt8]) -> PasswordHash? {
        switch self {
        case .sha512:
            let salt = Salt.make(count: Self.shortSaltCount)
            return .sha512(salt: salt, digest: HashFunction.sha512.digest(password + salt))
        case .pbkdf2(let iterations):
            let salt = Salt.make(count: Self.shortSaltCount)
            let digest = HashFunction.sha512.derivedKey(password: password, salt: salt, iterations: iterations)
            return .pbkdf2(iterations: iterations, salt: salt, digest: digest)
        case .argon2id(let cost):
            let salt = Salt.make(count: Self.saltCount)
            guard let digest = Argon2.hash(password: password, salt: salt, cost: cost, count: 64) else { return nil }
            return .argon2id(cost, salt: salt, digest: digest)
        }
    }

    /// A hash with Argon2id and this salt; nil for the other kinds, and when there is no memory for it.
    func hash(of password: [UInt8], salt: [UInt8]) -> PasswordHash? {
        guard case .argon2id(let cost) = self else { return nil }
        return Argon2.hash(password: password, salt: salt, cost: cost, count: 64).map { .argon2id(cost, salt: salt, digest: $0) }
    }

    /// A hash that costs as much to check as a real one and that no password has: its digest is chance.
    func impossibleHash() -> PasswordHash {
        let salt = Salt.make(count: Self.saltCount)
        let digest = Salt.make(count: 64)
        return switch self {
        case .sha512: .sha512(salt: salt, digest: digest)
        case .pbkdf2(let iterations): .pbkdf2(iterations: iterations, salt: salt, digest: digest)
        case .argon2id(let cost): .argon2id(cost, salt: salt, digest: digest)
        }
    }

    /// In bytes. mosquitto 2.0 reads no longer ones in the kinds of hashes that it knows.
    private static let shortSaltCount = 12
    /// In bytes, as mosquitto 2.1 makes them for Argon2.
    private static let saltCount = 64
}
